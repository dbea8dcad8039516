// The kernels of jpeg_pixels.h on the lanes of jpeg_lanes.h. Included once per file, for the instructions that it is
// compiled for.
#include <algorithm>

#include "jpeg_lanes.h"
#include "jpeg_pixels.h"

namespace headrace::jpeg {
namespace {

HEADRACE_LANE void transpose(V v[8]) {
  const V a = low16(v[0], v[1]), b = high16(v[0], v[1]), c = low16(v[2], v[3]), d = high16(v[2], v[3]);
  const V e = low16(v[4], v[5]), f = high16(v[4], v[5]), g = low16(v[6], v[7]), h = high16(v[6], v[7]);
  const V i = low32(a, c), j = high32(a, c), k = low32(b, d), l = high32(b, d);
  const V m = low32(e, g), n = high32(e, g), o = low32(f, h), p = high32(f, h);
  v[0] = low64(i, m), v[1] = high64(i, m), v[2] = low64(j, n), v[3] = high64(j, n);
  v[4] = low64(k, o), v[5] = high64(k, o), v[6] = low64(l, p), v[7] = high64(l, p);
}

// The fast transform in 16 bits: products keep their upper half, and sums wrap around.
constexpr int kPreScale = 2, kConstantShift = 16 - 8 - kPreScale;
constexpr int16_t kFast1414 = 362 << kConstantShift, kFast1847 = 473 << kConstantShift;
constexpr int16_t kFast1613 = -(413 << kConstantShift), kFast1082 = 277 << kConstantShift;

HEADRACE_LANE void fast_pass(V v[8]) {
  const V sum04 = v[0] + v[4], difference04 = v[0] - v[4], sum26 = v[2] + v[6];
  const V rotated = high_product(left<kPreScale>(v[2] - v[6]), all(kFast1414)) - sum26;
  const V even0 = sum04 + sum26, even3 = sum04 - sum26, even1 = difference04 + rotated, even2 = difference04 - rotated;

  const V z10 = v[5] - v[3], z11 = v[1] + v[7], z12 = v[1] - v[7], z13 = v[5] + v[3];
  const V odd7 = z11 + z13;
  const V middle = high_product(left<kPreScale>(z11 - z13), all(kFast1414));
  const V scaled10 = left<kPreScale>(z10), scaled12 = left<kPreScale>(z12);
  const V z5 = high_product(scaled10 + scaled12, all(kFast1847));
  const V odd6 = high_product(scaled10, all(kFast1613)) - z10 + z5 - odd7;
  const V odd5 = middle - odd6;
  const V odd4 = high_product(scaled12, all(kFast1082)) - z5 + odd5;

  v[0] = even0 + odd7, v[7] = even0 - odd7, v[1] = even1 + odd6, v[6] = even1 - odd6;
  v[2] = even2 + odd5, v[5] = even2 - odd5, v[4] = even3 + odd4, v[3] = even3 - odd4;
}

// The accurate transform: products and their sums have 32 bits.
constexpr int kConstantBits = 13, kPassBits = 2;
constexpr int kF0298 = 2446, kF0390 = 3196, kF0541 = 4433, kF0765 = 6270, kF0899 = 7373, kF1175 = 9633;
constexpr int kF1501 = 12299, kF1847 = 15137, kF1961 = 16069, kF2053 = 16819, kF2562 = 20995, kF3072 = 25172;

HEADRACE_LANE V factors_of(int first, int second) {
  return all_wide(int32_t(uint32_t(uint16_t(int16_t(first))) | uint32_t(uint16_t(int16_t(second))) << 16));
}

struct WidePair {
  V low, high;  // of 32-bit lanes
};
// a × first + b × second.
HEADRACE_LANE WidePair rotate(V a, V b, int first, int second) {
  const V factors = factors_of(first, second);
  return {sum_of_products(low16(a, b), factors), sum_of_products(high16(a, b), factors)};
}
HEADRACE_LANE WidePair operator+(WidePair a, WidePair b) { return {add_wide(a.low, b.low), add_wide(a.high, b.high)}; }
HEADRACE_LANE WidePair operator-(WidePair a, WidePair b) {
  return {subtract_wide(a.low, b.low), subtract_wide(a.high, b.high)};
}
HEADRACE_LANE WidePair widen_shifted(V v) {  // by kConstantBits
  const V zero = all(0);
  return {right_wide<16 - kConstantBits>(low16(zero, v)), right_wide<16 - kConstantBits>(high16(zero, v))};
}
template <int kBits>
HEADRACE_LANE V descale(WidePair v) {
  const V half = all_wide(1 << (kBits - 1));
  return narrow(right_wide<kBits>(add_wide(v.low, half)), right_wide<kBits>(add_wide(v.high, half)));
}

template <int kBits>
HEADRACE_LANE void accurate_pass(V v[8]) {
  const WidePair even3 = rotate(v[2], v[6], kF0541 + kF0765, kF0541), even2 = rotate(v[2], v[6], kF0541, kF0541 - kF1847);
  const WidePair even0 = widen_shifted(v[0] + v[4]), even1 = widen_shifted(v[0] - v[4]);
  const WidePair sum0 = even0 + even3, sum3 = even0 - even3, sum1 = even1 + even2, sum2 = even1 - even2;

  const V z3 = v[7] + v[3], z4 = v[5] + v[1];
  const WidePair turned3 = rotate(z3, z4, kF1175 - kF1961, kF1175), turned4 = rotate(z3, z4, kF1175, kF1175 - kF0390);
  const WidePair odd0 = rotate(v[7], v[1], kF0298 - kF0899, -kF0899) + turned3;
  const WidePair odd1 = rotate(v[5], v[3], kF2053 - kF2562, -kF2562) + turned4;
  const WidePair odd2 = rotate(v[5], v[3], -kF2562, kF3072 - kF2562) + turned3;
  const WidePair odd3 = rotate(v[7], v[1], -kF0899, kF1501 - kF0899) + turned4;

  v[0] = descale<kBits>(sum0 + odd3), v[7] = descale<kBits>(sum0 - odd3);
  v[1] = descale<kBits>(sum1 + odd2), v[6] = descale<kBits>(sum1 - odd2);
  v[2] = descale<kBits>(sum2 + odd1), v[5] = descale<kBits>(sum2 - odd1);
  v[3] = descale<kBits>(sum3 + odd0), v[4] = descale<kBits>(sum3 - odd0);
}

// One block, or two: what a vector has.
template <int kRows>
HEADRACE_LANE void load_rows(const BlockPair& pair, int at, V v[8]) {
  const V zero = all(0);
  for (int row = 0; row < 8; ++row) {
    if (row >= kRows) {
      v[row] = zero;
      continue;
    }
    int16_t* const from = pair.coefficients + at + row * 16;
    v[row] = load(from) * load(pair.factors->values + at + row * 16);
    store(zero, from);
  }
}

HEADRACE_LANE void store_rows(const V v[8], uint8_t* out, size_t stride) {
  for (int row = 0; row < 8; row += 2) store_samples(v[row], v[row + 1], out + size_t(row) * stride, out + size_t(row + 1) * stride);
}

template <int kRows>
HEADRACE_LANE void transform_fast_rows(const BlockPair& pair, int at, uint8_t* out, size_t stride) {
  V v[8];
  load_rows<kRows>(pair, at, v);
  fast_pass(v);
  transpose(v);
  if (kRows == 4) v[4] = v[5] = v[6] = v[7] = all(0);
  fast_pass(v);
  transpose(v);
  for (V& row : v) row = right<kPassBits + 3>(row);
  store_rows(v, out, stride);
}

// libjpeg-turbo shifts the first row if there is no other, and limits results else: the same up to this many bits.
constexpr int kMostExactBits = 16 - kPassBits;

template <int kRows>
HEADRACE_LANE bool transform_accurate_rows(const BlockPair& pair, int at, uint8_t* out, size_t stride) {
  V v[8];
  load_rows<kRows>(pair, at, v);
  const bool exact = are_within<kMostExactBits>(v[0]);
  accurate_pass<kConstantBits - kPassBits>(v);
  transpose(v);
  if (kRows == 4) v[4] = v[5] = v[6] = v[7] = all(0);
  accurate_pass<kConstantBits + kPassBits + 3>(v);
  transpose(v);
  store_rows(v, out, stride);
  return exact;
}

constexpr int kLastOfSixteen = 9;  // up to this zigzag position, coefficients are in the first 4 rows and columns

uint8_t to_sample(int value) { return uint8_t(std::clamp(value, -128, 127) + 128); }

// All samples of a block have one value if there is only its first coefficient.
HEADRACE_LANE void fill_pair(const BlockPair& pair, int (*sample)(int16_t), uint8_t* out, size_t stride) {
  for (int at = 0; at < 16; at += 8) {
    const uint8_t value = to_sample(sample(int16_t(pair.coefficients[at] * pair.factors->values[at])));
    pair.coefficients[at] = 0;
    for (int row = 0; row < 8; ++row) std::memset(out + size_t(row) * stride + at, value, 8);
  }
}

int fast_sample(int16_t first) { return first >> (kPassBits + 3); }
int accurate_sample(int16_t first) {
  constexpr int kBits = kConstantBits + kPassBits + 3;
  return (int16_t(first * (1 << kPassBits)) * (1 << kConstantBits) + (1 << (kBits - 1))) >> kBits;
}

bool transform_fast(const BlockPair& pair, uint8_t* out, size_t stride) {
  if (pair.last == 0) return fill_pair(pair, fast_sample, out, stride), true;
  for (int at = 0; at < 16; at += kLanes) {
    if (pair.last <= kLastOfSixteen) {
      transform_fast_rows<4>(pair, at, out + at, stride);
    } else {
      transform_fast_rows<8>(pair, at, out + at, stride);
    }
  }
  return true;
}

bool transform_accurate(const BlockPair& pair, uint8_t* out, size_t stride) {
  if (pair.last == 0) return fill_pair(pair, accurate_sample, out, stride), true;
  bool exact = true;
  for (int at = 0; at < 16; at += kLanes) {
    if (pair.last <= kLastOfSixteen) {
      exact &= transform_accurate_rows<4>(pair, at, out + at, stride);
    } else {
      exact &= transform_accurate_rows<8>(pair, at, out + at, stride);
    }
  }
  return exact;
}

struct Rgb {
  V red, green, blue;
};

// R = Y + 1.402 Cr, G = Y - 0.34414 Cb - 0.71414 Cr, B = Y + 1.772 Cb, of integers with 16 more bits.
HEADRACE_LANE Rgb rgb_of(const uint8_t* at_y, const uint8_t* at_cb, const uint8_t* at_cr) {
  const V y = load_bytes(at_y);
  const V center = all(128), one = all(1);
  const V cb = load_bytes(at_cb) - center, cr = load_bytes(at_cr) - center;
  const V to_blue = right<1>(high_product(cb + cb, all(-14942)) + one) + cb + cb;
  const V to_red = right<1>(high_product(cr + cr, all(26345)) + one) + cr;
  const WidePair green = rotate(cb, cr, -22554, 18734);
  const V to_green = descale<16>(green) - cr;
  return {y + to_red, y + to_green, y + to_blue};
}

#if HEADRACE_LANES == 16

// Bytes of three colours by turns, in each half of 16 pixels: the three parts of 16 bytes of both.
struct ByTurns {
  __m256i parts[3];
};
HEADRACE_LANE ByTurns by_turns(__m256i red, __m256i green, __m256i blue) {
  ByTurns made;
  const __m256i colours[3] = {red, green, blue};
  for (int part = 0; part < 3; ++part) {
    alignas(32) int8_t from[3][32];
    for (int i = 0; i < 16; ++i) {
      const int byte = part * 16 + i;
      for (int c = 0; c < 3; ++c) from[c][i] = from[c][i + 16] = byte % 3 == c ? int8_t(byte / 3) : int8_t(-1);
    }
    __m256i bytes = _mm256_setzero_si256();
    for (int c = 0; c < 3; ++c) {
      const __m256i places = _mm256_load_si256(reinterpret_cast<const __m256i*>(from[c]));
      bytes = _mm256_or_si256(bytes, _mm256_shuffle_epi8(colours[c], places));
    }
    made.parts[part] = bytes;
  }
  return made;
}

HEADRACE_LANE __m256i bytes_of(V a, V b) { return _mm256_permute4x64_epi64(_mm256_packus_epi16(a.r, b.r), 0xD8); }

HEADRACE_LANE void store_rgb(Rgb rgb, uint8_t* out) {
  const ByTurns made = by_turns(bytes_of(rgb.red, rgb.red), bytes_of(rgb.green, rgb.green), bytes_of(rgb.blue, rgb.blue));
  for (int part = 0; part < 3; ++part) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + 16 * part), _mm256_castsi256_si128(made.parts[part]));
  }
}

