// Images in memory: what their files say of them, and loops over pixels. An image is height × width × channels, dense.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "growing.h"

#if defined(__x86_64__) && defined(__linux__) && defined(__GNUC__)
#define HEADRACE_WIDE __attribute__((target_clones("avx2", "default")))  // the same bits, in wider steps
#else
#define HEADRACE_WIDE
#endif

namespace headrace {

enum ImageKind : int64_t { kUnknownImage = 0, kJpeg, kPng, kGif, kWebp, kBmp };

// What the first bytes of a file say; sizes are 0 where the bytes end before they are told.
struct ImageHeader {
  int64_t kind = kUnknownImage;
  int64_t height = 0;
  int64_t width = 0;
  int64_t channels = 0;  // of a PNG as it is stored: a palette counts as 3; 0 where the kind does not say
  int64_t depth = 8;     // bits of a channel
};
ImageHeader read_image_header(const uint8_t* data, size_t size);

struct ImageShape {
  int64_t height, width, channels;
};

// Memory that is used for one PNG after the other.
struct PngScratch {
  Growing<uint8_t> packed, lines, colours;
};

// The pixels of a PNG of this height and width with 1 to 4 channels; false where it is not whole, or no plain one of 8 bits.
bool decode_png(const uint8_t* data, size_t size, const ImageShape& shape, PngScratch& scratch, uint8_t* out);

// Several images in one buffer: image i begins at value starts[i].
template <typename T>
struct Images {
  const T* data;
  const int64_t* starts;
  const ImageShape* shapes;
  int64_t count;
};

// Bilinear, half-pixel centres, in float32: all images to height × width, one behind the other in `out`.
template <typename T>
void resize_bilinear(const Images<T>& images, int64_t height, int64_t width, float* out);

// For each place along an axis, which places it is made of and how much of each: those from starts[i] on, with
// weights[i × taps ...]; those that lie outside of the image have no weight.
struct Taps {
  const int64_t* starts;
  const float* weights;
  int64_t count, taps;
};
template <typename T>
void resample(const T* image, ImageShape shape, const Taps& rows, const Taps& columns, float* out);

// What is cut out of each image: height × width from (top, left) on, mirrored where `flip` says so.
struct Cut {
  int64_t top, left, height, width, flip;
};
void cut_images(const Images<uint8_t>& images, int64_t value_bytes, const Cut* cuts, const int64_t* out_starts, uint8_t* out);

enum Adjustment : int { kBrightness = 0, kContrast, kSaturation, kHue };

// Colours of each image changed by its own factor, in float32; numbers of uint8 stand for 0 to 1.
template <typename T>
void adjust_images(Adjustment what, const Images<T>& images, const float* factors, T* out);

enum Arithmetic : int64_t { kAdd = 0, kSubtract, kMultiply, kDivide };
struct Operation {
  Arithmetic what;
  float number;
};

// Bytes as float32, and then one operation after another with a number, each rounded as IEEE 754 has it.
class Scaling {
 public:
  explicit Scaling(std::vector<Operation> operations);  // one or more
  void operator()(const uint8_t* values, int64_t count, float* out) const;
  void with_help(const uint8_t* values, int64_t count, float* out) const;

 private:
  std::vector<Operation> operations_;
  float high_ = 0, low_ = 0;  // where the first one divides, if that is to be had by multiplying: the two factors
  bool multiplies_ = false;
};

}  // namespace headrace
