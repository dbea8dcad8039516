#include <array>
#include <cstring>

#include "kernels.h"

#if defined(__x86_64__)
#include <nmmintrin.h>
#define HEADRACE_CRC_TARGET __attribute__((target("sse4.2")))
#elif defined(__aarch64__)
#include <arm_acle.h>
#if defined(__linux__)
#include <sys/auxv.h>
#endif
#define HEADRACE_CRC_TARGET __attribute__((target("+crc")))
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

constexpr size_t kLane = 128;

// tables[k][b]: the crc with byte k equal to b, moved on over a lane of zeros. The crc is linear, so bits suffice.
constexpr std::array<Table, 4> lane_tables() {
  std::array<Table, 4> tables{};
  for (uint32_t bit = 0; bit < 32; ++bit) {
    uint32_t crc = 1u << bit;
    for (size_t i = 0; i < kLane; ++i) crc = (crc >> 8) ^ kBytes[0][crc & 255];
    for (uint32_t b = 0; b < 256; ++b) {
      if (b >> (bit % 8) & 1) tables[bit / 8][b] ^= crc;
    }
  }
  return tables;
}

constexpr std::array<Table, 4> kLaneOfZeros = lane_tables();

uint32_t over_a_lane(uint32_t crc) {
  return kLaneOfZeros[0][crc & 255] ^ kLaneOfZeros[1][crc >> 8 & 255] ^ kLaneOfZeros[2][crc >> 16 & 255] ^
         kLaneOfZeros[3][crc >> 24];
}

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

// The instruction takes three cycles but one can be issued each cycle: three lanes side by side keep it busy.
HEADRACE_CRC_TARGET uint32_t hardware(uint32_t crc, const uint8_t* data, size_t size) {
  for (; size >= 3 * kLane; data += 3 * kLane, size -= 3 * kLane) {
    uint32_t second = 0, third = 0;
    for (size_t i = 0; i < kLane; i += 8) {
      crc = step(crc, data + i);
      second = step(second, data + kLane + i);
      third = step(third, data + 2 * kLane + i);
    }
    crc = over_a_lane(over_a_lane(crc) ^ second) ^ third;
  }
  for (; size >= 8; data += 8, size -= 8) crc = step(crc, data);
  for (; size > 0; ++data, --size) crc = step_byte(crc, *data);
  return crc;
}

bool has_instruction() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("sse4.2");
#elif defined(__linux__)
  return getauxval(AT_HWCAP) & (1ul << 7);  // HWCAP_CRC32
#else
  return true;  // every Apple processor of this architecture
#endif
}

#else

constexpr auto hardware = portable;
bool has_instruction() { return false; }

#endif

const auto fastest = has_instruction() ? hardware : portable;

}  // namespace

uint32_t crc32c(const uint8_t* data, size_t size) { return ~fastest(~0u, data, size); }

uint32_t crc32c_portable(const uint8_t* data, size_t size) { return ~portable(~0u, data, size); }

bool crc32c_in_hardware() { return fastest != portable; }

}  // namespace headrace
