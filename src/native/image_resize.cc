#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>
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

template <int kBytes>
void mirror(const uint8_t* from, int64_t width, uint8_t* to) {
  for (int64_t x = 0; x < width; ++x) std::memcpy(to + x * kBytes, from + (width - 1 - x) * kBytes, kBytes);
}

}  // namespace

void mirror_row(const uint8_t* from, int64_t width, int64_t bytes, uint8_t* to) {
  switch (bytes) {
    case 1: return mirror<1>(from, width, to);
    case 3: return mirror<3>(from, width, to);
    case 4: return mirror<4>(from, width, to);
    case 12: return mirror<12>(from, width, to);
  }
  for (int64_t x = 0; x < width; ++x) std::memcpy(to + x * bytes, from + (width - 1 - x) * bytes, size_t(bytes));
}

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

// A row of the input at the columns of the output; memory is allocated once for all rows of an image.
template <typename T>
class Across {
 public:
  Across(int64_t in, int64_t width, int64_t channels)
      : row_(in * channels), channels_(channels), width_(width), x_(in, width, channels), plain_(size_t(row_ + 1)) {}

  void operator()(const T* row, float* out) {
    to_floats(row, row_, plain_.data());
    across(plain_.data(), x_, width_, channels_, out);
  }

 private:
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

// The same for colors in bytes: two pixels at a time, converted when they are needed. Reads a byte after the row.
class AcrossBytes {
 public:
  static bool fits(int64_t in, int64_t channels) {
    static const bool wide = cpu_features().avx2;
    return wide && channels == 3 && in <= INT32_MAX / 4;
  }

  AcrossBytes(int64_t in, int64_t width) : width_(width), places_(size_t(2 * (width + 1))), parts_(size_t(4 * (width + 1))) {
    const Between x(in, width, 3);
    for (int64_t i = 0; i < width; ++i) {
      places_[size_t(2 * i)] = int32_t(x.lower[size_t(i)]);
      places_[size_t(2 * i + 1)] = int32_t(x.upper[size_t(i)]);
      std::fill_n(&parts_[size_t(4 * i)], 4, x.part[size_t(i)]);
    }
  }

