// The entropy code of a sequential JPEG: from bytes to the coefficients of blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>

#include "cpu.h"
#include "jpeg_file.h"

namespace headrace::jpeg {

constexpr int kLookupBits = 10;
constexpr int kLast = kBlock * kBlock - 1;
constexpr int kZeros = 0xF0;  // the AC code of 16 coefficients that are 0

// What the next bits begin with: a code and its value; for AC codes also the next coefficient or the end of the block, if
// the lookup has all bits of it. `step` is how far a coefficient is from the one before.
struct Entry {
  uint64_t fields;

  static constexpr uint64_t kEnds = 1 << 18;
  static constexpr int kOther = 127;  // the step of a code that is no coefficient, or longer than the lookup

  int bits() const { return int(fields & 63); }  // of all that the entry stands for; 0 if the code has to be looked for
  int step() const { return int(fields >> 6 & 127); }
  int second_step() const { return int(fields >> 13 & 31); }  // 0 if there is no second coefficient
  bool ends() const { return fields & kEnds; }
  int second_value() const { return int16_t(fields >> 48); }

  // Of the first code with its value: 64 less their bits, and the value, from the bits that the entry was found for. It
  // is their sum with a number that takes away the code, and 2^n - 1 if the value has n bits of which the first is 0.
  int first_shift() const { return int(fields >> 19 & 63); }
  int first_value(uint64_t bits) const { return int16_t(uint16_t(bits >> first_shift()) + uint16_t(fields >> 32)); }
};

struct HuffmanTable {
  HuffmanCode code;  // that the table was built from
  Entry lookup[1 << kLookupBits];
  uint32_t limits[18];  // codes of 16 bits below limits[n] have at most n bits
  int32_t offsets[17];  // from a code of n bits to its symbol
};

// Build a table; false if it is not a prefix code that libjpeg accepts. Does nothing if it is the same code as before.
bool build(const HuffmanCode& code, bool is_dc, HuffmanTable& table);

// Bits from the most significant on, of bytes that are followed by kPadding zeros.
struct BitReader {
  uint64_t bits = 0;
  int count = 0;  // how many bits are valid
  const uint8_t* at = nullptr;
  const uint8_t* end = nullptr;

  void refill() {  // to 56 bits or more
    uint64_t next;
    std::memcpy(&next, at, 8);
    bits |= __builtin_bswap64(next) >> count;
    at += (63 - count) >> 3;
    count |= 56;
  }
  void drop(int number) {
    bits <<= number;
    count -= number;
  }
  int64_t unread() const { return (end - at) * 8 + count; }
};

// A block takes at most 64 × (16 + 15) bits. Readers are checked before each block.
constexpr size_t kPadding = 64 * 31 / 8 + 4 * sizeof(uint64_t);

// The entropy-coded data of a scan, one restart interval after the other, without stuffed bytes.
class ScanData {
 public:
  // Start with the first interval, at this offset.
  void open(const uint8_t* data, size_t size, size_t offset);
  BitReader reader() const { return reader_; }
  // Go on to the next interval, if the marker of its start is there.
  bool next();
  bool at_end_of_image() const;
  // Keep no memory of a large file for the next one.
  void trim();

 private:
  void unstuff();

  static constexpr size_t kMostKept = 1 << 20;

  const uint8_t* data_ = nullptr;
  size_t size_ = 0, at_ = 0, capacity_ = 0;
  int restarts_ = 0;
  std::unique_ptr<uint8_t[]> bytes_;
  BitReader reader_;
};

struct BlockTables {
  const HuffmanTable *dc, *ac;
};

struct LongCode {
  int length, symbol;  // the length is 0 if there is no such code
};
// The code of kLookupBits or more that these bits begin with.
LongCode long_code(uint64_t bits, const HuffmanTable& table);

// The value in the last `size` of these bits: those that begin with 0 are negative.
inline int value_of(uint64_t bits, int size) {
  const int ones = (1 << size) - 1, value = int(bits) & ones;
  return value - (value <= ones >> 1 ? ones : 0);
}

HEADRACE_INLINE bool read_dc(BitReader& reader, const HuffmanTable& table, int& last_dc) {
  if (reader.unread() < 0) return false;
  reader.refill();
  const Entry found = table.lookup[reader.bits >> (64 - kLookupBits)];
  int bits = found.bits(), difference = found.first_value(reader.bits);
  if (bits == 0) [[unlikely]] {
    const LongCode code = long_code(reader.bits, table);
    if (code.length == 0) return false;
    bits = code.length + code.symbol;
    difference = value_of(reader.bits >> (64 - bits), code.symbol);
  }
  last_dc += difference;
  reader.drop(bits);
  return last_dc >= INT16_MIN && last_dc <= INT16_MAX;
}

enum class Read { kMore, kEnd, kWrong };

// The end of a block, the last coefficient of one, or a code that is longer than the lookup.
template <bool kStored>
HEADRACE_INLINE Read read_other(BitReader& reader, const HuffmanTable& table, Entry found, int& position, int16_t* coefficients) {
  if (found.step() != Entry::kOther) {
    position += found.step();
    if (kStored) coefficients[kPlaces[kLast]] = int16_t(found.first_value(reader.bits));
    reader.drop(64 - found.first_shift());
    return position == kLast ? Read::kEnd : Read::kWrong;
  }
  if (found.bits()) {
    reader.drop(found.bits());
    return found.ends() ? Read::kEnd : Read::kWrong;
  }
  const LongCode code = long_code(reader.bits, table);
  const int size = code.symbol & 15, bits = code.length + size;
  if (code.length == 0) return Read::kWrong;
  const int value = value_of(reader.bits >> (64 - bits), size);
  reader.drop(bits);
  if (code.symbol == 0) return Read::kEnd;
  position += (code.symbol >> 4) + 1;
  if (position > kLast || (size == 0 && code.symbol != kZeros)) return Read::kWrong;
  if (kStored) coefficients[kPlaces[position]] = int16_t(value);
  return position == kLast ? Read::kEnd : Read::kMore;
}

// Decode a block into `coefficients`, which are 0. Returns the zigzag position of the last one, or -1 if the code is
// wrong. `last_dc` is updated. If not `kStored`, the block is read over.
template <bool kStored>
HEADRACE_INLINE int decode_block(BitReader& reader, BlockTables tables, int& last_dc, int16_t* coefficients) {
  if (!read_dc(reader, *tables.dc, last_dc)) return -1;
  if (kStored) coefficients[0] = int16_t(last_dc);
  const HuffmanTable& table = *tables.ac;
  const Entry* const lookup = table.lookup;
  int position = 0;
  while (true) {
    reader.refill();
    for (int i = 0; i < 2; ++i) {
      const Entry found = lookup[reader.bits >> (64 - kLookupBits)];
      const int first = position + found.step();
      if (first >= kLast) [[unlikely]] {
        const Read read = read_other<kStored>(reader, table, found, position, coefficients);
        if (read == Read::kMore) break;
        return read == Read::kEnd ? position : -1;
      }
      position = first + found.second_step();
      if (kStored) {
        coefficients[kPlaces[position]] = int16_t(found.second_value());
        // At the same place if there is no second one.
        coefficients[kPlaces[first]] = int16_t(found.first_value(reader.bits));
      }
      reader.drop(found.bits());
      if (found.ends()) return first;
      if (position >= kLast) return position == kLast ? position : -1;
    }
  }
}

}  // namespace headrace::jpeg
