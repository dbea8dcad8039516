// Cutters classify 64 bytes at a time into bit masks, one bit per byte, and work on these: a record or a line begins at
// the byte after its predecessor's end, so both are counted by their first bytes.
#include "cut.h"

#include <algorithm>
#include <cstring>

#include "cpu.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace headrace {
namespace {

constexpr size_t kBlock = 64;        // bytes in a mask
constexpr size_t kBlocksAtOnce = 64;  // masks made before they are used: they stay in the cache

// Sets bit i of mask b if byte 64 b + i is `wanted`.
using FindByte = void (*)(const uint8_t* data, size_t blocks, uint8_t wanted, uint64_t* masks);

uint64_t little_endian(const uint8_t* data) {
  uint64_t value = 0;
  for (size_t i = 0; i < 8; ++i) value |= uint64_t(data[i]) << (8 * i);
  return value;
}

void find_byte_portable(const uint8_t* data, size_t blocks, uint8_t wanted, uint64_t* masks) {
  constexpr uint64_t kOnes = 0x0101010101010101u, kLow = 0x7F * kOnes;
  for (size_t b = 0; b < blocks; ++b) {
    uint64_t mask = 0;
    for (size_t i = 0; i < kBlock; i += 8) {
      const uint64_t differs = little_endian(data + kBlock * b + i) ^ wanted * kOnes;
      const uint64_t equal = ~(((differs & kLow) + kLow) | differs | kLow);  // the high bit of each byte that is zero
      mask |= ((equal >> 7) * 0x0102040810204080u >> 56) << i;
    }
    masks[b] = mask;
  }
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) void find_byte_avx2(const uint8_t* data, size_t blocks, uint8_t wanted, uint64_t* masks) {
  const __m256i all = _mm256_set1_epi8(char(wanted));
  for (size_t b = 0; b < blocks; ++b) {
    const __m256i low = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(data + kBlock * b));
    const __m256i high = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(data + kBlock * b + 32));
    masks[b] = uint64_t(uint32_t(_mm256_movemask_epi8(_mm256_cmpeq_epi8(low, all)))) |
               uint64_t(uint32_t(_mm256_movemask_epi8(_mm256_cmpeq_epi8(high, all)))) << 32;
  }
}

const FindByte find_byte_fastest = cpu_features().avx2 ? find_byte_avx2 : find_byte_portable;
#else
constexpr FindByte find_byte_fastest = find_byte_portable;
#endif

int64_t count_bits(uint64_t mask) {
  mask -= mask >> 1 & 0x5555555555555555u;
  mask = (mask & 0x3333333333333333u) + (mask >> 2 & 0x3333333333333333u);
  mask = (mask + (mask >> 4)) & 0x0F0F0F0F0F0F0F0Fu;
  return int64_t(mask * 0x0101010101010101u >> 56);
}

// Bits from `first` on.
uint64_t bits_from(size_t first) { return first >= kBlock ? 0 : ~uint64_t(0) << first; }

// Take masks of where records and lines begin, in order, and choose where to cut.
class Chooser {
 public:
  Chooser(const CutInput& input, CutPoints& out)
      : out_(out),
        target_(input.target),
        group_(input.group),
        before_(input.before),
        next_(size_t(input.target)),
        rows_(input.rows - 1),
        lines_(input.lines) {}

  // `certain(offset)`: whether a record begins there, whatever bytes follow these.
  template <typename Certain>
  void take(size_t offset, uint64_t rows, uint64_t lines, Certain certain) {
    if (offset + kBlock > next_) {
      for (uint64_t left = rows & bits_from(next_ > offset ? next_ - offset : 0); left; left &= left - 1) {
        const size_t bit = size_t(__builtin_ctzll(left));
        if (offset + bit < next_) continue;
        const uint64_t after = bits_from(bit) << 1;
        const int64_t row = rows_ + count_bits(rows & ~after);
        if (group_ > 1 && (before_ + row) % group_ && offset + bit < next_ + size_t(target_)) continue;
        if (row < 1 || !certain(offset + bit)) continue;
        out_.offsets.push(int64_t(offset + bit));
        out_.rows.push(row);
        out_.lines.push(lines_ + count_bits(lines & ~after));
        next_ = offset + bit + size_t(target_);
      }
    }
    rows_ += count_bits(rows);
    lines_ += count_bits(lines);
  }

