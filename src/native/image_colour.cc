#include <algorithm>
#include <cmath>
#include <vector>

#include "cpu.h"
#include "image.h"
#include "team.h"

namespace headrace {
namespace {

constexpr float kUnit = 1.0f / 255.0f;
constexpr int64_t kRun = 256;  // pixels that are split into planes at a time

inline float to_float(uint8_t value) { return float(value) * kUnit; }
inline float to_float(float value) { return value; }

template <typename T>
inline T from_float(float value);
template <>
inline float from_float<float>(float value) {
  return value;
}
template <>
inline uint8_t from_float<uint8_t>(float value) {
  const float scaled = value * 255.5f;
  return uint8_t(scaled > 255.0f ? 255.0f : scaled > 0.0f ? scaled : 0.0f);  // NaN is 0
}

void each_value(const float* from, int64_t count, int64_t channels, const float* factor, const float* offset, float* to) {
  for (int64_t i = 0; i < count; i += channels) {
    for (int64_t c = 0; c < channels; ++c) to[i + c] = (from[i + c] - offset[c]) * factor[0] + offset[c];
  }
}

void brightness(const float* from, int64_t count, float delta, float* to) {
  for (int64_t i = 0; i < count; ++i) to[i] = from[i] + delta;
}

void brightness(const uint8_t* from, int64_t count, float delta, uint8_t* to) {
  uint8_t table[256];
  for (int v = 0; v < 256; ++v) table[v] = from_float<uint8_t>(to_float(uint8_t(v)) + delta);
  for (int64_t i = 0; i < count; ++i) to[i] = table[from[i]];
}

void contrast(const float* from, int64_t count, int64_t channels, float factor, float* to) {
  std::vector<double> sums(size_t(channels), 0.0);
  for (int64_t i = 0; i < count; i += channels) {
    for (int64_t c = 0; c < channels; ++c) sums[size_t(c)] += double(from[i + c]);
  }
  std::vector<float> means;
  for (double sum : sums) means.push_back(float(sum / double(std::max<int64_t>(1, count / channels))));
  each_value(from, count, channels, &factor, means.data(), to);
}

void contrast(const uint8_t* from, int64_t count, int64_t channels, float factor, uint8_t* to) {
  std::vector<int64_t> sums(size_t(channels), 0);
  if (channels == 3) {
    int64_t r = 0, g = 0, b = 0;
    for (int64_t i = 0; i + 2 < count; i += 3) r += from[i], g += from[i + 1], b += from[i + 2];
    sums = {r, g, b};
  } else {
    for (int64_t i = 0; i < count; i += channels) {
      for (int64_t c = 0; c < channels; ++c) sums[size_t(c)] += from[i + c];
    }
  }
  std::vector<uint8_t> table(size_t(channels) * 256);
  for (int64_t c = 0; c < channels; ++c) {
    const float mean = float(double(sums[size_t(c)]) / double(std::max<int64_t>(1, count / channels)) / 255.0);
    for (int v = 0; v < 256; ++v) {
      table[size_t(c * 256 + v)] = from_float<uint8_t>((to_float(uint8_t(v)) - mean) * factor + mean);
    }
  }
  const uint8_t* const known = table.data();
  if (channels == 3) {
    for (int64_t i = 0; i + 2 < count; i += 3) {
      to[i] = known[from[i]];
      to[i + 1] = known[256 + from[i + 1]];
      to[i + 2] = known[512 + from[i + 2]];
    }
    return;
  }
  for (int64_t i = 0; i < count; i += channels) {
    for (int64_t c = 0; c < channels; ++c) to[i + c] = known[c * 256 + from[i + c]];
  }
}

inline float larger(float a, float b) { return a > b ? a : b; }
inline float smaller(float a, float b) { return a < b ? a : b; }
inline float within_one(float a) { return smaller(larger(a, 0.0f), 1.0f); }

struct Planes {
  float r[kRun], g[kRun], b[kRun];
};

// The saturation becomes `factor` times what it is, at most 1; hue and value stay.
HEADRACE_INLINE void saturate_inline(Planes& p, float factor) {
  for (int64_t i = 0; i < kRun; ++i) {
    const float v = larger(larger(p.r[i], p.g[i]), p.b[i]), low = smaller(smaller(p.r[i], p.g[i]), p.b[i]);
    const float range = v - low;
    const float s = v > 0.0f ? range / v : 0.0f;
    const float wanted = within_one(s * factor) * v;
    const float k = range > 0.0f ? wanted / range : 0.0f;
    p.r[i] = v - (v - p.r[i]) * k;
    p.g[i] = v - (v - p.g[i]) * k;
    p.b[i] = v - (v - p.b[i]) * k;
  }
}
HEADRACE_DISPATCH(void, saturate, (Planes& p, float factor), (p, factor))

// The hue is rotated by `delta` turns; saturation and value stay.
HEADRACE_INLINE void turn_inline(Planes& p, float delta) {
  const float steps = delta * 6.0f;
  for (int64_t i = 0; i < kRun; ++i) {
    const float r = p.r[i], g = p.g[i], b = p.b[i];
    const float v = larger(larger(r, g), b), low = smaller(smaller(r, g), b);
    const float range = v - low;
    const float one = range > 0.0f ? 1.0f / range : 0.0f;
    const float from_r = (g - b) * one, from_g = (b - r) * one + 2.0f, from_b = (r - g) * one + 4.0f;
    float h = (v == r ? from_r : v == g ? from_g : from_b) + steps;
    h = h < 0.0f ? h + 6.0f : h;  // a turn at most, from at most one below zero
    h = h < 0.0f ? h + 6.0f : h;
    h = h >= 6.0f ? h - 6.0f : h;
    p.r[i] = low + range * within_one(std::fabs(h - 3.0f) - 1.0f);
    p.g[i] = low + range * within_one(2.0f - std::fabs(h - 2.0f));
    p.b[i] = low + range * within_one(2.0f - std::fabs(h - 4.0f));
  }
}
HEADRACE_DISPATCH(void, turn, (Planes& p, float delta), (p, delta))

HEADRACE_INLINE void scale_down_inline(const uint8_t* from, int64_t count, float* to) {
  for (int64_t i = 0; i < count; ++i) to[i] = float(from[i]) * kUnit;
}
HEADRACE_DISPATCH(void, scale_down, (const uint8_t* from, int64_t count, float* to), (from, count, to))
void scale_down(const float* from, int64_t count, float* to) { std::copy(from, from + count, to); }

HEADRACE_INLINE void scale_up_inline(const float* from, int64_t count, uint8_t* to) {
  for (int64_t i = 0; i < count; ++i) {
    const float scaled = from[i] * 255.5f;
    to[i] = uint8_t(int(scaled > 255.0f ? 255.0f : scaled > 0.0f ? scaled : 0.0f));
  }
}
HEADRACE_DISPATCH(void, scale_up, (const float* from, int64_t count, uint8_t* to), (from, count, to))
void scale_up(const float* from, int64_t count, float* to) { std::copy(from, from + count, to); }

template <typename T, typename F>
void in_planes(const T* from, int64_t count, T* to, F change) {
  Planes planes{};
  float run[3 * kRun];
  for (int64_t start = 0; start < count; start += 3 * kRun) {
    const int64_t pixels = std::min(kRun, (count - start) / 3);
    scale_down(from + start, 3 * pixels, run);
    for (int64_t i = 0; i < pixels; ++i) {
      planes.r[i] = run[3 * i];
      planes.g[i] = run[3 * i + 1];
      planes.b[i] = run[3 * i + 2];
    }
    change(planes);
    for (int64_t i = 0; i < pixels; ++i) {
      run[3 * i] = planes.r[i];
      run[3 * i + 1] = planes.g[i];
      run[3 * i + 2] = planes.b[i];
    }
    scale_up(run, 3 * pixels, to + start);
  }
}

}  // namespace

template <typename T>
void adjust_images(Adjustment what, const Images<T>& images, const float* factors, T* out) {
  in_pieces(images.count, 1, [=](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const ImageShape shape = images.shapes[i];
      const int64_t count = shape.height * shape.width * shape.channels;
      const T* from = images.data + images.starts[i];
      T* to = out + images.starts[i];
      const float factor = factors[i];
      switch (what) {
        case kBrightness: brightness(from, count, factor, to); break;
        case kContrast: contrast(from, count, shape.channels, factor, to); break;
        case kSaturation: in_planes(from, count, to, [=](Planes& p) { saturate(p, factor); }); break;
        case kHue: in_planes(from, count, to, [=](Planes& p) { turn(p, factor); }); break;
      }
    }
  });
}

template void adjust_images(Adjustment, const Images<uint8_t>&, const float*, uint8_t*);
template void adjust_images(Adjustment, const Images<float>&, const float*, float*);

}  // namespace headrace