// Twice as many pixels.
HEADRACE_LANE void store_rgb(Rgb first, Rgb second, uint8_t* out) {
  const ByTurns made = by_turns(bytes_of(first.red, second.red), bytes_of(first.green, second.green), bytes_of(first.blue, second.blue));
  const auto [a, b, c] = made.parts;
  auto* const to = reinterpret_cast<__m256i*>(out);
  _mm256_storeu_si256(to, _mm256_permute2x128_si256(a, b, 0x20));
  _mm256_storeu_si256(to + 1, _mm256_permute2x128_si256(c, a, 0x30));
  _mm256_storeu_si256(to + 2, _mm256_permute2x128_si256(b, c, 0x31));
}

#else

HEADRACE_LANE void store_rgb(Rgb rgb, uint8_t* out) {
  uint8_t red[kLanes], green[kLanes], blue[kLanes];
  store_bytes(rgb.red, red);
  store_bytes(rgb.green, green);
  store_bytes(rgb.blue, blue);
  for (int i = 0; i < kLanes; ++i) out[3 * i] = red[i], out[3 * i + 1] = green[i], out[3 * i + 2] = blue[i];
}
HEADRACE_LANE void store_rgb(Rgb first, Rgb second, uint8_t* out) {
  store_rgb(first, out);
  store_rgb(second, out + 3 * kLanes);
}

