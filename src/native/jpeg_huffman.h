// The entropy code of a sequential JPEG: from bytes to the coefficients of blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>

#include "jpeg_file.h"

namespace headrace::jpeg {

constexpr int kLookupBits = 10;

// What the next bits begin with, as fields of 32 bits: how many bits the code and its value have (5), how many bits of
// the value are not in the lookup, which are all or none (4), by how many positions the coefficient is further on (7),
// and its value (16). All are 0 if the code is longer than the lookup.
struct Entry {
  uint32_t fields;

  static constexpr int kEnd = 64;  // the step of the code that ends a block: beyond any position

  int bits() const { return int(fields & 31); }
  int value_bits() const { return int(fields >> 5 & 15); }
  int step() const { return int(fields >> 9 & 127); }
  int value() const { return int32_t(fields) >> 16; }
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

 private:
  void unstuff();

  const uint8_t* data_ = nullptr;
  size_t size_ = 0, at_ = 0, capacity_ = 0;
  int restarts_ = 0;
  std::unique_ptr<uint8_t[]> bytes_;
  BitReader reader_;
};

struct BlockTables {
  const HuffmanTable *dc, *ac;
};

// Decode a block into `coefficients`, which are 0. Returns the zigzag position of the last one, or -1 if the code is
// wrong. `last_dc` is updated.
int decode_block(BitReader& reader, BlockTables tables, int& last_dc, int16_t* coefficients);

// Read over a block; whether its code is right.
bool skip_block(BitReader& reader, BlockTables tables, int& last_dc);

}  // namespace headrace::jpeg