  // Eight more values are written after the pixels.
  HEADRACE_PAIRS void operator()(const uint8_t* from, float* out) const {
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
  const int64_t width_;
  std::vector<int32_t> places_;
  std::vector<float> parts_;
};

#endif

constexpr int64_t kBehind = 8;  // values that may be written after a row

// `row(y)` is the input's row y, asked for in increasing order, or null: then the result is false. `take(top, bottom,
// part, i)` gets, for row i of the output, the two rows around it.
template <typename Row, typename Columns, typename Take>
bool between_all(Row row, Columns& across, ImageShape shape, int64_t height, int64_t width, Take take) {
  const Between y(shape.height, height, 1);
  const int64_t made = width * shape.channels;
  std::vector<float> memory(size_t(2 * (made + kBehind)));
  float* rows[2] = {memory.data(), memory.data() + made + kBehind};
  int64_t held[2] = {-1, -1};
  const auto at = [&](int64_t wanted, int64_t keep) -> int {
    if (held[0] == wanted) return 0;
    if (held[1] == wanted) return 1;
    const auto* const from = row(wanted);
    if (!from) return -1;
    const int slot = held[0] == keep ? 1 : 0;
    across(from, rows[slot]);
    held[slot] = wanted;
    return slot;
  };
  for (int64_t i = 0; i < height; ++i) {
    const int top = at(y.lower[i], y.upper[i]);
    const int bottom = top < 0 ? -1 : at(y.upper[i], y.lower[i]);
    if (bottom < 0) return false;
    take(rows[top], rows[bottom], y.part[i], i);
  }
  return true;
}

template <typename Row, typename Take>
bool between_all(Row row, ImageShape shape, int64_t height, int64_t width, Take take) {
#ifdef HEADRACE_PAIRS
  if (AcrossBytes::fits(shape.width, shape.channels)) {
    AcrossBytes across(shape.width, width);
    return between_all(row, across, shape, height, width, take);
  }
#endif
  Across<uint8_t> across(shape.width, width, shape.channels);
  return between_all(row, across, shape, height, width, take);
}

void resize_one(const float* image, ImageShape shape, int64_t height, int64_t width, float* out) {
  const int64_t row = shape.width * shape.channels, made = width * shape.channels;
  Across<float> across(shape.width, width, shape.channels);
  between_all([=](int64_t y) { return image + y * row; }, across, shape, height, width,
              [=](const float* top, const float* bottom, float part, int64_t i) {
                between_rows(top, bottom, part, made, out + i * made);
              });
}

void resize_one(const uint8_t* image, ImageShape shape, int64_t height, int64_t width, float* out) {
  WindowRows rows(image, shape, {0, 0, shape.height, shape.width, 0});
  const int64_t plain = 0;
  resize_rows(rows, shape, {height, width, kFloats, &plain, nullptr}, 0, out);
}

// A float from 0 to 255 as a byte: adding this rounds it to an integer, half to even.
constexpr float kRounder = 12582912.0f;

HEADRACE_INLINE void between_rows_rounded_inline(const float* top, const float* bottom, float part, int64_t count, uint8_t* out) {
  for (int64_t i = 0; i < count; ++i) {
    const float made = top[i] + (bottom[i] - top[i]) * part;
    out[i] = uint8_t(int32_t((made + kRounder) - kRounder));
  }
}
HEADRACE_DISPATCH(void, between_rows_rounded, (const float* top, const float* bottom, float part, int64_t count, uint8_t* out), (top, bottom, part, count, out))

HEADRACE_INLINE void between_rows_truncated_inline(const float* top, const float* bottom, float part, int64_t count, uint8_t* out) {
  for (int64_t i = 0; i < count; ++i) out[i] = uint8_t(int32_t(top[i] + (bottom[i] - top[i]) * part));
}
HEADRACE_DISPATCH(void, between_rows_truncated, (const float* top, const float* bottom, float part, int64_t count, uint8_t* out), (top, bottom, part, count, out))

void blend(const float* top, const float* bottom, float part, int64_t count, Rounding, float* out) {
  between_rows(top, bottom, part, count, out);
}

void blend(const float* top, const float* bottom, float part, int64_t count, Rounding rounding, uint8_t* out) {
  if (rounding == kNearest) return between_rows_rounded(top, bottom, part, count, out);
  between_rows_truncated(top, bottom, part, count, out);
}

// Fetch memory into the nearest cache. The rows of a batch are in none: if the next one is fetched while a row is made,
// nothing waits for it.
template <typename T>
inline void prefetch_for_write(T* values, int64_t count) {
  constexpr int64_t kCacheLine = 64 / sizeof(T);
  for (int64_t i = 0; i < count; i += kCacheLine) __builtin_prefetch(values + i, 1);
}

template <typename T>
bool resize_to(ByteRows& rows, ImageShape shape, const Resized& how, bool mirrored, T* out) {
  const int64_t made = how.width * shape.channels;
  std::vector<T> line(mirrored ? size_t(made) : 0);
  const auto take = [&](const float* top, const float* bottom, float part, int64_t i) {
    T* const row = mirrored ? line.data() : out + i * made;
    if (i + 1 < how.height) prefetch_for_write(out + (i + 1) * made, made);
    blend(top, bottom, part, made, how.rounding, row);
    if constexpr (std::is_same_v<T, float>) {
      if (how.scaling) (*how.scaling)(row);
    }
    if (!mirrored) return;
    mirror_row(reinterpret_cast<const uint8_t*>(row), how.width, shape.channels * int64_t(sizeof(T)),
               reinterpret_cast<uint8_t*>(out + i * made));
  };
  return between_all([&](int64_t y) { return rows.row(y); }, shape, how.height, how.width, take);
}

}  // namespace

WindowRows::WindowRows(const uint8_t* image, ImageShape shape, const Cut& window)
    : first_(image + (window.top * shape.width + window.left) * shape.channels), stride_(shape.width * shape.channels),
      last_(window.height - 1), width_(window.width), channels_(shape.channels), flip_(window.flip != 0),
      line_(size_t(window.width * shape.channels + 1)) {}

const uint8_t* WindowRows::row(int64_t y) {
  const uint8_t* const from = first_ + y * stride_;
  if (flip_) {
    mirror_row(from, width_, channels_, line_.data());
  } else if (y == last_) {  // no byte may follow the last one
    std::memcpy(line_.data(), from, size_t(width_ * channels_));
  } else {
    return from;
  }
  return line_.data();
}

bool resize_rows(ByteRows& rows, ImageShape shape, const Resized& how, int64_t image, void* out) {
  const bool mirrored = how.mirrored[image] != 0;
  uint8_t* const bytes = static_cast<uint8_t*>(out) + image * how.bytes(shape.channels);
  if (how.rounding == kFloats) return resize_to(rows, shape, how, mirrored, reinterpret_cast<float*>(bytes));
  return resize_to(rows, shape, how, mirrored, bytes);
}

void resize_windows(const Images<uint8_t>& images, const Cut* windows, const Resized& how, void* out) {
  in_pieces(images.count, 1, [=, &how](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const ImageShape shape = images.shapes[i];
      WindowRows rows(images.data + images.starts[i], shape, windows[i]);
      resize_rows(rows, {windows[i].height, windows[i].width, shape.channels}, how, i, out);
    }
  });
}

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
