// Images of 8 bits a channel as PNGs. Each line has the filter whose differences are smallest.
#include <cstring>

#include "cpu.h"
#include "deflate.h"
#include "image.h"
#include "inflate.h"

namespace headrace {
namespace {

void write_big(uint32_t value, uint8_t* at) {
  at[0] = uint8_t(value >> 24), at[1] = uint8_t(value >> 16), at[2] = uint8_t(value >> 8), at[3] = uint8_t(value);
}

// How far from zero bytes are, as signed numbers, taken together.
HEADRACE_INLINE uint64_t magnitude_inline(const uint8_t* values, size_t count) {
  uint32_t sum = 0;
  uint64_t total = 0;
  for (size_t done = 0; done < count; done += 1 << 20) {
    const size_t stop = count - done < 1 << 20 ? count : done + (1 << 20);
    sum = 0;
    for (size_t i = done; i < stop; ++i) sum += values[i] < 128 ? values[i] : 256u - values[i];
    total += sum;
  }
  return total;
}
HEADRACE_DISPATCH(uint64_t, magnitude, (const uint8_t* values, size_t count), (values, count))

HEADRACE_INLINE void less_left_inline(const uint8_t* line, size_t size, size_t channels, uint8_t* out) {
  std::memcpy(out, line, channels < size ? channels : size);
  for (size_t i = channels; i < size; ++i) out[i] = uint8_t(line[i] - line[i - channels]);
}
HEADRACE_DISPATCH(void, less_left, (const uint8_t* line, size_t size, size_t channels, uint8_t* out), (line, size, channels, out))

HEADRACE_INLINE void less_above_inline(const uint8_t* line, const uint8_t* above, size_t size, uint8_t* out) {
  for (size_t i = 0; i < size; ++i) out[i] = uint8_t(line[i] - above[i]);
}
HEADRACE_DISPATCH(void, less_above, (const uint8_t* line, const uint8_t* above, size_t size, uint8_t* out), (line, above, size, out))

HEADRACE_INLINE void less_nearest_inline(const uint8_t* line, const uint8_t* above, size_t size, size_t channels, uint8_t* out) {
  for (size_t i = 0; i < channels && i < size; ++i) out[i] = uint8_t(line[i] - above[i]);
  for (size_t i = channels; i < size; ++i) {
    const int16_t a = line[i - channels], b = above[i], c = above[i - channels];
    const int16_t to_a = int16_t(b > c ? b - c : c - b), to_b = int16_t(a > c ? a - c : c - a);
    const int16_t both = int16_t(a + b - 2 * c), to_c = int16_t(both < 0 ? -both : both);
    const int16_t first = to_b <= to_c ? b : c;
    const int16_t near = (to_a <= to_b) & (to_a <= to_c) ? a : first;
    out[i] = uint8_t(line[i] - near);
  }
}
HEADRACE_DISPATCH(void, less_nearest, (const uint8_t* line, const uint8_t* above, size_t size, size_t channels, uint8_t* out), (line, above, size, channels, out))

void append_chunk(const char (&name)[5], const uint8_t* data, size_t size, Growing<uint8_t>& out) {
  uint8_t* const at = out.extend(size + 12);
  write_big(uint32_t(size), at);
  std::memcpy(at + 4, name, 4);
  if (size) std::memcpy(at + 8, data, size);
  write_big(crc32(at + 4, size + 4), at + 8 + size);
}

}  // namespace

void encode_png(const uint8_t* pixels, const ImageShape& shape, PngEncoder& scratch, Growing<uint8_t>& out) {
  static constexpr uint8_t kColours[] = {0, 0, 4, 2, 6};
  const size_t channels = size_t(shape.channels), size = size_t(shape.width) * channels;
  scratch.lines.shrink(0);
  scratch.tried.shrink(0);
  uint8_t* const lines = scratch.lines.extend((size + 1) * size_t(shape.height));
  uint8_t* const tried = scratch.tried.extend(size);
  for (size_t row = 0; row < size_t(shape.height); ++row) {
    const uint8_t* const line = pixels + row * size;
    uint8_t* const best = lines + row * (size + 1);
    best[0] = 0;
    std::memcpy(best + 1, line, size);
    uint64_t least = magnitude(best + 1, size);
    const auto keep_if_smaller = [&](uint8_t filter) {
      const uint64_t found = magnitude(tried, size);
      if (found >= least) return;
      least = found;
      best[0] = filter;
      std::memcpy(best + 1, tried, size);
    };
    if (!least) continue;
    less_left(line, size, channels, tried);
    keep_if_smaller(1);
    if (row == 0) continue;
    less_above(line, line - size, size, tried);
    keep_if_smaller(2);
    less_nearest(line, line - size, size, channels, tried);
    keep_if_smaller(4);
  }
  out.append("\x89PNG\r\n\x1a\n", 8);
  uint8_t head[13] = {0, 0, 0, 0, 0, 0, 0, 0, 8, kColours[channels], 0, 0, 0};
  write_big(uint32_t(shape.width), head);
  write_big(uint32_t(shape.height), head + 4);
  append_chunk("IHDR", head, 13, out);
  scratch.packed.shrink(0);
  deflate_zlib(lines, (size + 1) * size_t(shape.height), scratch.deflate, scratch.packed);
  append_chunk("IDAT", scratch.packed.data(), scratch.packed.size(), out);
  append_chunk("IEND", nullptr, 0, out);
}

}  // namespace headrace
