#include "jpeg_pixels.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "cpu.h"
#include "jpeg_pixels_avx2.h"

#define HEADRACE_LANES 8
#include "jpeg_kernels.h"

namespace headrace::jpeg {

void set_factors(const uint16_t* quantisation, bool fast_dct, Factors& factors) {
  // Those of the fast transform include the scale of its basis, with 14 bits, of which 2 are kept: cos(k pi / 16) sqrt(2).
  static constexpr double kScales[kBlock] = {1, 1.387039845, 1.306562965, 1.175875602, 1, 0.785694958, 0.541196100, 0.275899379};
  for (int i = 0; i < kBlock * kBlock; ++i) {
    const int place = kPlaces[i], row = place / kPairRow, column = place % kPairRow;
    int64_t factor = quantisation[i];
    if (fast_dct) {
      const auto scale = int64_t(kScales[row] * kScales[column] * (1 << 14) + 0.5);
      factor = (factor * scale + (1 << 11)) >> 12;
    }
    factors.values[place] = factors.values[place + kBlock] = int16_t(factor);
  }
}

const PixelKernels& baseline_pixel_kernels() { return kKernels; }

const PixelKernels& pixel_kernels() {
#if defined(__x86_64__)
  if (cpu_features().avx2) return pixel_kernels_avx2();
#endif
  return kKernels;
}

}  // namespace headrace::jpeg
