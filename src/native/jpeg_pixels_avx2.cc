// The kernels of jpeg_kernels.h for AVX2, two blocks at a time.
#if defined(__x86_64__)

#include <immintrin.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "jpeg_pixels_avx2.h"

// Only functions from here on: none of the standard library's may be compiled for AVX2 and then be used elsewhere.
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2")
#endif

#define HEADRACE_LANES 16
#include "jpeg_kernels.h"

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

namespace headrace::jpeg {

const PixelKernels& pixel_kernels_avx2() { return kKernels; }

}  // namespace headrace::jpeg

#endif
