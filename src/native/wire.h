// The wire format of protocol buffers: read arbitrary bytes, write into memory that is large enough.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

namespace headrace {

enum Wire : uint32_t { kVarint = 0, kFixed64 = 1, kDelimited = 2, kGroup = 3, kEndGroup = 4, kFixed32 = 5 };

constexpr uint32_t tag(uint32_t field, Wire wire) { return field << 3 | wire; }

// Names are short: comparing them inline takes half the time of a call.
inline bool same(std::string_view a, std::string_view b) {
  const size_t size = a.size();
  if (size != b.size()) return false;
  const auto equal = [&](auto word, size_t at) {
    auto other = word;
    std::memcpy(&word, a.data() + at, sizeof word);
    std::memcpy(&other, b.data() + at, sizeof other);
    return word == other;
  };
  if (size > 16) return std::memcmp(a.data(), b.data(), size) == 0;
  if (size >= 8) return equal(uint64_t(), 0) && equal(uint64_t(), size - 8);
  if (size >= 4) return equal(uint32_t(), 0) && equal(uint32_t(), size - 4);
  if (size >= 2) return equal(uint16_t(), 0) && equal(uint16_t(), size - 2);
  return size == 0 || a[0] == b[0];
}

// A position in some bytes. Each method returns false, and reads nothing beyond the end, if the bytes are not as
// expected.
class Reader {
 public:
  Reader() = default;
  Reader(const uint8_t* data, size_t size) : at_(data), end_(data + size) {}

  const uint8_t* data() const { return at_; }
  size_t size() const { return size_t(end_ - at_); }
  bool empty() const { return at_ == end_; }
  std::string_view text() const { return {reinterpret_cast<const char*>(at_), size()}; }

  bool varint(uint64_t& value) {
    if (at_ < end_ && *at_ < 0x80) {
      value = *at_++;
      return true;
    }
    return long_varint(value);
  }

  bool next_tag(uint32_t& field_and_wire) {
    uint64_t value;
    if (!varint(value) || value > UINT32_MAX || value >> 3 == 0) return false;
    field_and_wire = uint32_t(value);
    return true;
  }

  bool delimited(Reader& inner) {
    uint64_t length;
    if (!varint(length) || length > size()) return false;
    inner = Reader(at_, size_t(length));
    at_ += length;
    return true;
  }

  // Whether all that is left is one field of this tag, with less than 128 bytes in it: `inner`. Most of an Example is.
  bool is_only(uint32_t field_and_wire, Reader& inner) const {
    if (size() < 2 || at_[0] != field_and_wire || at_[1] != size() - 2 || size() >= 130) return false;
    inner = Reader(at_ + 2, size() - 2);
    return true;
  }

  bool advance(size_t bytes) {
    if (bytes > size()) return false;
    at_ += bytes;
    return true;
  }

  // Skip the value of an unrequested field. Groups nest, but need no stack: only their depth counts.
  bool skip(uint32_t field_and_wire) {
    uint32_t depth = 0;
    do {
      uint64_t number;
      Reader inner;
      switch (field_and_wire & 7) {
        case kVarint:
          if (!varint(number)) return false;
          break;
        case kFixed64:
          if (!advance(8)) return false;
          break;
        case kDelimited:
          if (!delimited(inner)) return false;
          break;
        case kGroup:
          ++depth;
          break;
        case kEndGroup:
          if (depth == 0) return false;
          --depth;
          break;
        case kFixed32:
          if (!advance(4)) return false;
          break;
        default:
          return false;
      }
    } while (depth > 0 && next_tag(field_and_wire));
    return depth == 0;
  }

 private:
  bool long_varint(uint64_t& value) {
    uint64_t result = 0;
    for (uint32_t shift = 0; shift < 70 && at_ < end_; shift += 7) {
      const uint64_t byte = *at_++;
      result |= (byte & 0x7F) << shift;  // of a tenth byte only the lowest bit counts
      if (byte < 0x80) {
        value = result;
        return true;
      }
    }
    return false;
  }

  const uint8_t* at_ = nullptr;
  const uint8_t* end_ = nullptr;
};

inline size_t varint_size(uint64_t value) { return (size_t(70) - size_t(__builtin_clzll(value | 1))) / 7; }

inline uint8_t* put_varint(uint64_t value, uint8_t* out) {
  for (; value >= 0x80; value >>= 7) *out++ = uint8_t(value | 0x80);
  *out++ = uint8_t(value);
  return out;
}

inline uint8_t* put_header(uint32_t field, size_t length, uint8_t* out) {
  *out++ = uint8_t(tag(field, kDelimited));
  return put_varint(length, out);
}

inline uint8_t* put_bytes(const void* data, size_t size, uint8_t* out) {
  if (size) std::memcpy(out, data, size);
  return out + size;
}

}  // namespace headrace
