#pragma once

#include "jpeg_pixels.h"

namespace headrace::jpeg {

const PixelKernels& pixel_kernels_avx2();  // only on x86-64

}  // namespace headrace::jpeg
