#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#define HEADRACE_PAIRS __attribute__((target("avx2")))
#endif

#include "cpu.h"
#include "image.h"
#include "team.h"

namespace headrace {
namespace {

using Four = float __attribute__((vector_size(16)));

HEADRACE_INLINE void to_floats_inline(const uint8_t* from, int64_t count, float* to) {
  for (int64_t i = 0; i < count; ++i) to[i] = float(from[i]);
}
HEADRACE_DISPATCH(void, to_floats, (const uint8_t* from, int64_t count, float* to), (from, count, to))
void to_floats(const float* from, int64_t count, float* to) { std::memcpy(to, from, size_t(count) * sizeof(float)); }

HEADRACE_INLINE void between_rows_inline(const float* top, const float* bottom, float part, int64_t count, float* out) {
  for (int64_t i = 0; i < count; ++i) out[i] = top[i] + (bottom[i] - top[i]) * part;
}
HEADRACE_DISPATCH(void, between_rows, (const float* top, const float* bottom, float part, int64_t count, float* out), (top, bottom, part, count, out))

// The two input positions around an output position, and the weight between them.
struct Between {
  std::vector<int64_t> lower, upper;
  std::vector<float> part;

  Between(int64_t in, int64_t out, int64_t unit) : lower(out), upper(out), part(out) {
    const float scale = float(in) / float(out);
    for (int64_t i = 0; i < out; ++i) {
      const float at = (float(i) + 0.5f) * scale - 0.5f;
      const float below = std::floor(at);
      lower[i] = std::max<int64_t>(int64_t(below), 0) * unit;
      upper[i] = std::min<int64_t>(int64_t(std::ceil(at)), in - 1) * unit;
      part[i] = at - below;
    }
  }
};

inline Four load_four(const float* from) {
  Four made;
  std::memcpy(&made, from, 16);
  return made;
}

// One row of the input, with one extra value, at the columns of the output.
HEADRACE_INLINE void across_inline(const float* row, const Between& x, int64_t width, int64_t channels, float* out) {
  const int64_t *lower = x.lower.data(), *upper = x.upper.data();
  const float* part = x.part.data();
  if (channels == 3) {
    for (int64_t i = 0; i < width; ++i) {  // a value of the next pixel is written too, and then again
      const Four a = load_four(row + lower[i]), b = load_four(row + upper[i]);
      const Four made = a + (b - a) * part[i];
      std::memcpy(out + 3 * i, &made, 16);
    }
    return;
  }
  for (int64_t i = 0; i < width; ++i) {
    for (int64_t c = 0; c < channels; ++c) {
      const float a = row[lower[i] + c], b = row[upper[i] + c];
      out[i * channels + c] = a + (b - a) * part[i];
    }
  }
}
HEADRACE_DISPATCH(void, across, (const float* row, const Between& x, int64_t width, int64_t channels, float* out), (row, x, width, channels, out))

// One row of the input at the columns of the output; memory is allocated once for all rows of an image.
template <typename T>
class Across {
 public:
  Across(const T* image, ImageShape shape, int64_t width)
      : image_(image), row_(shape.width * shape.channels), channels_(shape.channels), width_(width),
        x_(shape.width, width, shape.channels), plain_(size_t(row_ + 1)) {}

  void operator()(int64_t row, float* out) {
    to_floats(image_ + row * row_, row_, plain_.data());
    across(plain_.data(), x_, width_, channels_, out);
  }

 private:
  const T* image_;
  const int64_t row_, channels_, width_;
  const Between x_;
  std::vector<float> plain_;
};

#ifdef HEADRACE_PAIRS

inline int32_t load_pixel(const uint8_t* from) {  // and the byte after it
  int32_t made;
  std::memcpy(&made, from, 4);
  return made;
}

// The same for colors in bytes: two pixels at a time, converted when they are needed.
class AcrossBytes {
 public:
  static bool fits(ImageShape shape) {
    static const bool wide = cpu_features().avx2;
    return wide && shape.channels == 3 && shape.width <= INT32_MAX / 4;
  }

  AcrossBytes(const uint8_t* image, ImageShape shape, int64_t width)
      : image_(image), row_(shape.width * 3), last_(shape.height - 1), width_(width), places_(size_t(2 * (width + 1))),
        parts_(size_t(4 * (width + 1))), end_(size_t(row_ + 1)) {
    const Between x(shape.width, width, 3);
    for (int64_t i = 0; i < width; ++i) {
      places_[size_t(2 * i)] = int32_t(x.lower[size_t(i)]);
      places_[size_t(2 * i + 1)] = int32_t(x.upper[size_t(i)]);
      std::fill_n(&parts_[size_t(4 * i)], 4, x.part[size_t(i)]);
    }
    std::memcpy(end_.data(), image + last_ * row_, size_t(row_));
  }

  // Eight more values are written after the pixels.
  HEADRACE_PAIRS void operator()(int64_t row, float* out) const {
    const uint8_t* const from = row == last_ ? end_.data() : image_ + row * row_;  // no byte follows the last one
    const int32_t* place = places_.data();
    const float* part = parts_.data();
    // If it is odd, the last has a neighbor at 0.
    for (int64_t i = 0; i < width_; i += 2, place += 4, part += 8, out += 6) {
      const __m128i lower = _mm_insert_epi32(_mm_cvtsi32_si128(load_pixel(from + place[0])), load_pixel(from + place[2]), 1);
      const __m128i upper = _mm_insert_epi32(_mm_cvtsi32_si128(load_pixel(from + place[1])), load_pixel(from + place[3]), 1);
      const __m256 a = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(lower)), b = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(upper));
      const __m256 made = _mm256_add_ps(a, _mm256_mul_ps(_mm256_sub_ps(b, a), _mm256_loadu_ps(part)));
      _mm_storeu_ps(out, _mm256_castps256_ps128(made));  // the fourth value of each is overwritten by the next
      _mm_storeu_ps(out + 3, _mm256_extractf128_ps(made, 1));
    }
  }

