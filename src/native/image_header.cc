#include "image.h"

#include <cstring>

namespace headrace {
namespace {

// Numbers from bytes, each checked against the end; bytes beyond it read as 0 and are counted.
class Bytes {
 public:
  Bytes(const uint8_t* data, size_t size) : data_(data), size_(size) {}

  size_t size() const { return size_; }
  bool has(size_t at, size_t count) const { return at <= size_ && count <= size_ - at; }
  bool begins(size_t at, const char* with, size_t count) const {
    return has(at, count) && std::memcmp(data_ + at, with, count) == 0;
  }
  int64_t big(size_t at, size_t count) const { return number(at, count, true); }
  int64_t little(size_t at, size_t count) const { return number(at, count, false); }

 private:
  int64_t number(size_t at, size_t count, bool big) const {
    if (!has(at, count)) return 0;
    int64_t made = 0;
    for (size_t i = 0; i < count; ++i) made = made << 8 | data_[at + (big ? i : count - 1 - i)];
    return made;
  }

  const uint8_t* data_;
  size_t size_;
};

ImageHeader jpeg(const Bytes& bytes) {
  ImageHeader made;
  made.kind = kJpeg;
  for (size_t at = 2; bytes.has(at, 4);) {
    const int64_t marker = bytes.big(at + 1, 1);
    if (bytes.big(at, 1) != 0xFF || marker == 0xFF) {  // extraneous, or fill
      ++at;
      continue;
    }
    if (marker == 0x00 || marker == 0x01 || (marker >= 0xD0 && marker <= 0xD8)) {  // none, or alone, without a length
      at += 2;
      continue;
    }
    const int64_t length = bytes.big(at + 2, 2);
    if (length < 2) return made;
    const bool frame = marker >= 0xC0 && marker <= 0xCF && marker != 0xC4 && marker != 0xC8 && marker != 0xCC;
    if (frame) {
      if (!bytes.has(at + 4, 6)) return made;
      made.depth = bytes.big(at + 4, 1);
      made.height = bytes.big(at + 5, 2);
      made.width = bytes.big(at + 7, 2);
      made.channels = bytes.big(at + 9, 1);
      return made;
    }
    if (marker == 0xDA || marker == 0xD9) return made;  // pixels, or the end, before any size
    at += 2 + size_t(length);
  }
  return made;
}

ImageHeader png(const Bytes& bytes) {
  ImageHeader made;
  made.kind = kPng;
  if (!bytes.begins(12, "IHDR", 4) || !bytes.has(16, 10)) return made;
  made.width = bytes.big(16, 4);
  made.height = bytes.big(20, 4);
  made.depth = bytes.big(24, 1);
  switch (bytes.big(25, 1)) {
    case 0: made.channels = 1; break;
    case 4: made.channels = 2; break;
    case 6: made.channels = 4; break;
    default: made.channels = 3;
  }
  return made;
}

ImageHeader gif(const Bytes& bytes) {
  ImageHeader made;
  made.kind = kGif;
  made.width = bytes.little(6, 2);
  made.height = bytes.little(8, 2);
  made.channels = 3;
  return made;
}

ImageHeader webp(const Bytes& bytes) {
  ImageHeader made;
  made.kind = kWebp;
  if (bytes.begins(12, "VP8 ", 4) && bytes.has(26, 4)) {
    made.width = bytes.little(26, 2) & 0x3FFF;
    made.height = bytes.little(28, 2) & 0x3FFF;
    made.channels = 3;
  } else if (bytes.begins(12, "VP8L", 4) && bytes.has(21, 4)) {
    const int64_t bits = bytes.little(21, 4);
    made.width = (bits & 0x3FFF) + 1;
    made.height = (bits >> 14 & 0x3FFF) + 1;
    made.channels = bits >> 28 & 1 ? 4 : 3;
  } else if (bytes.begins(12, "VP8X", 4) && bytes.has(24, 6)) {
    made.width = bytes.little(24, 3) + 1;
    made.height = bytes.little(27, 3) + 1;
    made.channels = bytes.big(20, 1) & 0x10 ? 4 : 3;
  }
  return made;
}

ImageHeader bmp(const Bytes& bytes) {
  ImageHeader made;
  made.kind = kBmp;
  if (bytes.little(14, 4) < 40 || !bytes.has(18, 12)) return made;
  made.width = bytes.little(18, 4);
  made.height = bytes.little(22, 4);
  if (made.height > INT32_MAX) made.height = (int64_t(1) << 32) - made.height;  // stored from the top
  const int64_t bits = bytes.little(28, 2);
  made.channels = bits == 32 ? 4 : 3;
  return made;
}

}  // namespace

ImageHeader read_image_header(const uint8_t* data, size_t size) {
  const Bytes bytes(data, size);
  if (bytes.begins(0, "\xFF\xD8\xFF", 3)) return jpeg(bytes);
  if (bytes.begins(0, "\x89PNG\r\n\x1a\n", 8)) return png(bytes);
  if (bytes.begins(0, "GIF87a", 6) || bytes.begins(0, "GIF89a", 6)) return gif(bytes);
  if (bytes.begins(0, "RIFF", 4) && bytes.begins(8, "WEBP", 4)) return webp(bytes);
  if (bytes.begins(0, "BM", 2)) return bmp(bytes);
  return {};
}

int64_t count_jpeg_scans(const uint8_t* data, size_t size) {
  int64_t found = 0;
  const uint8_t* const end = data + size;
  for (const uint8_t* at = data; at != end; ++at) {
    at = static_cast<const uint8_t*>(std::memchr(at, 0xFF, size_t(end - at)));
    if (!at) break;
    found += at + 1 != end && at[1] == 0xDA;
  }
  return found;
}

}  // namespace headrace
