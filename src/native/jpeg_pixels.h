// From coefficients to pixels: inverse transforms, upsampling of colours and conversion to RGB, with the bits of
// libjpeg-turbo's vector code for x86.
#pragma once

#include <cstddef>
#include <cstdint>

#include "jpeg_file.h"

namespace headrace::jpeg {

// The factors of two blocks side by side, as each transform wants them.
struct Factors {
  alignas(32) int16_t values[2 * kBlock * kBlock];
};
void set_factors(const uint16_t* quantisation, bool fast_dct, Factors& factors);

// Two blocks side by side, their zigzag positions of the last coefficient at most `last`.
struct BlockPair {
  int16_t* coefficients;  // aligned to 32 bytes; 0 afterwards
  const Factors* factors;
  int last;
};

constexpr size_t kOvershoot = 64;  // bytes that may be read and written after a row, and before it

struct PixelKernels {
  // 8 rows of 16 samples; false if no encoder makes such coefficients, and libjpeg-turbo may wrap around.
  bool (*transform_fast)(const BlockPair& pair, uint8_t* out, size_t stride);
  bool (*transform_accurate)(const BlockPair& pair, uint8_t* out, size_t stride);
  // `out` gets 3 bytes per pixel.
  void (*to_rgb)(const uint8_t* y, const uint8_t* cb, const uint8_t* cr, int64_t count, uint8_t* out);
  void (*grey_to_rgb)(const uint8_t* y, int64_t count, uint8_t* out);
  // Twice as many samples as `near` has: three quarters of the next one and a quarter of the other neighbor. `far` is
  // the row on the other side, which weighs a quarter. Sample -1 and the one after the last are read.
  void (*widen)(const uint8_t* near, int64_t count, uint8_t* out);
  void (*widen_between)(const uint8_t* near, const uint8_t* far, int64_t count, uint8_t* out);
  // As many samples, between two rows; `bias` rounds.
  void (*between)(const uint8_t* near, const uint8_t* far, int bias, int64_t count, uint8_t* out);
};

// For the CPU that this runs on, and for any of its architecture: the same bits.
const PixelKernels& pixel_kernels();
const PixelKernels& baseline_pixel_kernels();

}  // namespace headrace::jpeg