#endif

void to_rgb(const uint8_t* y, const uint8_t* cb, const uint8_t* cr, int64_t count, uint8_t* out) {
  int64_t i = 0;
  for (; i + kLanes < count; i += 2 * kLanes) {
    const int64_t next = i + kLanes;
    store_rgb(rgb_of(y + i, cb + i, cr + i), rgb_of(y + next, cb + next, cr + next), out + 3 * i);
  }
  if (i < count) store_rgb(rgb_of(y + i, cb + i, cr + i), out + 3 * i);
}

void grey_to_rgb(const uint8_t* y, int64_t count, uint8_t* out) {
  for (int64_t i = 0; i < count; ++i) out[3 * i] = out[3 * i + 1] = out[3 * i + 2] = y[i];
}

HEADRACE_LANE V thrice(V v) { return v + v + v; }
HEADRACE_LANE V weigh(const uint8_t* near, const uint8_t* far) { return thrice(load_bytes(near)) + load_bytes(far); }

void widen(const uint8_t* near, int64_t count, uint8_t* out) {
  for (int64_t i = 0; i < count; i += kLanes) {
    const V most = thrice(load_bytes(near + i));
    const V even = right<2>(most + load_bytes(near + i - 1) + all(1)), odd = right<2>(most + load_bytes(near + i + 1) + all(2));
    store_pairs(even | left<8>(odd), out + 2 * i);
  }
}

void widen_between(const uint8_t* near, const uint8_t* far, int64_t count, uint8_t* out) {
  V before = weigh(near - kLanes, far - kLanes), sum = weigh(near, far);
  for (int64_t i = 0; i < count; i += kLanes) {
    const V after = weigh(near + i + kLanes, far + i + kLanes), most = thrice(sum);
    const V even = right<4>(most + from_left(before, sum) + all(8)), odd = right<4>(most + from_right(sum, after) + all(7));
    store_pairs(even | left<8>(odd), out + 2 * i);
    before = sum;
    sum = after;
  }
}

void between(const uint8_t* near, const uint8_t* far, int bias, int64_t count, uint8_t* out) {
  const V round = all(int16_t(bias));
  for (int64_t i = 0; i < count; i += kLanes) {
    store_bytes(right<2>(weigh(near + i, far + i) + round), out + i);
  }
}

constexpr PixelKernels kKernels{transform_fast, transform_accurate, to_rgb, grey_to_rgb, widen, widen_between, between};

}  // namespace
}  // namespace headrace::jpeg
