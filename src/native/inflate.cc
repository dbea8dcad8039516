#include "inflate.h"

#include "cpu.h"
#include "image.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace headrace {
namespace {

using CrcTables = std::array<std::array<uint32_t, 256>, 8>;

constexpr CrcTables crc_tables() {
  CrcTables made{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) value = value >> 1 ^ (value & 1 ? 0xEDB88320u : 0);
    made[0][i] = value;
  }
  for (size_t k = 1; k < 8; ++k) {
    for (size_t i = 0; i < 256; ++i) made[k][i] = made[k - 1][i] >> 8 ^ made[0][made[k - 1][i] & 0xFF];
  }
  return made;
}

constexpr CrcTables kCrc = crc_tables();

constexpr int kLongest = 15;       // bits of a code
constexpr int kSymbols = 288;      // of the alphabet of literals and lengths, the larger one
constexpr int kLiteralBits = 10;   // of the first table; codes that are longer have a second one
constexpr int kDistanceBits = 8;

// A table entry: the bits of the code, its type, and a literal, the smallest length or distance, or the offset of the
// second table. For a length or a distance, the type is the number of extra bits.
using Entry = uint32_t;
enum : uint32_t { kLiteral = 0x80, kMore = 0x40, kEnd = 0x20, kInvalid = 0x60 };
constexpr Entry entry_of(uint32_t what, uint32_t value) { return value << 16 | what << 8; }
constexpr uint32_t what_of(Entry entry) { return entry >> 8 & 0xFF; }
constexpr uint32_t value_of(Entry entry) { return entry >> 16; }

// Two codes at least share a second table, so there are half as many of them as symbols at most.
template <int kFirst, int kCodes>
struct Table {
  Entry entries[(1 << kFirst) + kCodes / 2 * (1 << (kLongest - kFirst))];
  uint32_t mask = 0;  // of the bits that choose from the first table
};

using LiteralTable = Table<kLiteralBits, kSymbols>;
using DistanceTable = Table<kDistanceBits, 32>;

// Bits from the lowest of each byte on. Bits beyond the end read as 0, and are counted.
class BitReader {
 public:
  BitReader(const uint8_t* data, size_t size) : at_(data), end_(data + size) {}

  // At least 56 bits are there afterwards.
  void fill() {
    if (end_ - at_ >= 8) {
      uint64_t word;
      std::memcpy(&word, at_, 8);
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
      word = __builtin_bswap64(word);
#endif
      bits_ |= word << count_;
      at_ += (63 - count_) >> 3;
      count_ |= 56;
      return;
    }
    while (count_ < 56) {
      if (at_ < end_) {
        bits_ |= uint64_t(*at_++) << count_;
      } else {
        ++beyond_;
      }
      count_ += 8;
    }
  }

  uint32_t peek_masked(uint32_t mask) const { return uint32_t(bits_) & mask; }
  uint32_t peek(uint32_t count) const { return uint32_t(bits_) & ((1u << count) - 1); }
  void drop(uint32_t count) {
    bits_ >>= count & 63;
    count_ -= count;
  }
  uint32_t take(uint32_t count) {
    const uint32_t made = peek(count);
    drop(count);
    return made;
  }
  void drop_code(Entry entry) {
    bits_ >>= entry & 63;
    count_ -= entry & 0xFF;
  }

  // Whether `fill` can load a full word.
  bool plenty() const { return end_ - at_ >= 8; }

  // Whether bits beyond the end were used.
  bool overrun() const { return size_t(count_ >> 3) < beyond_; }

  // Return unused whole bytes, and drop the rest of the one that was begun.
  const uint8_t* align() {
    drop(count_ & 7);
    const size_t held = count_ >> 3;
    if (held < beyond_) return nullptr;
    at_ -= held - beyond_;
    bits_ = count_ = 0;
    beyond_ = 0;
    return at_;
  }
  const uint8_t* end() const { return end_; }
  void skip_to(const uint8_t* at) { at_ = at; }

 private:
  const uint8_t* at_;
  const uint8_t* end_;
  uint64_t bits_ = 0;
  unsigned count_ = 0;
  size_t beyond_ = 0;
};

constexpr uint16_t kLengths[] = {3,  4,  5,  6,  7,  8,  9,  10, 11,  13,  15,  17,  19,  23, 27,
                                 31, 35, 43, 51, 59, 67, 83, 99, 115, 131, 163, 195, 227, 258};
constexpr uint8_t kLengthExtra[] = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0};
constexpr uint16_t kDistances[] = {1,   2,   3,   4,   5,   7,    9,    13,   17,   25,   33,   49,   65,    97,    129,
                                   193, 257, 385, 513, 769, 1025, 1537, 2049, 3073, 4097, 6145, 8193, 12289, 16385, 24577};

