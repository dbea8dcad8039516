#include "jpeg_huffman.h"

#include <algorithm>

#include "cpu.h"

namespace headrace::jpeg {
namespace {

constexpr int kLast = kBlock * kBlock - 1;
constexpr int kMostDc = 15;  // bits of a difference

Entry entry(int bits, int value_bits, int step, int value) {
  return {uint32_t(bits | value_bits << 5 | step << 9) | uint32_t(value) << 16};
}

// A value of `size` bits: those that begin with 0 are negative.
inline int extend(int bits, int size) { return bits < 1 << (size - 1) ? bits - (1 << size) + 1 : bits; }

struct Code {
  int length, symbol;  // the length is 0 if there is no such code
};

// The code of more than kLookupBits that these bits begin with.
Code long_code(uint64_t bits, const HuffmanTable& table) {
  const uint32_t next = uint32_t(bits >> 48);
  for (int length = kLookupBits + 1; length <= 16; ++length) {
    if (next >= table.limits[length]) continue;
    return {length, table.code.symbols[uint8_t(int(next >> (16 - length)) + table.offsets[length])]};
  }
  return {0, 0};
}

// The value in the next bits, of which 25 or more are valid.
inline int read_value(BitReader& reader, int size) {
  if (size == 0) return 0;
  const int value = int(reader.bits >> (64 - size));
  reader.drop(size);
  return extend(value, size);
}

inline bool read_dc(BitReader& reader, const HuffmanTable& table, int& last_dc) {
  if (reader.unread() < 0) return false;
  reader.refill();
  const Entry found = table.lookup[reader.bits >> (64 - kLookupBits)];
  int difference = found.value();
  if (found.step() == 0) {
    const Code code = long_code(reader.bits, table);
    if (code.length == 0) return false;
    reader.drop(code.length);
    difference = read_value(reader, code.symbol);
  } else if (found.value_bits()) {
    reader.drop(found.bits() - found.value_bits());
    difference = read_value(reader, found.value_bits());
  } else {
    reader.drop(found.bits());
  }
  last_dc += difference;
  return last_dc >= INT16_MIN && last_dc <= INT16_MAX;
}

// The coefficients after the first. `kStored` is false for blocks that are not looked at.
template <bool kStored>
inline int read_ac(BitReader& reader, const HuffmanTable& table, int16_t* coefficients) {
  int position = 0;
  while (position < kLast) {
    const Entry found = table.lookup[reader.bits >> (64 - kLookupBits)];
    reader.refill();
    int step = found.step(), value = found.value();
    if (step == 0) {
      const Code code = long_code(reader.bits, table);
      const int size = code.symbol & 15;
      if (code.length == 0 || (size == 0 && code.symbol != 0xF0 && code.symbol != 0)) return -1;
      reader.drop(code.length);
      step = code.symbol ? (code.symbol >> 4) + 1 : Entry::kEnd;
      value = read_value(reader, size);
    } else if (kStored && found.value_bits()) {
      reader.drop(found.bits() - found.value_bits());
      value = read_value(reader, found.value_bits());
    } else {
      reader.drop(found.bits());
    }
    const int next = position + step;
    if (next > kLast) return step == Entry::kEnd ? position : -1;
    position = next;
    if (kStored) coefficients[kPlaces[position]] = int16_t(value);
  }
  return position;
}

}  // namespace

bool build(const HuffmanCode& code, bool is_dc, HuffmanTable& table) {
  if (table.code.known && std::memcmp(&table.code, &code, sizeof code) == 0) return true;
  table.code.known = false;
  std::fill_n(table.lookup, 1 << kLookupBits, entry(0, 0, 0, 0));
  uint32_t next = 0;
  int symbols = 0;
  table.limits[0] = 0;
  for (int length = 1; length <= 16; ++length, next <<= 1) {
    table.offsets[length] = symbols - int(next);
    const int count = code.counts[length];
    if (next + uint32_t(count) >= uint32_t(1) << length && count) return false;  // no code has only ones
    for (int i = 0; i < count; ++i, ++next, ++symbols) {
      const int symbol = code.symbols[symbols], size = symbol & 15;
      int step = (symbol >> 4) + 1;
      if (is_dc && symbol > kMostDc) return false;
      if (length > kLookupBits) continue;
      if (!is_dc && !size && symbol != 0xF0) step = symbol ? Entry::kEnd + 1 : Entry::kEnd;
      const int rest = kLookupBits - length;
      for (uint32_t tail = 0; tail < uint32_t(1) << rest; ++tail) {
        Entry& made = table.lookup[next << rest | tail];
        const int value = size && size <= rest ? extend(int(tail >> (rest - size)), size) : 0;
        made = entry(length + size, size > rest ? size : 0, step, value);
      }
    }
    table.limits[length] = next << (16 - length);
  }
  table.code = code;
  return true;
}

void ScanData::open(const uint8_t* data, size_t size, size_t offset) {
  data_ = data;
  size_ = size;
  at_ = offset;
  restarts_ = 0;
  if (capacity_ < size - offset + kPadding) {
    capacity_ = size - offset + kPadding;
    bytes_.reset(new uint8_t[capacity_]);
  }
  unstuff();
}

// Copy the bytes up to the next marker, without the zeros after bytes of ones.
void ScanData::unstuff() {
  uint8_t* to = bytes_.get();
  while (at_ < size_) {
    const uint8_t* const from = data_ + at_;
    const auto* const ones = static_cast<const uint8_t*>(std::memchr(from, 0xFF, size_ - at_));
    const size_t plain = ones ? size_t(ones - from) : size_ - at_;
    std::memcpy(to, from, plain);
    to += plain;
    at_ += plain;
    if (size_ - at_ < 2 || data_[at_ + 1] != 0) break;
    *to++ = 0xFF;
    at_ += 2;
  }
  std::memset(to, 0, kPadding);
  reader_ = {0, 0, bytes_.get(), to};
}

bool ScanData::next() {
  if (size_ - at_ < 2 || data_[at_] != 0xFF || data_[at_ + 1] != 0xD0 + (restarts_ & 7)) return false;
  ++restarts_;
  at_ += 2;
  unstuff();
  return true;
}

bool ScanData::at_end_of_image() const { return size_ - at_ >= 2 && data_[at_] == 0xFF && data_[at_ + 1] == 0xD9; }

int decode_block(BitReader& reader, BlockTables tables, int& last_dc, int16_t* coefficients) {
  BitReader local = reader;  // in registers
  if (!read_dc(local, *tables.dc, last_dc)) return -1;
  coefficients[0] = int16_t(last_dc);
  const int last = read_ac<true>(local, *tables.ac, coefficients);
  reader = local;
  return last;
}

bool skip_block(BitReader& reader, BlockTables tables, int& last_dc) {
  BitReader local = reader;
  if (!read_dc(local, *tables.dc, last_dc) || read_ac<false>(local, *tables.ac, nullptr) < 0) return false;
  reader = local;
  return true;
}

}  // namespace headrace::jpeg
