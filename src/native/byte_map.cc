#include "byte_map.h"

#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#define HEADRACE_PACKING __attribute__((target("ssse3,popcnt")))
#endif

#include "cpu.h"
#include "parse_number.h"

namespace headrace {

bool ByteMapper::Ranges::add(uint8_t byte, uint8_t difference) {
  if (count) {
    Range& last = each[count - 1];
    if (last.low + last.width + 1 == byte && last.add == difference) {
      ++last.width;
      return true;
    }
  }
  if (count == kMost) return false;
  each[count++] = {byte, 0, difference};
  return true;
}

ByteMapper::ByteMapper(ByteMap map) : map_(map) {
  for (int byte = 0; byte < 256; ++byte) {
    const uint16_t to = map[byte];
    const bool space = to & kSpace, dropped = to & kDrop;
    if (space ? !is_space(uint8_t(byte)) || !is_space(uint8_t(to)) || dropped
              : is_space(uint8_t(byte)) || (!dropped && is_space(uint8_t(to)))) {
      splits_at_spaces_ = false;
    }
    if (dropped) {
      few_ranges_ = few_ranges_ && dropped_.add(uint8_t(byte), 0);
    } else if (uint8_t(to) != byte) {
      few_ranges_ = few_ranges_ && moved_.add(uint8_t(byte), uint8_t(to - byte));
    }
  }
}

void ByteMapper::operator()(const TextRows& text, TextMade& out) const {
#ifdef HEADRACE_PACKING
  static const bool packing = cpu_features().ssse3 && cpu_features().popcnt;
  if (packing && few_ranges_) return by_ranges(text, out);
#endif
  by_table(text, out);
}

void ByteMapper::by_table(const TextRows& text, TextMade& out) const {
  uint8_t* const first = out.values.extend(text.bytes());
  int64_t* cut = out.offsets.extend(size_t(text.rows));
  uint8_t* to = first;
  for (int64_t row = 0; row < text.rows; ++row) {
    for (const uint8_t *at = text.begin(row), *end = text.end(row); at < end; ++at) {
      const uint16_t byte = map_[*at];
      *to = uint8_t(byte);
      to += !(byte & kDrop);
    }
    *cut++ = to - first;
  }
  out.values.shrink(size_t(to - first));
}

#ifdef HEADRACE_PACKING

namespace {

constexpr size_t kWide = 16;

// kept[m]: the positions of eight bytes that stay when those with a bit in m are dropped.
struct Packing {
  uint8_t kept[256][8];
};

constexpr Packing packing_table() {
  Packing made{};
  for (unsigned mask = 0; mask < 256; ++mask) {
    unsigned to = 0;
    for (uint8_t place = 0; place < 8; ++place) {
      if (!(mask >> place & 1)) made.kept[mask][to++] = place;
    }
  }
  return made;
}

constexpr Packing kPacking = packing_table();

HEADRACE_PACKING __m128i within(__m128i bytes, __m128i low, __m128i width) {
  return _mm_cmpeq_epi8(_mm_subs_epu8(_mm_sub_epi8(bytes, low), width), _mm_setzero_si128());
}

// Write eight bytes, those that stay first, and return where these end.
HEADRACE_PACKING uint8_t* pack(__m128i bytes, uint32_t drop, uint8_t* to) {
  const __m128i places = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(kPacking.kept[drop]));
  _mm_storel_epi64(reinterpret_cast<__m128i*>(to), _mm_shuffle_epi8(bytes, places));
  return to + 8 - __builtin_popcount(drop);
}

}  // namespace

// Rows are contiguous, so that their bytes are processed as one text: a row ends where it did, minus the bytes dropped
// before.
HEADRACE_PACKING void ByteMapper::by_ranges(const TextRows& text, TextMade& out) const {
  const size_t bytes = text.bytes();
  uint8_t* const first = out.values.extend(bytes + kWide);  // the last store may write more bytes than there are
  int64_t* const cuts = out.offsets.extend(size_t(text.rows));
  const uint8_t* const begin = text.values + text.offsets[0];
  // the loop's inputs, which no byte that it writes can alias
  const size_t moved = moved_.count, dropped = dropped_.count;
  const int64_t rows = text.rows, start = text.offsets[0];
  const int64_t* const ends = text.offsets + 1;
  __m128i low[2 * kMost], width[2 * kMost], add[kMost];
  for (size_t i = 0; i < moved + dropped; ++i) {
    const Range& range = i < moved ? moved_.each[i] : dropped_.each[i - moved];
    low[i] = _mm_set1_epi8(char(range.low));
    width[i] = _mm_set1_epi8(char(range.width));
    if (i < moved) add[i] = _mm_set1_epi8(char(range.add));
  }
  uint8_t* to = first;
  int64_t row = 0;
  for (size_t at = 0; at < bytes; at += kWide) {
    const size_t count = bytes - at < kWide ? bytes - at : kWide;
    uint8_t last[kWide] = {};
    if (count < kWide) std::memcpy(last, begin + at, count);
    const __m128i here = _mm_loadu_si128(reinterpret_cast<const __m128i*>(count < kWide ? last : begin + at));
    __m128i made = here, gone = _mm_setzero_si128();
    for (size_t i = 0; i < moved; ++i) made = _mm_add_epi8(made, _mm_and_si128(within(here, low[i], width[i]), add[i]));
    for (size_t i = moved; i < moved + dropped; ++i) gone = _mm_or_si128(gone, within(here, low[i], width[i]));
    const uint32_t drop = uint32_t(_mm_movemask_epi8(gone)) | (0xffff & 0xffffu << count);
    for (; row < rows && size_t(ends[row] - start) <= at + count; ++row) {
      const size_t place = size_t(ends[row] - start) - at;
      cuts[row] = to - first + int64_t(place) - __builtin_popcount(drop & ((1u << place) - 1));
    }
    to = pack(made, drop & 0xff, to);
    to = pack(_mm_srli_si128(made, 8), drop >> 8, to);
  }
  for (; row < rows; ++row) cuts[row] = 0;  // of a text without a byte
  out.values.shrink(size_t(to - first));
}

#endif

}  // namespace headrace
