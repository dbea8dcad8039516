// PNGs of 8 bits per channel, not interlaced: gray, colors and palettes, with and without alpha. Anything rarer, or
// invalid in any respect, is left to a library.
#include <cstdlib>
#include <cstring>

#include "image.h"
#include "inflate.h"

namespace headrace {
namespace {

uint32_t read_big(const uint8_t* at) { return uint32_t(at[0]) << 24 | uint32_t(at[1]) << 16 | uint32_t(at[2]) << 8 | at[3]; }

constexpr uint32_t name_of(const char (&name)[5]) {
  return uint32_t(uint8_t(name[0])) << 24 | uint32_t(uint8_t(name[1])) << 16 | uint32_t(uint8_t(name[2])) << 8 | uint8_t(name[3]);
}

// Chunks that do not affect the pixels. Others may: transparency, animation, orientation.
bool is_remark(uint32_t name) {
  switch (name) {
    case name_of("gAMA"): case name_of("cHRM"): case name_of("sRGB"): case name_of("pHYs"): case name_of("tIME"):
    case name_of("tEXt"): case name_of("zTXt"): case name_of("iTXt"): return true;
    default: return false;
  }
}

// The parsed parts of a plain file.
struct Parts {
  int64_t height = 0, width = 0;
  int channels = 0;  // of the pixels; 1 with a palette, whose indices they are
  const uint8_t* palette = nullptr;
  size_t colours = 0;
  const uint8_t* packed = nullptr;
  size_t packed_size = 0;
};

// False if the file is not plain and complete. Compressed pixels in several chunks are joined in `joined`.
bool read_parts(const uint8_t* data, size_t size, Growing<uint8_t>& joined, Parts& made) {
  if (size < 8 || std::memcmp(data, "\x89PNG\r\n\x1a\n", 8) != 0) return false;
  bool begun = false, indexed = false, left = false;
  joined.shrink(0);
  for (size_t at = 8;;) {
    if (size - at < 12) return false;
    const size_t length = read_big(data + at);
    if (length > size - at - 12) return false;
    const uint32_t name = read_big(data + at + 4);
    const uint8_t* const content = data + at + 8;
    at += 12 + length;
    if (!is_remark(name) && crc32(content - 4, length + 4) != read_big(content + length)) return false;
    if (name == name_of("IHDR")) {
      if (begun || length != 13 || content[8] != 8 || content[10] || content[11] || content[12]) return false;
      static constexpr int kChannels[] = {1, 0, 3, 1, 2, 0, 4};
      made.channels = content[9] > 6 ? 0 : kChannels[content[9]];
      indexed = content[9] == 3;
      made.width = read_big(content), made.height = read_big(content + 4);
      if (!made.channels || !made.width || !made.height || made.width > INT32_MAX || made.height > INT32_MAX) return false;
      begun = true;
    } else if (!begun) {
      return false;
    } else if (name == name_of("PLTE")) {
      if (made.palette || made.packed || !indexed || !length || length % 3 || length > 768) return false;
      made.palette = content;
      made.colours = length / 3;
    } else if (name == name_of("IDAT")) {
      if (left || (indexed && !made.palette)) return false;
      if (made.packed && !joined.size()) joined.append(made.packed, made.packed_size);
      if (made.packed) joined.append(content, length);
      made.packed = joined.size() ? joined.data() : content;
      made.packed_size = joined.size() ? joined.size() : length;
    } else if (name == name_of("IEND")) {
      return made.packed && !length;
    } else {
      left = made.packed != nullptr;
      if (!is_remark(name)) return false;
    }
  }
}

// Branch-free, because branches would be unpredictable.
uint8_t nearest(int left, int above, int corner) {
  const int to_left = std::abs(above - corner), to_above = std::abs(left - corner), to_corner = std::abs(left + above - 2 * corner);
  const int nearer = to_above < to_left ? above : left, distance = to_above < to_left ? to_above : to_left;
  return uint8_t(to_corner < distance ? corner : nearer);
}

// One line of `size` bytes, each the difference from its left and upper neighbors; `above` is null in the first line.
template <int kStep>
void unfilter(int filter, const uint8_t* from, const uint8_t* above, uint8_t* to, size_t size) {
  uint8_t left[kStep] = {}, corner[kStep] = {};
  switch (filter) {
    case 1:
      for (size_t i = 0; i < size; i += kStep) {
        for (int c = 0; c < kStep; ++c) to[i + c] = left[c] = uint8_t(from[i + c] + left[c]);
      }
      return;
    case 2:
      if (!above) break;
      for (size_t i = 0; i < size; ++i) to[i] = uint8_t(from[i] + above[i]);
      return;
    case 3:
      for (size_t i = 0; i < size; i += kStep) {
        for (int c = 0; c < kStep; ++c) {
          to[i + c] = left[c] = uint8_t(from[i + c] + ((left[c] + (above ? above[i + c] : 0)) >> 1));
        }
      }
      return;
    case 4:
      if (!above) return unfilter<kStep>(1, from, above, to, size);  // the nearest is the left one
      for (size_t i = 0; i < size; i += kStep) {
        for (int c = 0; c < kStep; ++c) {
          const uint8_t up = above[i + c];
          to[i + c] = left[c] = uint8_t(from[i + c] + nearest(left[c], up, corner[c]));
          corner[c] = up;
        }
      }
      return;
    default: break;
  }
  if (to != from) std::memcpy(to, from, size);
}

void unfilter_line(int channels, int filter, const uint8_t* from, const uint8_t* above, uint8_t* to, size_t size) {
  switch (channels) {
    case 1: return unfilter<1>(filter, from, above, to, size);
    case 2: return unfilter<2>(filter, from, above, to, size);
    case 3: return unfilter<3>(filter, from, above, to, size);
    default: return unfilter<4>(filter, from, above, to, size);
  }
}

// Palette indices to colors; false if one is out of range.
bool look_up_colours(const Parts& parts, const uint8_t* from, uint8_t* to) {
  for (int64_t i = 0; i < parts.width; ++i) {
    if (from[i] >= parts.colours) return false;
    std::memcpy(to + 3 * i, parts.palette + 3 * from[i], 3);
  }
  return true;
}

// Convert channels: gray is repeated, colors become gray, alpha is dropped or opaque.
void convert_line(const uint8_t* from, int stored, uint8_t* to, int channels, int64_t width) {
  const bool coloured = stored > 2, has_alpha = stored % 2 == 0;
  for (int64_t i = 0; i < width; ++i, from += stored, to += channels) {
    if (channels > 2) {
      to[0] = from[0], to[1] = from[coloured ? 1 : 0], to[2] = from[coloured ? 2 : 0];
    } else {  // what a JPEG calls luminance
      to[0] = coloured ? uint8_t((9798 * from[0] + 19234 * from[1] + 3736 * from[2]) >> 15) : from[0];
    }
    if (channels % 2 == 0) to[channels - 1] = has_alpha ? from[stored - 1] : 255;
  }
}

}  // namespace

bool decode_png(const uint8_t* data, size_t size, const ImageShape& shape, PngScratch& scratch, uint8_t* out) {
  Parts parts;
  if (!read_parts(data, size, scratch.packed, parts)) return false;
  if (parts.height != shape.height || parts.width != shape.width || shape.channels < 1 || shape.channels > 4) return false;
  const size_t line = size_t(parts.width) * size_t(parts.channels), height = size_t(parts.height);
  const size_t whole = (line + 1) * height;  // each line says first how it is filtered
  if (whole / kMostInflated > parts.packed_size) return false;
  scratch.lines.shrink(0);
  uint8_t* const lines = scratch.lines.extend(whole + kInflateSlack);
  if (!inflate_zlib(parts.packed, parts.packed_size, lines, whole)) return false;
  const int stored = parts.palette ? 3 : parts.channels, channels = int(shape.channels);
  const bool in_place = stored == channels && !parts.palette;
  if (parts.palette) scratch.colours.shrink(0), scratch.colours.extend(size_t(parts.width) * 3);
  const uint8_t* above = nullptr;
  for (size_t y = 0; y < height; ++y, out += size_t(parts.width) * size_t(channels)) {
    uint8_t* const from = lines + y * (line + 1) + 1;
    if (from[-1] > 4) return false;
    uint8_t* const to = in_place ? out : from;
    unfilter_line(parts.channels, from[-1], from, above, to, line);
    above = to;
    if (in_place) continue;
    uint8_t* colours = to;
    if (parts.palette) {
      colours = stored == channels ? out : scratch.colours.data();
      if (!look_up_colours(parts, to, colours)) return false;
      if (colours == out) continue;
    }
    convert_line(colours, stored, out, channels, parts.width);
  }
  return true;
}

}  // namespace headrace
