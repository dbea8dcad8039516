// TFRecord framing: length (8 bytes, little-endian), its masked checksum (4), the data, their masked checksum (4).
#include <cstring>

#include "kernels.h"

namespace headrace {
namespace {

constexpr uint64_t kFooter = kFraming - kHeader;
constexpr uint64_t kHeadersAhead = 8;

template <typename T>
T little_endian(const uint8_t* data) {
  T value = 0;
  for (size_t i = 0; i < sizeof(T); ++i) value |= T(data[i]) << (8 * i);
  return value;
}

template <typename T>
void put(T value, uint8_t* out) {
  for (size_t i = 0; i < sizeof(T); ++i) out[i] = uint8_t(value >> (8 * i));
}

bool length_is_good(const uint8_t* record) { return masked_crc32c(record, 8) == little_endian<uint32_t>(record + 8); }

bool data_is_good(const uint8_t* data, uint64_t length) {
  return masked_crc32c(data, length) == little_endian<uint32_t>(data + length);
}

// Whether a record of this length, its header included, ends within the bytes that are left.
bool fits(uint64_t length, uint64_t left) { return left >= kHeader + kFooter && length <= left - kHeader - kFooter; }

}  // namespace

uint32_t masked_crc32c(const uint8_t* data, size_t size) {
  const uint32_t crc = crc32c(data, size);
  return (crc >> 15 | crc << 17) + 0xA282EAD8u;
}

namespace {

// Calls `take` with where each record begins and how long its data is.
template <typename Take>
Scan each_record(const uint8_t* data, size_t size, size_t start, int64_t max_rows, int64_t max_bytes, bool verify,
                 Take take) {
  size_t at = start;
  int64_t bytes = 0;
  for (int64_t row = 0; row < max_rows && size - at >= kHeader; ++row) {
    if (!length_is_good(data + at)) return {at, Problem::kLength};
    const uint64_t length = little_endian<uint64_t>(data + at);
    if (!fits(length, size - at)) break;
    if (row > 0 && int64_t(length) > max_bytes - bytes) break;
    if (verify && !data_is_good(data + at + kHeader, length)) return {at, Problem::kData};
    take(at, length);
    bytes += int64_t(length);
    at += kHeader + length + kFooter;
    // If only headers are read, most are in separate cache lines: prefetch at the expected distance.
    const uint64_t ahead = kHeadersAhead * (kHeader + length + kFooter);
    if (!verify && ahead < size - at) __builtin_prefetch(data + at + ahead);
  }
  return {at, Problem::kNone};
}

}  // namespace

Scan scan_records(const uint8_t* data, size_t size, size_t start, int64_t max_rows, int64_t max_bytes, bool verify,
                  Growing<int64_t>& starts) {
  return each_record(data, size, start, max_rows, max_bytes, verify, [&](size_t at, uint64_t) { starts.push(int64_t(at)); });
}

Scan unframe(const uint8_t* data, size_t size, size_t start, int64_t max_rows, int64_t max_bytes, bool verify,
             Growing<uint8_t>& values, Growing<int64_t>& offsets) {
  uint8_t* const out = values.extend(size - start);  // more than enough; the rest is returned
  size_t filled = 0;
  offsets.push(0);
  const Scan scan = each_record(data, size, start, max_rows, max_bytes, verify, [&](size_t at, uint64_t length) {
    if (length) std::memcpy(out + filled, data + at + kHeader, length);
    filled += length;
    offsets.push(int64_t(filled));
  });
  values.shrink(filled);
  return scan;
}

namespace {

// Prefetch scattered records.
void ask_for(const uint8_t* record, int64_t size) {
  constexpr int64_t kLine = 64, kLines = 12;
  for (int64_t line = 0; line < kLines && line * kLine < size; ++line) __builtin_prefetch(record + line * kLine);
}

// Call `look` with each record of these ranges, whose length must match its range, until one record or `look` fails.
template <typename Look>
bool each_range(const RecordRanges& ranges, int64_t count, bool lengths_seen, Look look) {
  constexpr int64_t kAhead = 4;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t next = i + kAhead;
    if (next < count) ask_for(ranges.record(next), ranges.end(next) - ranges.begin(next));
    const uint8_t* const record = ranges.record(i);
    const int64_t size = ranges.end(i) - ranges.begin(i);
    if (size < int64_t(kFraming) || (!lengths_seen && !length_is_good(record))) return false;
    const uint64_t length = uint64_t(size) - kFraming;
    if (little_endian<uint64_t>(record) != length || !look(record, length)) return false;
  }
  return true;
}

}  // namespace

bool verify_at(const RecordRanges& ranges, int64_t count, bool lengths_seen) {
  return each_range(ranges, count, lengths_seen, [](const uint8_t* record, uint64_t length) {
    return data_is_good(record + kHeader, length);
  });
}

bool copy_verified(const RecordRanges& ranges, int64_t count, bool lengths_seen, Growing<uint8_t>& values,
                   Growing<int64_t>& offsets) {
  size_t bytes = 0;
  for (int64_t i = 0; i < count; ++i) bytes += size_t(ranges.end(i) - ranges.begin(i));
  uint8_t* const out = values.extend(bytes);  // more than enough; the rest is returned
  size_t filled = 0;
  offsets.push(0);
  const bool good = each_range(ranges, count, lengths_seen, [&](const uint8_t* record, uint64_t length) {
    // Verify the copy: the file may change at any time.
    uint8_t* const data = out + filled;
    if (length) std::memcpy(data, record + kHeader, length);
    filled += length;
    offsets.push(int64_t(filled));
    return masked_crc32c(data, length) == little_endian<uint32_t>(record + kHeader + length);
  });
  values.shrink(filled);
  return good;
}

bool copy_records(const RecordCopy* copies, int64_t count) {
  constexpr int64_t kAhead = 4;
  for (int64_t i = 0; i < count; ++i) {
    if (i + kAhead < count) ask_for(copies[i + kAhead].record, int64_t(copies[i + kAhead].size));
    const auto [record, out, size] = copies[i];
    if (little_endian<uint64_t>(record) != size) return false;
    if (size) std::memcpy(out, record + kHeader, size);
    // Verify the copy: the file may change at any time.
    if (masked_crc32c(out, size) != little_endian<uint32_t>(record + kHeader + size)) return false;
  }
  return true;
}

int64_t resync(const uint8_t* data, size_t size, size_t start, uint64_t end) {
  for (size_t at = start; at < size && size - at >= kHeader; ++at) {
    if (!length_is_good(data + at)) continue;
    const uint64_t length = little_endian<uint64_t>(data + at);
    if (fits(length, size - at) ? data_is_good(data + at + kHeader, length) : fits(length, end - at)) return int64_t(at);
  }
  return -1;
}

void frame(const uint8_t* values, const int64_t* offsets, int64_t rows, uint8_t* out) {
  for (int64_t row = 0; row < rows; ++row) {
    const uint8_t* data = values + offsets[row];
    const size_t length = size_t(offsets[row + 1] - offsets[row]);
    put<uint64_t>(length, out);
    put<uint32_t>(masked_crc32c(out, 8), out + 8);
    if (length) std::memcpy(out + kHeader, data, length);
    put<uint32_t>(masked_crc32c(data, length), out + kHeader + length);
    out += kHeader + length + kFooter;
  }
}

}  // namespace headrace