template <int kCount, typename Make>
constexpr std::array<Entry, kCount> entries_of(Make make) {
  std::array<Entry, kCount> made{};
  for (uint32_t i = 0; i < kCount; ++i) made[i] = make(i);
  return made;
}

constexpr auto kLiteralEntries = entries_of<kSymbols>([](uint32_t symbol) {
  if (symbol < 256) return entry_of(kLiteral, symbol);
  if (symbol == 256) return entry_of(kEnd, 0);
  return symbol > 285 ? entry_of(kInvalid, 0) : entry_of(kLengthExtra[symbol - 257], kLengths[symbol - 257]);
});
constexpr auto kDistanceEntries = entries_of<32>([](uint32_t symbol) {
  return symbol > 29 ? entry_of(kInvalid, 0) : entry_of(symbol < 2 ? 0 : symbol / 2 - 1, kDistances[symbol]);
});
constexpr auto kLengthEntries = entries_of<19>([](uint32_t symbol) { return entry_of(kLiteral, symbol); });

// The table of a canonical code with these lengths; false if there is no such code. An incomplete code is accepted only
// if it has a single code, of one bit, or none.
template <int kFirst, int kCodes>
bool build(Table<kFirst, kCodes>& table, const uint8_t* lengths, int symbols, const Entry* made_of) {
  int several[4][kLongest + 1] = {};  // a single histogram would stall on repeated lengths
  for (int i = 0; i < symbols; ++i) ++several[i % 4][lengths[i]];
  int counts[kLongest + 1] = {};
  for (int i = 1; i <= kLongest; ++i) counts[i] = several[0][i] + several[1][i] + several[2][i] + several[3][i];
  int longest = kLongest;
  while (longest > 0 && !counts[longest]) --longest;
  int left = 1;
  for (int bits = 1; bits <= kLongest; ++bits) {
    left = 2 * left - counts[bits];
    if (left < 0) return false;
  }
  Entry* const entries = table.entries;
  if (left > 0) {
    if (longest > 1) return false;
    table.mask = 1;
    entries[0] = entries[1] = entry_of(kInvalid, 0);
    for (int i = 0; i < symbols; ++i) {
      if (lengths[i]) entries[0] = made_of[i] | 1;
    }
    return true;
  }
  Entry sorted[kCodes];
  int places[kLongest + 1] = {};
  for (int bits = 1; bits < kLongest; ++bits) places[bits + 1] = places[bits] + counts[bits];
  for (int i = 0; i < symbols; ++i) {
    if (lengths[i]) sorted[places[lengths[i]]++] = made_of[i] | lengths[i];
  }

  const int first = std::min(kFirst, longest), second = longest - first;
  table.mask = (1u << first) - 1;
  uint32_t code = 0;  // with its bits in the order in which they are read
  const auto next = [&code](int bits) {
    const uint32_t zeros = ~code & ((1u << bits) - 1);
    const uint32_t bit = zeros ? 1u << (31 - __builtin_clz(zeros)) : 0;
    code = bit ? (code & (bit - 1)) | bit : 0;
  };
  const Entry* from = sorted;
  int bits = 1;
  // An entry is repeated at every index that ends in its code: the table is doubled as codes grow.
  for (; bits <= first; ++bits) {
    for (int n = counts[bits]; n > 0; --n) {
      entries[code] = *from++;
      next(bits);
    }
    if (bits < first) std::copy_n(entries, 1 << bits, entries + (1 << bits));
  }
  uint32_t room = 1u << first, prefix = uint32_t(-1), start = 0;
  for (; bits <= longest; ++bits) {
    for (int n = counts[bits]; n > 0; --n) {
      if ((code & ((1u << first) - 1)) != prefix) {
        prefix = code & ((1u << first) - 1);
        start = room;
        room += 1u << second;
        entries[prefix] = entry_of(kMore | uint32_t(second), start) | uint32_t(first);
      }
      const Entry entry = *from++ - uint32_t(first);
      for (uint32_t place = code >> first; place < 1u << second; place += 1u << (bits - first)) entries[start + place] = entry;
      next(bits);
    }
  }
  return true;
}

template <int kFirst, int kCodes>
Entry look_up_second(const Table<kFirst, kCodes>& table, BitReader& bits, Entry found) {
  bits.drop_code(found);
  return table.entries[value_of(found) + bits.peek(what_of(found) & 0x1F)];
}

template <int kFirst, int kCodes>
Entry look_up(const Table<kFirst, kCodes>& table, BitReader& bits) {
  Entry found = table.entries[bits.peek_masked(table.mask)];
  if ((what_of(found) & kInvalid) == kMore) found = look_up_second(table, bits, found);
  bits.drop_code(found);
  return found;
}