 private:
  const uint8_t* image_;
  const int64_t row_, last_, width_;
  std::vector<int32_t> places_;
  std::vector<float> parts_;
  std::vector<uint8_t> end_;
};

#endif

constexpr int64_t kBehind = 8;  // values that may be written after a row

template <typename Rows>
void between_all(Rows across, ImageShape shape, int64_t height, int64_t width, float* out) {
  const Between y(shape.height, height, 1);
  const int64_t made = width * shape.channels;
  std::vector<float> memory(size_t(2 * (made + kBehind)));
  float* rows[2] = {memory.data(), memory.data() + made + kBehind};
  int64_t held[2] = {-1, -1};
  const auto at = [&](int64_t wanted, int64_t keep) -> int {
    if (held[0] == wanted) return 0;
    if (held[1] == wanted) return 1;
    const int slot = held[0] == keep ? 1 : 0;
    across(wanted, rows[slot]);
    held[slot] = wanted;
    return slot;
  };
  for (int64_t i = 0; i < height; ++i, out += made) {
    const float* top = rows[at(y.lower[i], y.upper[i])];
    const float* bottom = rows[at(y.upper[i], y.lower[i])];
    between_rows(top, bottom, y.part[i], made, out);
  }
}

void resize_one(const float* image, ImageShape shape, int64_t height, int64_t width, float* out) {
  between_all(Across<float>(image, shape, width), shape, height, width, out);
}

void resize_one(const uint8_t* image, ImageShape shape, int64_t height, int64_t width, float* out) {
#ifdef HEADRACE_PAIRS
  if (AcrossBytes::fits(shape)) return between_all(AcrossBytes(image, shape, width), shape, height, width, out);
#endif
  between_all(Across<uint8_t>(image, shape, width), shape, height, width, out);
}

}  // namespace

template <typename T>
void resize_bilinear(const Images<T>& images, int64_t height, int64_t width, float* out) {
  in_pieces(images.count, 1, [=](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const ImageShape shape = images.shapes[i];
      resize_one(images.data + images.starts[i], shape, height, width, out + i * height * width * shape.channels);
    }
  });
}

template <typename T>
void resample(const T* image, ImageShape shape, const Taps& rows, const Taps& columns, float* out) {
  const int64_t channels = shape.channels, line = columns.count * channels;
  std::vector<float> across(size_t(shape.height) * line);  // every row of the input at the columns of the output
  for (int64_t y = 0; y < shape.height; ++y) {
    const T* row = image + y * shape.width * channels;
    float* made = across.data() + y * line;
    for (int64_t x = 0; x < columns.count; ++x) {
      const float* weights = columns.weights + x * columns.taps;
      for (int64_t c = 0; c < channels; ++c) {
        float sum = 0;
        for (int64_t k = 0; k < columns.taps; ++k) {
          if (weights[k] != 0) sum += weights[k] * float(row[(columns.starts[x] + k) * channels + c]);
        }
        made[x * channels + c] = sum;
      }
    }
  }
  for (int64_t y = 0; y < rows.count; ++y, out += line) {
    std::fill(out, out + line, 0.0f);
    for (int64_t k = 0; k < rows.taps; ++k) {
      const float weight = rows.weights[y * rows.taps + k];
      if (weight == 0) continue;
      const float* from = across.data() + (rows.starts[y] + k) * line;
      for (int64_t i = 0; i < line; ++i) out[i] += weight * from[i];
    }
  }
}

namespace {

template <int kBytes>
void mirror(const uint8_t* from, int64_t width, uint8_t* to) {
  for (int64_t x = 0; x < width; ++x) std::memcpy(to + x * kBytes, from + (width - 1 - x) * kBytes, kBytes);
}

void mirror_row(const uint8_t* from, int64_t width, int64_t bytes, uint8_t* to) {
  switch (bytes) {
    case 1: return mirror<1>(from, width, to);
    case 3: return mirror<3>(from, width, to);
    case 4: return mirror<4>(from, width, to);
    case 12: return mirror<12>(from, width, to);
  }
  for (int64_t x = 0; x < width; ++x) std::memcpy(to + x * bytes, from + (width - 1 - x) * bytes, size_t(bytes));
}

}  // namespace

void cut_images(const Images<uint8_t>& images, int64_t value_bytes, const Cut* cuts, const int64_t* out_starts, uint8_t* out) {
  in_pieces(images.count, 1, [=](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const ImageShape shape = images.shapes[i];
      const Cut& cut = cuts[i];
      const int64_t pixel = shape.channels * value_bytes;
      const uint8_t* from = images.data + images.starts[i] * value_bytes;
      uint8_t* to = out + out_starts[i] * value_bytes;
      for (int64_t y = 0; y < cut.height; ++y, to += cut.width * pixel) {
        const uint8_t* row = from + ((cut.top + y) * shape.width + cut.left) * pixel;
        if (cut.flip) {
          mirror_row(row, cut.width, pixel, to);
        } else {
          std::memcpy(to, row, size_t(cut.width * pixel));
        }
      }
    }
  });
}

template void resize_bilinear(const Images<uint8_t>&, int64_t, int64_t, float*);
template void resize_bilinear(const Images<float>&, int64_t, int64_t, float*);
template void resample(const uint8_t*, ImageShape, const Taps&, const Taps&, float*);
template void resample(const float*, ImageShape, const Taps&, const Taps&, float*);

}  // namespace headrace
