#include "jpeg_huffman.h"

#include <algorithm>

namespace headrace::jpeg {
namespace {

constexpr int kMostDc = 15;  // bits of a difference
constexpr int kEntries = 1 << kLookupBits;

// The code that some bits begin with.
struct Code {
  uint8_t length, symbol;  // the length is 0 if they are too few

  int size() const { return symbol & 15; }
  int bits() const { return length + size(); }
  int step() const { return (symbol >> 4) + 1; }
  bool is_coefficient() const { return size() || symbol == kZeros; }
};

// The code that these bits begin with, kLookupBits as the index of an entry, of which the first of the value is one.
Entry entry_of(Code code, int step, int index) {
  constexpr uint64_t kSearched = Entry::kOther << 6;
  if (!code.length || (code.size() && code.length == kLookupBits)) return {kSearched};
  const int known = index >> (kLookupBits - code.length);
  const bool negative = code.size() && !(index >> (kLookupBits - code.length - 1) & 1);
  const int added = -(known << code.size()) - (negative ? (1 << code.size()) - 1 : 0);
  return {uint64_t(code.bits() | step << 6 | (64 - code.bits()) << 19) | uint64_t(uint16_t(added)) << 32};
}

Entry ac_entry(const Code* codes, int index) {
  const Code code = codes[index];
  if (!code.is_coefficient()) {
    Entry made = entry_of(code, Entry::kOther, index);
    if (code.length && code.symbol == 0) made.fields |= Entry::kEnds;
    return made;
  }
  Entry made = entry_of(code, code.step(), index);
  const int left = kLookupBits - code.bits();
  if (left <= 0) return made;
  const int rest = index << code.bits() & (kEntries - 1);
  const Code second = codes[rest];
  if (!second.length || second.bits() > left || (!second.is_coefficient() && second.symbol)) return made;
  if (second.symbol == 0) {
    made.fields |= Entry::kEnds;
  } else {
    const int value = value_of(uint64_t(rest >> (kLookupBits - second.bits())), second.size());
    made.fields |= uint64_t(second.step()) << 13 | uint64_t(uint16_t(value)) << 48;
  }
  made.fields += uint64_t(second.bits());
  return made;
}

}  // namespace

bool build(const HuffmanCode& code, bool is_dc, HuffmanTable& table) {
  if (table.code.known && std::memcmp(&table.code, &code, sizeof code) == 0) return true;
  table.code.known = false;
  Code codes[kEntries]{};
  uint32_t next = 0;
  int symbols = 0;
  table.limits[0] = 0;
  for (int length = 1; length <= 16; ++length, next <<= 1) {
    table.offsets[length] = symbols - int(next);
    const int count = code.counts[length];
    if (next + uint32_t(count) >= uint32_t(1) << length && count) return false;  // no code has only ones
    for (int i = 0; i < count; ++i, ++next, ++symbols) {
      const uint8_t symbol = code.symbols[symbols];
      if (is_dc && symbol > kMostDc) return false;
      if (length > kLookupBits) continue;
      const int rest = kLookupBits - length;
      std::fill_n(codes + (next << rest), 1 << rest, Code{uint8_t(length), symbol});
    }
    table.limits[length] = next << (16 - length);
  }
  for (int i = 0; i < kEntries; ++i) {
    const Code found = codes[i];
    table.lookup[i] = is_dc ? entry_of(found, 0, i) : ac_entry(codes, i);
  }
  table.code = code;
  return true;
}

LongCode long_code(uint64_t bits, const HuffmanTable& table) {
  const uint32_t next = uint32_t(bits >> 48);
  for (int length = kLookupBits; length <= 16; ++length) {
    if (next >= table.limits[length]) continue;
    return {length, table.code.symbols[uint8_t(int(next >> (16 - length)) + table.offsets[length])]};
  }
  return {0, 0};
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

void ScanData::trim() {
  if (capacity_ <= kMostKept) return;
  bytes_.reset();
  capacity_ = 0;
}

bool ScanData::at_end_of_image() const { return size_ - at_ >= 2 && data_[at_] == 0xFF && data_[at_ + 1] == 0xD9; }

}  // namespace headrace::jpeg
