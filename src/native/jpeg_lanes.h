// Vectors of 16-bit lanes: one block's row, or those of two blocks if HEADRACE_LANES is 16. Included once per file, after
// <immintrin.h> on x86-64. Operations work within halves of 8 lanes.
#include <cstdint>
#include <cstring>

#if defined(HEADRACE_PLAIN_LANES)  // in a test, under sanitizers: inlined code would take minutes to compile
#define HEADRACE_LANE inline
#else
#define HEADRACE_LANE inline __attribute__((always_inline))
#endif

namespace headrace::jpeg {
namespace {

constexpr int kLanes = HEADRACE_LANES;

#if defined(__x86_64__) && !defined(HEADRACE_PLAIN_LANES)

#if HEADRACE_LANES == 16
using Register = __m256i;
#define HEADRACE_OP(name) _mm256_##name
#define HEADRACE_WHOLE(name) _mm256_##name##_si256
#else
using Register = __m128i;
#define HEADRACE_OP(name) _mm_##name
#define HEADRACE_WHOLE(name) _mm_##name##_si128
#endif

// 16-bit lanes, or pairs of them as 32-bit ones.
struct V {
  Register r;
};
HEADRACE_LANE V load(const int16_t* from) { return {HEADRACE_WHOLE(load)(reinterpret_cast<const Register*>(from))}; }
HEADRACE_LANE void store(V v, int16_t* to) { HEADRACE_WHOLE(store)(reinterpret_cast<Register*>(to), v.r); }
// The low byte of each lane first.
HEADRACE_LANE void store_pairs(V v, uint8_t* to) { HEADRACE_WHOLE(storeu)(reinterpret_cast<Register*>(to), v.r); }
HEADRACE_LANE V all(int16_t value) { return {HEADRACE_OP(set1_epi16)(value)}; }
HEADRACE_LANE V all_wide(int32_t value) { return {HEADRACE_OP(set1_epi32)(value)}; }
HEADRACE_LANE V operator+(V a, V b) { return {HEADRACE_OP(add_epi16)(a.r, b.r)}; }
HEADRACE_LANE V operator-(V a, V b) { return {HEADRACE_OP(sub_epi16)(a.r, b.r)}; }
HEADRACE_LANE V operator*(V a, V b) { return {HEADRACE_OP(mullo_epi16)(a.r, b.r)}; }
HEADRACE_LANE V operator|(V a, V b) { return {HEADRACE_WHOLE(or)(a.r, b.r)}; }
// Each lane's neighbor, in rows of lanes.
#if HEADRACE_LANES == 16
HEADRACE_LANE V from_left(V before, V v) {
  return {_mm256_alignr_epi8(v.r, _mm256_permute2x128_si256(before.r, v.r, 0x21), 14)};
}
HEADRACE_LANE V from_right(V v, V after) { return {_mm256_alignr_epi8(_mm256_permute2x128_si256(v.r, after.r, 0x21), v.r, 2)}; }
#else
HEADRACE_LANE V from_left(V before, V v) { return {_mm_or_si128(_mm_slli_si128(v.r, 2), _mm_srli_si128(before.r, 14))}; }
HEADRACE_LANE V from_right(V v, V after) { return {_mm_or_si128(_mm_srli_si128(v.r, 2), _mm_slli_si128(after.r, 14))}; }
#endif
HEADRACE_LANE V high_product(V a, V b) { return {HEADRACE_OP(mulhi_epi16)(a.r, b.r)}; }
template <int kBits>
HEADRACE_LANE V left(V v) { return {HEADRACE_OP(slli_epi16)(v.r, kBits)}; }
template <int kBits>
HEADRACE_LANE V right(V v) { return {HEADRACE_OP(srai_epi16)(v.r, kBits)}; }
HEADRACE_LANE V add_wide(V a, V b) { return {HEADRACE_OP(add_epi32)(a.r, b.r)}; }
HEADRACE_LANE V subtract_wide(V a, V b) { return {HEADRACE_OP(sub_epi32)(a.r, b.r)}; }
template <int kBits>
HEADRACE_LANE V right_wide(V v) { return {HEADRACE_OP(srai_epi32)(v.r, kBits)}; }
HEADRACE_LANE V sum_of_products(V a, V b) { return {HEADRACE_OP(madd_epi16)(a.r, b.r)}; }  // of pairs, as 32-bit lanes
HEADRACE_LANE V narrow(V low, V high) { return {HEADRACE_OP(packs_epi32)(low.r, high.r)}; }
HEADRACE_LANE V low16(V a, V b) { return {HEADRACE_OP(unpacklo_epi16)(a.r, b.r)}; }
HEADRACE_LANE V high16(V a, V b) { return {HEADRACE_OP(unpackhi_epi16)(a.r, b.r)}; }
HEADRACE_LANE V low32(V a, V b) { return {HEADRACE_OP(unpacklo_epi32)(a.r, b.r)}; }
HEADRACE_LANE V high32(V a, V b) { return {HEADRACE_OP(unpackhi_epi32)(a.r, b.r)}; }
HEADRACE_LANE V low64(V a, V b) { return {HEADRACE_OP(unpacklo_epi64)(a.r, b.r)}; }
HEADRACE_LANE V high64(V a, V b) { return {HEADRACE_OP(unpackhi_epi64)(a.r, b.r)}; }

// Whether all lanes are integers of this many bits.
template <int kBits>
HEADRACE_LANE bool are_within(V v) {
  const Register beyond = HEADRACE_WHOLE(and)((v + all(1 << (kBits - 1))).r, all(int16_t(-(1 << kBits))).r);
  return HEADRACE_OP(movemask_epi8)(HEADRACE_OP(cmpeq_epi16)(beyond, all(0).r)) == int((1u << (kLanes * 2 - 1)) * 2u - 1u);
}

// Two rows of samples around 0, as bytes.
HEADRACE_LANE void store_samples(V a, V b, uint8_t* row_a, uint8_t* row_b) {
  const Register bytes = HEADRACE_WHOLE(xor)(HEADRACE_OP(packs_epi16)(a.r, b.r), HEADRACE_OP(set1_epi8)(char(0x80)));
#if HEADRACE_LANES == 16
  const __m256i ordered = _mm256_permute4x64_epi64(bytes, 0xD8);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(row_a), _mm256_castsi256_si128(ordered));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(row_b), _mm256_extracti128_si256(ordered, 1));
#else
  _mm_storel_epi64(reinterpret_cast<__m128i*>(row_a), bytes);
  _mm_storel_epi64(reinterpret_cast<__m128i*>(row_b), _mm_srli_si128(bytes, 8));
#endif
}

