// JPEGs: any bytes as a file, of which windows and the whole have the same pixels; and any coefficients and samples, of
// which all kernels make the same ones.
#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "../../src/native/image_jpeg.h"
#include "check.h"

#define HEADRACE_PLAIN_LANES
#define HEADRACE_LANES 8
#include "../../src/native/jpeg_kernels.h"

using namespace headrace;

namespace {

using Bytes = std::vector<uint8_t>;

constexpr int64_t kMostPixels = 1 << 16;

struct Made {
  bool made;
  Bytes pixels;
};

Made decode(JpegRows& rows, const Bytes& bytes, ImageShape shape, const Cut& window, JpegHow how) {
  Made found{false, Bytes(size_t(window.height * window.width * shape.channels), 0)};
  found.made = rows.open(bytes.data(), bytes.size(), shape, window, how) && rows.copy_to(found.pixels.data()) && rows.finish();
  return found;
}

void decode_file(const Bytes& bytes, size_t option) {
  const ImageHeader header = read_image_header(bytes.data(), bytes.size());
  if (header.kind != kJpeg || header.height < 1 || header.width < 1 || header.height > kMostPixels / header.width) return;
  const int64_t channels = option & 1 ? 1 : 3;
  const JpegHow how{(option & 2) != 0, (option & 4) != 0};
  const ImageShape shape{header.height, header.width, channels};
  const auto rows = std::make_unique<JpegRows>();
  const Made whole = decode(*rows, bytes, shape, {0, 0, shape.height, shape.width, 0}, how);
  const int64_t top = int64_t(option >> 3) % shape.height, left = int64_t(option) % shape.width;
  const Cut window{top, left, (shape.height - top + 1) / 2, (shape.width - left + 1) / 2, int64_t(option >> 6 & 1)};
  const Made part = decode(*rows, bytes, shape, window, how);
  CHECK(part.made || !whole.made);
  CHECK(!how.fast_dct || part.made == whole.made);
  std::vector<float> resized(size_t(7 * 9 * channels));
  const int64_t offsets[2] = {0, int64_t(bytes.size())}, mirrored = 0;
  bool made = false;
  decode_and_resize_jpegs({bytes.data(), offsets, &shape, &window, 1, how}, {7, 9, kFloats, &mirrored, nullptr}, resized.data(), &made);
  CHECK(made || !part.made);
  if (!whole.made) return;
  for (int64_t y = 0; y < window.height; ++y) {
    for (int64_t x = 0; x < window.width; ++x) {
      const int64_t from = left + (window.flip ? window.width - 1 - x : x);
      const uint8_t* const a = &whole.pixels[size_t(((top + y) * shape.width + from) * channels)];
      CHECK(std::memcmp(a, &part.pixels[size_t((y * window.width + x) * channels)], size_t(channels)) == 0);
    }
  }
}

// Two blocks, of which coefficients up to a position are not 0.
void transform(const Bytes& bytes, const jpeg::PixelKernels& kernels, Bytes& out) {
  alignas(32) int16_t coefficients[jpeg::kPairSize]{};
  jpeg::Factors factors;
  uint16_t quantisation[64];
  const auto word = [&](size_t i) { return uint16_t(bytes[2 * i % bytes.size()] << 8 | bytes[(2 * i + 1) % bytes.size()]); };
  for (size_t i = 0; i < 64; ++i) quantisation[i] = uint16_t(word(i) >> (bytes[0] % 16));
  for (const bool fast : {false, true}) {
    for (int last : {0, 5, 9, 30, 63}) {
      jpeg::set_factors(quantisation, fast, factors);
      for (int i = 0; i <= last; ++i) {
        for (int block = 0; block < 2; ++block) {
          coefficients[jpeg::kPlaces[i] + block * jpeg::kBlock] = int16_t(int16_t(word(size_t(64 + i + block))) >> (bytes[0] / 16));
        }
      }
      const size_t start = out.size();
      out.resize(start + 8 * 16 + 1);
      const auto transformed = fast ? kernels.transform_fast : kernels.transform_accurate;
      out.back() = transformed({coefficients, &factors, last}, out.data() + start, 16);
      for (const int16_t left : coefficients) CHECK(left == 0);
    }
  }
}

// Rows of samples, with the bytes around them that kernels may read.
void convert(const Bytes& bytes, const jpeg::PixelKernels& kernels, Bytes& out) {
  const size_t count = bytes.size() / 3, around = jpeg::kOvershoot;
  Bytes rows[3];
  for (size_t i = 0; i < 3; ++i) {
    rows[i].assign(count + 2 * around, bytes[i]);
    std::copy_n(bytes.begin() + long(i * count), count, rows[i].begin() + long(around));
  }
  const uint8_t *y = &rows[0][around], *cb = &rows[1][around], *cr = &rows[2][around];
  const auto add = [&](size_t size, auto fill) {
    Bytes made(size + around);
    fill(made.data());
    out.insert(out.end(), made.begin(), made.begin() + long(size));
  };
  const auto n = int64_t(count);
  add(3 * count, [&](uint8_t* to) { kernels.to_rgb(y, cb, cr, n, to); });
  add(3 * count, [&](uint8_t* to) { kernels.grey_to_rgb(y, n, to); });
  add(2 * count, [&](uint8_t* to) { kernels.widen(y, n, to); });
  add(2 * count, [&](uint8_t* to) { kernels.widen_between(y, cb, n, to); });
  add(count, [&](uint8_t* to) { kernels.between(y, cb, bytes[0] % 2 ? 1 : 2, n, to); });
}

void compare_kernels(const Bytes& bytes) {
  if (bytes.size() < 3) return;
  Bytes made[3];
  const jpeg::PixelKernels* const kernels[] = {&jpeg::pixel_kernels(), &jpeg::baseline_pixel_kernels(), &jpeg::kKernels};
  for (int i = 0; i < 3; ++i) {
    transform(bytes, *kernels[i], made[i]);
    convert(bytes, *kernels[i], made[i]);
    CHECK(made[i] == made[0]);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const Bytes bytes(data + 2, data + size);  // of its own, so that no read beyond it goes unnoticed
  if (data[0] % 8 == 7) {
    compare_kernels(bytes);
  } else {
    decode_file(bytes, data[1]);
  }
  return 0;
}