 private:
  CutPoints& out_;
  const int64_t target_, group_, before_;
  size_t next_;  // the first offset that is far enough from the last cut
  int64_t rows_, lines_;
};

// Calls `block(offset, bytes, masks)` for each 64 bytes from `start` on, of the last fewer, with a mask for each of `wanted`.
template <size_t kMasks, typename Block>
void each_block(const CutInput& input, const uint8_t (&wanted)[kMasks], Block block) {
  const FindByte find = input.portable ? find_byte_portable : find_byte_fastest;
  uint64_t found[kMasks][kBlocksAtOnce];
  uint64_t masks[kMasks];
  size_t at = input.start;
  while (input.size - at >= kBlock) {
    const size_t blocks = std::min(kBlocksAtOnce, (input.size - at) / kBlock);
    for (size_t m = 0; m < kMasks; ++m) find(input.data + at, blocks, wanted[m], found[m]);
    for (size_t b = 0; b < blocks; ++b, at += kBlock) {
      for (size_t m = 0; m < kMasks; ++m) masks[m] = found[m][b];
      block(at, kBlock, masks);
    }
  }
  if (at == input.size) return;
  uint8_t rest[kBlock] = {};
  std::memcpy(rest, input.data + at, input.size - at);
  for (size_t m = 0; m < kMasks; ++m) {
    find(rest, 1, wanted[m], masks + m);
    masks[m] &= ~bits_from(input.size - at);
  }
  block(at, input.size - at, masks);
}

// How the first bytes of lines are marked: bit 0 follows the last byte of the block before.
uint64_t behind(uint64_t mask, uint64_t last) { return mask << 1 | last; }

bool is_space(uint8_t c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

// What a byte of CSV does, given what came before it in its record.
class CsvState {
 public:
  CsvState(uint8_t delimiter, int quote) : delimiter_(delimiter), quote_(quote) {}

  // Mark the bytes within quotes, given masks of the quotes and of the bytes that end a field. False, and nothing has
  // changed, if a quote is misplaced: then bytes must be processed one by one.
  bool take_block(const uint8_t* data, uint64_t quotes, uint64_t ends, uint64_t& inside) {
    if (place_ == Place::kQuote && !ends_or_quotes(*data)) return false;
    const uint64_t quoted = place_ == Place::kQuoted ? ~uint64_t(0) : 0;
    if (!quotes) {
      inside = quoted;
      if (!quoted) place_ = ends >> 63 ? Place::kFieldStart : Place::kField;
      return true;
    }
    inside = parity(quotes) ^ quoted;
    const uint64_t opening = quotes & inside, closing = quotes & ~inside;
    const uint64_t may_open = behind(ends | quotes, place_ == Place::kFieldStart || place_ == Place::kQuote);
    const uint64_t may_close = (ends | quotes) >> 1 | uint64_t(1) << 63;  // the last one is checked with the next block
    if ((opening & ~may_open) | (closing & ~may_close)) return false;
    place_ = inside >> 63    ? Place::kQuoted
             : quotes >> 63 ? Place::kQuote
             : ends >> 63   ? Place::kFieldStart
                            : Place::kField;
    return true;
  }

  // The same, byte by byte.
  uint64_t take_bytes(const uint8_t* data, size_t size) {
    uint64_t inside = 0;
    for (size_t i = 0; i < size; ++i) {
      take(data[i]);
      inside |= uint64_t(place_ == Place::kQuoted) << i;
    }
    return inside;
  }

 private:
  // At the beginning of a field, in one without quotes, in one within quotes, after a quote in such a one.
  enum class Place { kFieldStart, kField, kQuoted, kQuote };

  bool ends_field(uint8_t c) const { return c == delimiter_ || c == '\n' || c == '\r'; }
  bool ends_or_quotes(uint8_t c) const { return ends_field(c) || c == quote_; }

  // Bit i: whether the number of bits up to i, that one included, is odd.
  static uint64_t parity(uint64_t mask) {
    for (int by = 1; by < 64; by *= 2) mask ^= mask << by;
    return mask;
  }

  void take(uint8_t c) {
    const bool quote = c == quote_;
    switch (place_) {
      case Place::kFieldStart:
        place_ = quote ? Place::kQuoted : ends_field(c) ? Place::kFieldStart : Place::kField;
        return;
      case Place::kField: place_ = ends_field(c) ? Place::kFieldStart : Place::kField; return;
      case Place::kQuoted: place_ = quote ? Place::kQuote : Place::kQuoted; return;
      case Place::kQuote: place_ = ends_field(c) ? Place::kFieldStart : Place::kQuoted; return;
    }
  }

  const uint8_t delimiter_;
  const int quote_;
  Place place_ = Place::kFieldStart;
};

}  // namespace

