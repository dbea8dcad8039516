#pragma once

// What the CPU and the operating system support, asked at run time. Binaries are compiled for the baseline of the
// architecture; functions that need more carry a `target` attribute and are called only if the answer here is yes.
// `__builtin_cpu_supports` would do, but not every toolchain has the runtime library that it refers to.

#if defined(__x86_64__)
#include <cpuid.h>

#include <cstdint>

namespace headrace {

struct CpuFeatures {
  bool ssse3 = false, sse42 = false, popcnt = false, pclmul = false;
  bool avx2 = false;
  bool avx512 = false;      // the foundation and its vector lengths
  bool vpclmulqdq = false;  // only together with avx512
};

inline CpuFeatures detect_cpu_features() {
  CpuFeatures found;
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (!__get_cpuid(1, &a, &b, &c, &d)) return found;
  found.pclmul = c & bit_PCLMUL;
  found.ssse3 = c & bit_SSSE3;
  found.sse42 = c & bit_SSE4_2;
  found.popcnt = c & bit_POPCNT;
  if (!(c & bit_OSXSAVE)) return found;
  // The operating system has to save the wide registers when it switches threads.
  uint32_t low = 0, high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  const bool saves_256_bits = (low & 0x06) == 0x06, saves_512_bits = (low & 0xe6) == 0xe6;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return found;
  found.avx2 = saves_256_bits && (b & bit_AVX2);
  found.avx512 = saves_512_bits && (b & bit_AVX512F) && (b & bit_AVX512VL);
  found.vpclmulqdq = found.avx512 && (c & bit_VPCLMULQDQ);
  return found;
}

inline const CpuFeatures& cpu_features() {
  static const CpuFeatures found = detect_cpu_features();
  return found;
}

}  // namespace headrace

#define HEADRACE_INLINE inline __attribute__((always_inline))
// Defines `name`, which runs the inline function `name_inline` compiled for AVX2 or for the baseline: the same bits, in
// wider steps. `target_clones` would do the same by ifuncs, which musl does not have.
#define HEADRACE_DISPATCH(returned, name, parameters, arguments)                                          \
  __attribute__((target("avx2"))) returned name##_avx2 parameters { return name##_inline arguments; }     \
  returned name parameters { return cpu_features().avx2 ? name##_avx2 arguments : name##_inline arguments; }

#else

#define HEADRACE_INLINE inline
#define HEADRACE_DISPATCH(returned, name, parameters, arguments) \
  returned name parameters { return name##_inline arguments; }

#endif