// As many bytes as lanes.
HEADRACE_LANE V load_bytes(const uint8_t* from) {
#if HEADRACE_LANES == 16
  return {_mm256_cvtepu8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)))};
#else
  return {_mm_unpacklo_epi8(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from)), _mm_setzero_si128())};
#endif
}
HEADRACE_LANE void store_bytes(V v, uint8_t* to) {  // limited to 0 and 255
  const Register bytes = HEADRACE_OP(packus_epi16)(v.r, v.r);
#if HEADRACE_LANES == 16
  const __m256i ordered = _mm256_permute4x64_epi64(bytes, 0x08);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm256_castsi256_si128(ordered));
#else
  _mm_storel_epi64(reinterpret_cast<__m128i*>(to), bytes);
#endif
}

#else

static_assert(kLanes == 8);

struct V {
  int16_t v[8];
};
template <typename F>
HEADRACE_LANE V each(F f) {
  V made;
  for (int i = 0; i < 8; ++i) made.v[i] = int16_t(f(i));
  return made;
}
struct Wide {
  int32_t v[4];
};
HEADRACE_LANE Wide wide(V v) {
  Wide made;
  std::memcpy(&made, &v, sizeof v);
  return made;
}
template <typename F>
HEADRACE_LANE V each_wide(F f) {
  Wide made;
  for (int i = 0; i < 4; ++i) made.v[i] = f(i);
  V as;
  std::memcpy(&as, &made, sizeof as);
  return as;
}
HEADRACE_LANE int32_t wrapped(int64_t value) { return int32_t(uint32_t(uint64_t(value))); }
HEADRACE_LANE int limited(int value, int low, int high) { return value < low ? low : value > high ? high : value; }