void cut_text(const CutInput& input, CutPoints& out) {
  Chooser chooser(input, out);
  uint64_t last = 1;
  const auto certain = [&](size_t at) {
    while (at < input.size && input.data[at] == '\r') ++at;
    return at < input.size;
  };
  each_block<1>(input, {'\n'}, [&](size_t at, size_t size, const uint64_t* masks) {
    chooser.take(at, behind(masks[0], last) & ~bits_from(size), 0, certain);
    last = masks[0] >> 63;
  });
}

void cut_json_lines(const CutInput& input, CutPoints& out) {
  Chooser chooser(input, out);
  uint64_t last = 1, first_line = 1;
  const auto blank = [&](size_t at) {
    for (; at < input.size && is_space(input.data[at]); ++at) {
      if (input.data[at] == '\n') return true;
    }
    return at == input.size;
  };
  each_block<1>(input, {'\n'}, [&](size_t at, size_t size, const uint64_t* masks) {
    const uint64_t lines = behind(masks[0], last) & ~bits_from(size);
    uint64_t rows = lines;
    for (uint64_t left = lines; left; left &= left - 1) {
      const size_t bit = size_t(__builtin_ctzll(left));
      if (input.data[at + bit] <= ' ' && blank(at + bit)) rows ^= uint64_t(1) << bit;
    }
    chooser.take(at, rows, lines ^ first_line, [](size_t) { return true; });
    last = masks[0] >> 63;
    first_line = 0;
  });
}

void cut_csv(const CutInput& input, uint8_t delimiter, int quote, CutPoints& out) {
  Chooser chooser(input, out);
  CsvState state(delimiter, quote);
  uint64_t first = 1, row_ended = 0, row_returned = 0, ended = 0, returned = 0;
  const uint8_t wanted[] = {'\n', '\r', quote < 0 ? uint8_t('\n') : uint8_t(quote), delimiter};
  each_block(input, wanted, [&](size_t at, size_t size, const uint64_t* masks) {
    const uint64_t feeds = masks[0], returns = masks[1], quotes = quote < 0 ? 0 : masks[2];
    uint64_t inside;
    if (size < kBlock || !state.take_block(input.data + at, quotes, feeds | returns | masks[3], inside)) {
      inside = state.take_bytes(input.data + at, size);
    }
    // After a carriage return, also skip a line feed.
    const uint64_t valid = ~bits_from(size), row_feeds = feeds & ~inside, row_returns = returns & ~inside;
    const uint64_t rows = behind(row_feeds, row_ended) | (behind(row_returns, row_returned) & ~feeds);
    const uint64_t lines = behind(feeds, ended) | (behind(returns, returned) & ~feeds);
    chooser.take(at, (rows | first) & valid, lines & valid, [](size_t) { return true; });
    first = 0;
    row_ended = row_feeds >> 63, row_returned = row_returns >> 63;
    ended = feeds >> 63, returned = returns >> 63;
  });
}

}  // namespace headrace