struct FixedCodes {
  LiteralTable literals;
  DistanceTable distances;

  FixedCodes() {
    uint8_t lengths[kSymbols];
    std::fill_n(lengths, 144, uint8_t(8));
    std::fill_n(lengths + 144, 112, uint8_t(9));
    std::fill_n(lengths + 256, 24, uint8_t(7));
    std::fill_n(lengths + 280, 8, uint8_t(8));
    build(literals, lengths, kSymbols, kLiteralEntries.data());
    std::fill_n(lengths, 32, uint8_t(5));
    build(distances, lengths, 32, kDistanceEntries.data());
  }
};

class Inflater {
 public:
  Inflater(const uint8_t* data, size_t size, size_t window, uint8_t* out, size_t out_size)
      : bits_(data, size), window_(window), begin_(out), at_(out), end_(out + out_size) {}

  // Where the input continues, or null.
  const uint8_t* run() {
    for (bool last = false; !last;) {
      bits_.fill();
      last = bits_.take(1);
      const uint32_t kind = bits_.take(2);
      const bool whole = kind == 0   ? stored()
                         : kind == 1 ? fixed_codes()
                                     : kind == 2 && dynamic_codes() && codes(literals_, distances_);
      if (!whole || bits_.overrun()) return nullptr;
    }
    return at_ == end_ ? bits_.align() : nullptr;
  }

 private:
  bool stored() {
    const uint8_t* from = bits_.align();
    if (!from || bits_.end() - from < 4) return false;
    const size_t count = size_t(from[0] | from[1] << 8), check = size_t(from[2] | from[3] << 8);
    from += 4;
    if (count != (check ^ 0xFFFF) || count > size_t(bits_.end() - from) || count > size_t(end_ - at_)) return false;
    if (count) std::memcpy(at_, from, count);
    at_ += count;
    bits_.skip_to(from + count);
    return true;
  }

  bool fixed_codes() {
    static const FixedCodes fixed;
    return codes(fixed.literals, fixed.distances);
  }

  bool dynamic_codes() {
    static constexpr uint8_t kOrder[] = {16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15};
    const int literals = int(bits_.take(5)) + 257, distances = int(bits_.take(5)) + 1, given = int(bits_.take(4)) + 4;
    if (literals > 286 || distances > 30) return false;
    uint8_t lengths[kSymbols + 32] = {};
    bits_.fill();
    for (int i = 0; i < given; ++i) {
      if (i == 12) bits_.fill();
      lengths[kOrder[i]] = uint8_t(bits_.take(3));
    }
    Table<7, 19> table;
    if (!build(table, lengths, 19, kLengthEntries.data()) || what_of(table.entries[1]) == kInvalid) {
      return false;
    }
    std::memset(lengths, 0, 19);
    const int total = literals + distances;
    for (int at = 0; at < total;) {
      bits_.fill();
      const int symbol = int(value_of(look_up(table, bits_)));
      if (symbol < 16) {
        lengths[at++] = uint8_t(symbol);
        continue;
      }
      if (symbol == 16 && at == 0) return false;
      const uint8_t again = symbol == 16 ? lengths[at - 1] : 0;
      const int times = symbol == 16 ? 3 + int(bits_.take(2)) : symbol == 17 ? 3 + int(bits_.take(3)) : 11 + int(bits_.take(7));
      if (times > total - at) return false;
      std::fill_n(lengths + at, times, again);
      at += times;
    }
    if (!lengths[256] || bits_.overrun()) return false;  // nothing would ever end it
    return build(literals_, lengths, literals, kLiteralEntries.data()) &&
           build(distances_, lengths + literals, distances, kDistanceEntries.data());
  }

  bool codes(const LiteralTable& literals, const DistanceTable& distances) {
    BitReader bits = bits_;  // copies that the compiler can keep in registers
    uint8_t* at = at_;
    const bool whole = codes(literals, distances, bits, at);
    bits_ = bits;
    at_ = at;
    return whole;
  }

