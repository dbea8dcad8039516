#include <algorithm>
#include <array>
#include <cstring>

#include "cpu.h"
#include "kernels.h"

#if defined(__x86_64__)
#include <immintrin.h>
#define HEADRACE_CRC_TARGET __attribute__((target("sse4.2,crc32,pclmul")))
#elif defined(__aarch64__)
#include <arm_acle.h>
#include <arm_neon.h>
#if defined(__linux__)
#include <sys/auxv.h>
#endif
#define HEADRACE_CRC_TARGET __attribute__((target("+crc+crypto")))
#endif

namespace headrace {
namespace {

constexpr uint32_t kPolynomial = 0x82F63B78u;  // Castagnoli's, with the bits reversed
using Table = std::array<uint32_t, 256>;

// tables[k][b]: what byte b contributes when k more bytes follow it.
constexpr std::array<Table, 8> byte_tables() {
  std::array<Table, 8> tables{};
  for (uint32_t b = 0; b < 256; ++b) {
    uint32_t crc = b;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ (crc & 1 ? kPolynomial : 0);
    tables[0][b] = crc;
  }
  for (size_t k = 1; k < 8; ++k) {
    for (uint32_t b = 0; b < 256; ++b) tables[k][b] = (tables[k - 1][b] >> 8) ^ tables[0][tables[k - 1][b] & 255];
  }
  return tables;
}

constexpr std::array<Table, 8> kBytes = byte_tables();

uint32_t portable(uint32_t crc, const uint8_t* data, size_t size) {
  for (; size >= 8; data += 8, size -= 8) {
    crc ^= uint32_t(data[0]) | uint32_t(data[1]) << 8 | uint32_t(data[2]) << 16 | uint32_t(data[3]) << 24;
    crc = kBytes[7][crc & 255] ^ kBytes[6][crc >> 8 & 255] ^ kBytes[5][crc >> 16 & 255] ^ kBytes[4][crc >> 24] ^
          kBytes[3][data[4]] ^ kBytes[2][data[5]] ^ kBytes[1][data[6]] ^ kBytes[0][data[7]];
  }
  for (; size > 0; ++data, --size) crc = (crc >> 8) ^ kBytes[0][(crc ^ *data) & 255];
  return crc;
}

#ifdef HEADRACE_CRC_TARGET

constexpr size_t kLongestLane = 128;  // in words of 8 bytes

// powers[n]: what a crc is multiplied by to move on over n words of zeros: x to the power of 64 n, less the 33 that `over`
// adds by itself.
constexpr std::array<uint32_t, 2 * kLongestLane + 1> word_powers() {
  std::array<uint32_t, 2 * kLongestLane + 1> powers{};
  uint32_t power = 1;  // x^31: bits are reversed
  for (size_t n = 1; n < powers.size(); ++n) {
    powers[n] = power;
    for (int bit = 0; bit < 64; ++bit) power = (power >> 1) ^ (power & 1 ? kPolynomial : 0);
  }
  return powers;
}

constexpr auto kWordPowers = word_powers();

HEADRACE_CRC_TARGET inline uint32_t step(uint32_t crc, const uint8_t* data) {
  uint64_t word;
  std::memcpy(&word, data, 8);
#if defined(__x86_64__)
  return uint32_t(_mm_crc32_u64(crc, word));
#else
  return __crc32cd(crc, word);
#endif
}

HEADRACE_CRC_TARGET inline uint32_t step_byte(uint32_t crc, uint8_t byte) {
#if defined(__x86_64__)
  return _mm_crc32_u8(crc, byte);
#else
  return __crc32cb(crc, byte);
#endif
}

// A crc times a power, without carries and not reduced yet.
HEADRACE_CRC_TARGET inline uint64_t over(uint32_t crc, size_t words) {
#if defined(__x86_64__)
  const __m128i factors = _mm_set_epi64x(kWordPowers[words], crc);
  return uint64_t(_mm_cvtsi128_si64(_mm_clmulepi64_si128(factors, factors, 0x10)));
#else
  return vgetq_lane_u64(vreinterpretq_u64_p128(vmull_p64(crc, kWordPowers[words])), 0);
#endif
}

constexpr size_t kAhead = 2048;  // prefetch distance in bytes
constexpr size_t kLine = 64;

// The instruction takes three cycles but one can be issued each cycle: three lanes side by side keep it busy. Hardware
// does not prefetch three lanes, so prefetch for all of them.
HEADRACE_CRC_TARGET uint32_t hardware(uint32_t crc, const uint8_t* data, size_t size) {
  while (size >= 3 * 32) {
    const size_t words = std::min(size / 24, kLongestLane), lane = 8 * words;
    uint32_t second = 0, third = 0;
    for (size_t i = 0; i < lane;) {
      for (size_t line = 0; line < 3; ++line) __builtin_prefetch(data + kAhead + 3 * i + line * kLine);
      for (const size_t stop = std::min(lane, i + kLine); i < stop; i += 8) {
        crc = step(crc, data + i);
        second = step(second, data + lane + i);
        third = step(third, data + 2 * lane + i);
      }
    }
    const uint64_t both = over(crc, 2 * words) ^ over(second, words);
    crc = third ^ step(0, reinterpret_cast<const uint8_t*>(&both));
    data += 3 * lane;
    size -= 3 * lane;
  }
  for (; size >= 8; data += 8, size -= 8) crc = step(crc, data);
  for (; size > 0; ++data, --size) crc = step_byte(crc, *data);
  return crc;
}

#if defined(__x86_64__)
#define HEADRACE_WIDE_CRC __attribute__((target("avx512f,avx512vl,vpclmulqdq,pclmul,sse4.2,crc32")))

// The factors for the two halves of 16 bytes to advance over this many bits; the products are 33 bits short.
struct Factors {
  uint64_t early, late;
};
constexpr Factors factors_over(int bits) {
  Factors made{0, 0};
  uint32_t power = 1u << 31;  // x^0: bits are reversed
  for (int n = 0; n <= bits + 32; ++n) {
    if (n == bits - 32) made.late = uint64_t(power) << 1;
    if (n == bits + 32) made.early = uint64_t(power) << 1;
    power = (power >> 1) ^ (power & 1 ? kPolynomial : 0);
  }
  return made;
}

constexpr Factors kOver2048 = factors_over(2048), kOver512 = factors_over(512);
constexpr Factors kOver384 = factors_over(384), kOver256 = factors_over(256), kOver128 = factors_over(128);
constexpr size_t kWide = 256;  // bytes processed at a time, in four lanes of 64

HEADRACE_WIDE_CRC inline __m128i pair(Factors factors) {
  return _mm_set_epi64x(int64_t(factors.late), int64_t(factors.early));
}

// Advance the bytes and add them to the next ones.
HEADRACE_WIDE_CRC inline __m512i fold(__m512i bytes, __m512i factors, __m512i onto) {
  constexpr int kSum = 0x96;
  return _mm512_ternarylogic_epi64(_mm512_clmulepi64_epi128(bytes, factors, 0x00),
                                   _mm512_clmulepi64_epi128(bytes, factors, 0x11), onto, kSum);
}
HEADRACE_WIDE_CRC inline __m128i fold(__m128i bytes, Factors factors, __m128i onto) {
  const __m128i by = pair(factors);
  return _mm_xor_si128(_mm_xor_si128(_mm_clmulepi64_si128(bytes, by, 0x00), _mm_clmulepi64_si128(bytes, by, 0x11)), onto);
}

// Bytes are multiplied 64 at a time instead of divided 8 at a time, and only the last 16 are divided.
HEADRACE_WIDE_CRC uint32_t wide(uint32_t crc, const uint8_t* data, size_t size) {
  if (size < kWide) return hardware(crc, data, size);
  const __m512i by_four = _mm512_broadcast_i32x4(pair(kOver2048)), by_one = _mm512_broadcast_i32x4(pair(kOver512));
  __m512i lanes[4];
  for (size_t i = 0; i < 4; ++i) lanes[i] = _mm512_loadu_si512(data + 64 * i);
  lanes[0] = _mm512_xor_si512(lanes[0], _mm512_zextsi128_si512(_mm_cvtsi32_si128(int(crc))));
  for (data += kWide, size -= kWide; size >= kWide; data += kWide, size -= kWide) {
    for (size_t i = 0; i < 4; ++i) lanes[i] = fold(lanes[i], by_four, _mm512_loadu_si512(data + 64 * i));
  }
  __m512i whole = fold(fold(fold(lanes[0], by_one, lanes[1]), by_one, lanes[2]), by_one, lanes[3]);
  for (; size >= 64; data += 64, size -= 64) whole = fold(whole, by_one, _mm512_loadu_si512(data));
  __m128i last = _mm512_extracti32x4_epi32(whole, 3);
  last = fold(_mm512_extracti32x4_epi32(whole, 0), kOver384, last);
  last = fold(_mm512_extracti32x4_epi32(whole, 1), kOver256, last);
  last = fold(_mm512_extracti32x4_epi32(whole, 2), kOver128, last);
  const uint64_t half = _mm_crc32_u64(0, uint64_t(_mm_extract_epi64(last, 0)));
  return hardware(uint32_t(_mm_crc32_u64(half, uint64_t(_mm_extract_epi64(last, 1)))), data, size);
}

bool has_wide_multiplication() {
  return cpu_features().avx512 && cpu_features().vpclmulqdq;
}
#endif

bool has_instruction() {
#if defined(__x86_64__)
  return cpu_features().sse42 && cpu_features().pclmul;
#elif defined(__linux__)
  constexpr unsigned long both = 1ul << 7 | 1ul << 4;  // HWCAP_CRC32, HWCAP_PMULL
  return (getauxval(AT_HWCAP) & both) == both;
#else
  return true;  // every Apple processor of this architecture
#endif
}

#else

constexpr auto hardware = portable;
bool has_instruction() { return false; }

#endif

using Crc = uint32_t (*)(uint32_t, const uint8_t*, size_t);

Crc choose() {
  if (!has_instruction()) return portable;
#if defined(__x86_64__)
  if (has_wide_multiplication()) return wide;
#endif
  return hardware;
}

const Crc fastest = choose();

}  // namespace

uint32_t crc32c(const uint8_t* data, size_t size) { return ~fastest(~0u, data, size); }

uint32_t crc32c_by_instruction(const uint8_t* data, size_t size) {
  return ~(has_instruction() ? hardware : portable)(~0u, data, size);
}

uint32_t crc32c_portable(const uint8_t* data, size_t size) { return ~portable(~0u, data, size); }

bool crc32c_in_hardware() { return fastest != portable; }

}  // namespace headrace