HEADRACE_LANE V load(const int16_t* from) { return each([=](int i) { return from[i]; }); }
HEADRACE_LANE void store(V v, int16_t* to) { std::memcpy(to, v.v, sizeof v.v); }
HEADRACE_LANE void store_pairs(V v, uint8_t* to) {
  for (int i = 0; i < 8; ++i) to[2 * i] = uint8_t(v.v[i]), to[2 * i + 1] = uint8_t(v.v[i] >> 8);
}
HEADRACE_LANE V all(int16_t value) { return each([=](int) { return value; }); }
HEADRACE_LANE V all_wide(int32_t value) { return each_wide([=](int) { return value; }); }
HEADRACE_LANE V operator+(V a, V b) { return each([&](int i) { return a.v[i] + b.v[i]; }); }
HEADRACE_LANE V operator-(V a, V b) { return each([&](int i) { return a.v[i] - b.v[i]; }); }
HEADRACE_LANE V operator*(V a, V b) { return each([&](int i) { return a.v[i] * b.v[i]; }); }
HEADRACE_LANE V operator|(V a, V b) { return each([&](int i) { return a.v[i] | b.v[i]; }); }
HEADRACE_LANE V from_left(V before, V v) { return each([&](int i) { return i ? v.v[i - 1] : before.v[7]; }); }
HEADRACE_LANE V from_right(V v, V after) { return each([&](int i) { return i < 7 ? v.v[i + 1] : after.v[0]; }); }
HEADRACE_LANE V high_product(V a, V b) { return each([&](int i) { return a.v[i] * b.v[i] >> 16; }); }
template <int kBits>
HEADRACE_LANE V left(V v) { return each([&](int i) { return v.v[i] * (1 << kBits); }); }
template <int kBits>
HEADRACE_LANE V right(V v) { return each([&](int i) { return v.v[i] >> kBits; }); }
HEADRACE_LANE V add_wide(V a, V b) {
  return each_wide([x = wide(a), y = wide(b)](int i) { return wrapped(int64_t(x.v[i]) + y.v[i]); });
}
HEADRACE_LANE V subtract_wide(V a, V b) {
  return each_wide([x = wide(a), y = wide(b)](int i) { return wrapped(int64_t(x.v[i]) - y.v[i]); });
}
template <int kBits>
HEADRACE_LANE V right_wide(V v) { return each_wide([x = wide(v)](int i) { return x.v[i] >> kBits; }); }
HEADRACE_LANE V sum_of_products(V a, V b) {
  return each_wide([&](int i) {
    return wrapped(int64_t(a.v[2 * i]) * b.v[2 * i] + int64_t(a.v[2 * i + 1]) * b.v[2 * i + 1]);
  });
}
HEADRACE_LANE V narrow(V low, V high) {
  const Wide a = wide(low), b = wide(high);
  return each([&](int i) { return limited(i < 4 ? a.v[i] : b.v[i - 4], INT16_MIN, INT16_MAX); });
}
// Groups of `size` lanes, by turns from a and b, starting at `first` in each.
template <int kSize>
HEADRACE_LANE V by_turns(V a, V b, int first) {
  return each([&](int i) {
    const int from = first + i / (2 * kSize) * kSize + i % kSize;
    return i / kSize % 2 ? b.v[from] : a.v[from];
  });
}
HEADRACE_LANE V low16(V a, V b) { return by_turns<1>(a, b, 0); }
HEADRACE_LANE V high16(V a, V b) { return by_turns<1>(a, b, 4); }
HEADRACE_LANE V low32(V a, V b) { return by_turns<2>(a, b, 0); }
HEADRACE_LANE V high32(V a, V b) { return by_turns<2>(a, b, 4); }
HEADRACE_LANE V low64(V a, V b) { return by_turns<4>(a, b, 0); }
HEADRACE_LANE V high64(V a, V b) { return by_turns<4>(a, b, 4); }
template <int kBits>
HEADRACE_LANE bool are_within(V v) {
  bool within = true;
  for (int16_t lane : v.v) within &= lane >= -(1 << (kBits - 1)) && lane < 1 << (kBits - 1);
  return within;
}
HEADRACE_LANE void store_samples(V a, V b, uint8_t* row_a, uint8_t* row_b) {
  for (int i = 0; i < 8; ++i) {
    row_a[i] = uint8_t(limited(a.v[i], -128, 127) + 128);
    row_b[i] = uint8_t(limited(b.v[i], -128, 127) + 128);
  }
}
HEADRACE_LANE V load_bytes(const uint8_t* from) { return each([=](int i) { return from[i]; }); }
HEADRACE_LANE void store_bytes(V v, uint8_t* to) {
  for (int i = 0; i < 8; ++i) to[i] = uint8_t(limited(v.v[i], 0, 255));
}

#endif

}  // namespace
}  // namespace headrace::jpeg