  bool codes(const LiteralTable& literals, const DistanceTable& distances, BitReader& bits, uint8_t*& at) const {
    while (bits.plenty() && end_ - at >= 5) {
      bits.fill();  // 56 bits are five literals of the first table, or four and any other code
      Entry found = literals.entries[bits.peek_masked(literals.mask)];
      for (int i = 0; i < 4 && what_of(found) & kLiteral; ++i) {
        *at++ = uint8_t(value_of(found));
        bits.drop_code(found);
        found = literals.entries[bits.peek_masked(literals.mask)];
      }
      if ((what_of(found) & kInvalid) == kMore) found = look_up_second(literals, bits, found);
      bits.drop_code(found);
      if (what_of(found) & kLiteral) {
        *at++ = uint8_t(value_of(found));
        continue;
      }
      if (what_of(found) & kEnd) return what_of(found) == kEnd;
      bits.fill();
      if (!repeat(found, distances, bits, at)) return false;
    }
    for (;;) {
      bits.fill();
      const Entry found = look_up(literals, bits);
      if (what_of(found) & kLiteral) {
        if (at == end_ || bits.overrun()) return false;
        *at++ = uint8_t(value_of(found));
      } else if (what_of(found) & kEnd) {
        return what_of(found) == kEnd;
      } else if (!repeat(found, distances, bits, at) || bits.overrun()) {
        return false;
      }
    }
  }

  // Decode a length and the distance after it; with what follows they are 33 bits at most.
  bool repeat(Entry found, const DistanceTable& distances, BitReader& bits, uint8_t*& at) const {
    const size_t length = value_of(found) + bits.take(what_of(found));
    found = look_up(distances, bits);
    if (what_of(found) == kInvalid) return false;
    const size_t distance = value_of(found) + bits.take(what_of(found));
    if (length > size_t(end_ - at) || distance > std::min(size_t(at - begin_), window_)) return false;
    copy(at, distance, length);
    at += length;
    return true;
  }

  // Copy bytes from `distance` before, which may overlap those being written.
  static void copy(uint8_t* to, size_t distance, size_t length) {
    const uint8_t* from = to - distance;
    if (distance >= 8) {  // also beyond the end, which is not written yet
      for (size_t i = 0; i < length; i += 8) std::memcpy(to + i, from + i, 8);
    } else if (distance == 1) {
      std::memset(to, *from, length);
    } else {
      for (size_t i = 0; i < length; ++i) to[i] = from[i];
    }
  }

  BitReader bits_;
  const size_t window_;
  uint8_t* const begin_;
  uint8_t* at_;
  uint8_t* const end_;
  LiteralTable literals_;
  DistanceTable distances_;
};

}  // namespace

uint32_t crc32(const uint8_t* at, size_t size) {
  uint32_t crc = ~0u;
  for (; size >= 8; size -= 8, at += 8) {
    const uint32_t low = crc ^ (uint32_t(at[3]) << 24 | uint32_t(at[2]) << 16 | uint32_t(at[1]) << 8 | at[0]);
    crc = kCrc[7][low & 0xFF] ^ kCrc[6][low >> 8 & 0xFF] ^ kCrc[5][low >> 16 & 0xFF] ^ kCrc[4][low >> 24] ^ kCrc[3][at[4]] ^
          kCrc[2][at[5]] ^ kCrc[1][at[6]] ^ kCrc[0][at[7]];
  }
  for (; size > 0; --size) crc = crc >> 8 ^ kCrc[0][(crc ^ *at++) & 0xFF];
  return ~crc;
}

HEADRACE_INLINE uint32_t adler32_inline(const uint8_t* data, size_t size) {
  constexpr uint32_t kModulus = 65521;
  uint32_t sum = 1, sums = 0;
  while (size > 0) {
    size_t count = std::min<size_t>(size, 5536);  // no sum overflows before this
    size -= count;
    for (; count >= 32; count -= 32, data += 32) {
      uint32_t plain = 0, weighted = 0;
      for (uint32_t i = 0; i < 32; ++i) {
        plain += data[i];
        weighted += (32 - i) * data[i];
      }
      sums += 32 * sum + weighted;
      sum += plain;
    }
    for (; count > 0; --count) {
      sum += *data++;
      sums += sum;
    }
    sum %= kModulus;
    sums %= kModulus;
  }
  return sums << 16 | sum;
}
HEADRACE_DISPATCH(uint32_t, adler32, (const uint8_t* data, size_t size), (data, size))

bool inflate_zlib(const uint8_t* data, size_t size, uint8_t* out, size_t out_size) {
  if (size < 6) return false;
  const unsigned head = unsigned(data[0] << 8 | data[1]);
  // Preset dictionaries are not supported.
  if (head % 31 || (data[0] & 0x0F) != 8 || data[0] >> 4 > 7 || data[1] & 0x20) return false;
  Inflater inflater(data + 2, size - 2, size_t(1) << (8 + (data[0] >> 4)), out, out_size);
  const uint8_t* rest = inflater.run();
  if (!rest || data + size - rest != 4) return false;
  const uint32_t stored = uint32_t(rest[0]) << 24 | uint32_t(rest[1]) << 16 | uint32_t(rest[2]) << 8 | rest[3];
  return stored == adler32(out, out_size);
}

}  // namespace headrace
