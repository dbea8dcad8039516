// Images: any bytes as a file of any kind, as packed pixels, as the lines of a PNG, and as pixels for every loop over them.
#include "../../src/native/image.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "../../src/native/inflate.h"
#include "check.h"

using namespace headrace;

namespace {

using Bytes = std::vector<uint8_t>;

constexpr int64_t kMostPixels = 1 << 16;

void put_big(Bytes& made, uint32_t value) {
  for (int shift = 24; shift >= 0; shift -= 8) made.push_back(uint8_t(value >> shift));
}

void put_chunk(Bytes& made, const char* name, const Bytes& content) {
  put_big(made, uint32_t(content.size()));
  const size_t start = made.size();
  made.insert(made.end(), name, name + 4);
  made.insert(made.end(), content.begin(), content.end());
  put_big(made, crc32(made.data() + start, made.size() - start));
}

// A PNG whose lines are these bytes, not packed.
Bytes png_of(const Bytes& lines, uint32_t height, uint32_t width, uint8_t colours) {
  Bytes made{0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'}, head, packed{0x78, 0x01, 1};
  put_big(head, width);
  put_big(head, height);
  head.insert(head.end(), {8, colours, 0, 0, 0});
  put_chunk(made, "IHDR", head);
  if (colours == 3) put_chunk(made, "PLTE", Bytes(600, 7));
  const size_t size = lines.size();
  packed.insert(packed.end(), {uint8_t(size), uint8_t(size >> 8), uint8_t(~size), uint8_t(~size >> 8)});
  packed.insert(packed.end(), lines.begin(), lines.end());
  put_big(packed, adler32(lines.data(), size));
  put_chunk(made, "IDAT", packed);
  put_chunk(made, "IEND", {});
  return made;
}

void decode_file(const Bytes& bytes) {
  const ImageHeader header = read_image_header(bytes.data(), bytes.size());
  CHECK(header.kind >= kUnknownImage && header.kind <= kBmp && header.height >= 0 && header.width >= 0);
  if (header.kind != kPng || header.height > kMostPixels || header.width > kMostPixels / std::max<int64_t>(1, header.height)) return;
  PngScratch scratch;
  for (int64_t channels = 1; channels <= 4; ++channels) {
    Bytes out(size_t(header.height * header.width * channels));
    decode_png(bytes.data(), bytes.size(), {header.height, header.width, channels}, scratch, out.data());
  }
}

void inflate(const Bytes& bytes, size_t expected) {
  Bytes out(expected + kInflateSlack), again(expected + kInflateSlack, 1);
  const bool whole = inflate_zlib(bytes.data(), bytes.size(), out.data(), expected);
  CHECK(whole == inflate_zlib(bytes.data(), bytes.size(), again.data(), expected));
  CHECK(!whole || std::memcmp(out.data(), again.data(), expected) == 0);  // all of it was written
}

void decode_lines(const Bytes& bytes, size_t option) {
  static constexpr uint8_t kColours[] = {0, 2, 3, 4, 6};
  static constexpr size_t kChannels[] = {1, 3, 1, 2, 4};
  const size_t width = 1 + option % 9, kind = option / 9 % 5, line = 1 + width * kChannels[kind], height = bytes.size() / line;
  if (!height) return;
  const Bytes lines(bytes.begin(), bytes.begin() + long(height * line));
  const Bytes file = png_of(lines, uint32_t(height), uint32_t(width), kColours[kind]);
  PngScratch scratch;
  for (size_t channels = 1; channels <= 4; ++channels) {
    Bytes out(height * width * channels);
    const bool made = decode_png(file.data(), file.size(), {int64_t(height), int64_t(width), int64_t(channels)}, scratch, out.data());
    bool known = true;
    for (size_t y = 0; y < height; ++y) known &= lines[y * line] <= 4;
    CHECK(made == known || (kind == 2 && !made));  // a number may have no colour
  }
}

// Windows of all of an image are the image; of a part of it, nothing else is read.
void resize_windows_of(const Images<uint8_t>& images, int64_t height, int64_t width, const std::vector<float>& wanted) {
  std::vector<Cut> whole, corner;
  std::vector<int64_t> mirrored;
  for (int64_t i = 0; i < images.count; ++i) {
    const ImageShape& shape = images.shapes[i];
    whole.push_back({0, 0, shape.height, shape.width, 0});
    corner.push_back({shape.height / 2, shape.width / 2, (shape.height + 1) / 2, (shape.width + 1) / 2, i % 2});
    mirrored.push_back(i % 3 == 0);
  }
  const std::vector<int64_t> plain(mirrored.size());
  std::vector<float> floats(wanted.size());
  std::vector<uint8_t> bytes(wanted.size());
  resize_windows(images, whole.data(), {height, width, kFloats, plain.data(), nullptr}, floats.data());
  CHECK(floats == wanted);
  if (images.count) {
    const RowScaling scaling({kDivide, kSubtract}, {255, 0.5f}, width * images.shapes[0].channels);
    resize_windows(images, whole.data(), {height, width, kFloats, plain.data(), &scaling}, floats.data());
    for (size_t i = 0; i < floats.size(); ++i) CHECK(floats[i] == wanted[i] / 255 - 0.5f);
  }
  resize_windows(images, whole.data(), {height, width, kTruncated, plain.data(), nullptr}, bytes.data());
  for (size_t i = 0; i < bytes.size(); ++i) CHECK(bytes[i] == uint8_t(wanted[i]));
  resize_windows(images, corner.data(), {height, width, kNearest, mirrored.data(), nullptr}, bytes.data());
}

template <typename T>
void change_pixels(const std::vector<T>& values, size_t option) {
  const int64_t width = 1 + int64_t(option % 7), channels = option % 2 ? 3 : 1, size = int64_t(values.size());
  std::vector<ImageShape> shapes;
  std::vector<int64_t> starts;
  for (int64_t at = 0, height = 1 + int64_t(option % 5); at + height * width * channels <= size; at += height * width * channels) {
    starts.push_back(at);
    shapes.push_back({height, width, channels});
  }
  const Images<T> images{values.data(), starts.data(), shapes.data(), int64_t(starts.size())};
  const int64_t height = 1 + int64_t(option % 11), wide = 1 + int64_t(option / 11 % 13);
  std::vector<float> resized(size_t(images.count * height * wide * channels));
  resize_bilinear(images, height, wide, resized.data());
  if constexpr (sizeof(T) == 1) {  // bytes may be gone through otherwise, to the same bits
    resize_windows_of(images, height, wide, resized);
    const std::vector<float> numbers(values.begin(), values.end());
    std::vector<float> wanted(resized.size());
    resize_bilinear(Images<float>{numbers.data(), starts.data(), shapes.data(), images.count}, height, wide, wanted.data());
    CHECK(resized == wanted);
  }
  std::vector<T> adjusted(values.size());
  const std::vector<float> factors(size_t(images.count), float(option) / 100 - 1);
  for (int what = kBrightness; what <= (channels == 3 ? kHue : kContrast); ++what) {
    adjust_images(Adjustment(what), images, factors.data(), adjusted.data());
  }
  if (!images.count) return;
  // each output position is made from all input positions around it
  const int64_t taps = 3;
  std::vector<int64_t> rows(static_cast<size_t>(height)), columns(static_cast<size_t>(wide));
  std::vector<float> row_weights(size_t(height * taps)), column_weights(size_t(wide * taps));
  const auto choose = [&](std::vector<int64_t>& from, std::vector<float>& weights, int64_t limit) {
    for (size_t i = 0; i < from.size(); ++i) {
      from[i] = int64_t((option + i) % size_t(limit + 2)) - 2;
      for (int64_t k = 0; k < taps; ++k) weights[i * taps + size_t(k)] = from[i] + k >= 0 && from[i] + k < limit ? 0.5f : 0.0f;
    }
  };
  choose(rows, row_weights, shapes[0].height);
  choose(columns, column_weights, width);
  std::vector<float> resampled(size_t(height * wide * channels));
  resample(values.data(), shapes[0], {rows.data(), row_weights.data(), height, taps},
           {columns.data(), column_weights.data(), wide, taps}, resampled.data());
}

void cut(const Bytes& bytes, size_t option) {
  const int64_t value = int64_t(1) << option % 3, width = 1 + int64_t(option % 6), channels = 1 + int64_t(option % 4);
  const int64_t height = int64_t(bytes.size()) / (value * width * channels);
  const ImageShape shape{height, width, channels};
  const int64_t start = 0, left = int64_t(option / 8) % width;
  const Cut what{height / 3, left, height - height / 3, width - left, int64_t(option % 2)};
  Bytes out(size_t(what.height * what.width * channels * value));
  cut_images({bytes.data(), &start, &shape, 1}, value, &what, &start, out.data());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const size_t option = data[1];
  const Bytes bytes(data + 2, data + size);  // of its own, so that no read beyond it goes unnoticed
  switch (data[0] % 4) {
    case 0:
    case 1: decode_file(bytes); break;
    case 2: inflate(bytes, option % 2 ? 300 : option * 64); break;
    default: {
      decode_lines(bytes, option);
      change_pixels(bytes, option);
      std::vector<float> numbers(bytes.size() / sizeof(float));
      if (!numbers.empty()) std::memcpy(numbers.data(), bytes.data(), numbers.size() * sizeof(float));
      change_pixels(numbers, option);
      cut(bytes, option);
    }
  }
  return 0;
}
