// Images in memory: their file headers, and loops over pixels. An image is height × width × channels, dense.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "deflate.h"
#include "growing.h"


namespace headrace {

enum ImageKind : int64_t { kUnknownImage = 0, kJpeg, kPng, kGif, kWebp, kBmp };

// The header at the start of a file; sizes are 0 if the bytes end before them.
struct ImageHeader {
  int64_t kind = kUnknownImage;
  int64_t height = 0;
  int64_t width = 0;
  int64_t channels = 0;  // of a PNG as it is stored: a palette counts as 3; 0 if the kind does not say
  int64_t depth = 8;     // bits of a channel
};
ImageHeader read_image_header(const uint8_t* data, size_t size);

// How often the marker that starts a scan occurs in a JPEG, thumbnails in its header included.
int64_t count_jpeg_scans(const uint8_t* data, size_t size);

struct ImageShape {
  int64_t height, width, channels;
};

// Memory that is reused from one PNG to the next.
struct PngScratch {
  Growing<uint8_t> packed, lines, colours;
};

// The pixels of a PNG of this height and width with 1 to 4 channels; false if it is incomplete, or not a plain one of 8
// bits.
bool decode_png(const uint8_t* data, size_t size, const ImageShape& shape, PngScratch& scratch, uint8_t* out);

// Memory that is used to encode one PNG after the other.
struct PngEncoder {
  Growing<uint8_t> lines, tried, packed;
  DeflateScratch deflate;
};

// Appends an image of 1 to 4 channels of uint8, with at least a pixel and less than 2 GB, as a PNG.
void encode_png(const uint8_t* pixels, const ImageShape& shape, PngEncoder& scratch, Growing<uint8_t>& out);

// Several images in one buffer: image i begins at value starts[i].
template <typename T>
struct Images {
  const T* data;
  const int64_t* starts;
  const ImageShape* shapes;
  int64_t count;
};

// Bilinear, half-pixel centers, in float32: all images to height × width, contiguous in `out`.
template <typename T>
void resize_bilinear(const Images<T>& images, int64_t height, int64_t width, float* out);

// For each output position along an axis, the input positions and weights: those from starts[i] on, with weights[i ×
// taps ...]; positions outside of the image have no weight.
struct Taps {
  const int64_t* starts;
  const float* weights;
  int64_t count, taps;
};
template <typename T>
void resample(const T* image, ImageShape shape, const Taps& rows, const Taps& columns, float* out);

// The crop of each image: height × width from (top, left) on, mirrored if `flip` is set.
struct Cut {
  int64_t top, left, height, width, flip;
};
void cut_images(const Images<uint8_t>& images, int64_t value_bytes, const Cut* cuts, const int64_t* out_starts, uint8_t* out);

// One pixel after the other from the right; a pixel has this many bytes.
void mirror_row(const uint8_t* from, int64_t width, int64_t bytes, uint8_t* to);

// Rows of an image of bytes, which may be made when they are asked for.
class ByteRows {
 public:
  virtual ~ByteRows() = default;
  // Row `y`, and one byte after it that can be read. Asked for in increasing order. Null if there is none.
  virtual const uint8_t* row(int64_t y) = 0;
};

// Those of a window of an image in memory.
class WindowRows : public ByteRows {
 public:
  WindowRows(const uint8_t* image, ImageShape shape, const Cut& window);
  const uint8_t* row(int64_t y) override;

 private:
  const uint8_t* const first_;
  const int64_t stride_, last_, width_, channels_;
  const bool flip_;
  std::vector<uint8_t> line_;
};

enum Arithmetic : int64_t { kAdd = 0, kSubtract, kMultiply, kDivide };

// A sequence of operations on rows of floats, each with a number per channel, and rounded as in IEEE 754.
class RowScaling {
 public:
  // `numbers` has those of one operation after the other: one for all channels, or one for each.
  RowScaling(std::vector<Arithmetic> operations, const std::vector<float>& numbers, int64_t values);
  void operator()(float* row) const;

 private:
  std::vector<Arithmetic> operations_;
  std::vector<float> numbers_;  // for each operation as many as the row has values
  int64_t values_;
};

enum Rounding : int64_t { kFloats = 0, kNearest, kTruncated };  // to bytes, half to even or towards 0

// Images that are resized to one size.
struct Resized {
  int64_t height, width;
  Rounding rounding;
  const int64_t* mirrored;    // a flag for each image
  const RowScaling* scaling;  // what is done with floats at last, or null

  int64_t bytes(int64_t channels) const { return height * width * channels * (rounding == kFloats ? int64_t(sizeof(float)) : 1); }
};

// The same bits as resize_bilinear, as floats or as bytes, without other memory than a few rows; false if a row is null.
// `image` is its number among those of `how` and in `out`, where all are contiguous.
bool resize_rows(ByteRows& rows, ImageShape shape, const Resized& how, int64_t image, void* out);

// The window of each image, contiguous in `out`, which is float or uint8.
void resize_windows(const Images<uint8_t>& images, const Cut* windows, const Resized& how, void* out);

enum Adjustment : int { kBrightness = 0, kContrast, kSaturation, kHue };

// Colors of each image changed by its own factor, in float32; uint8 values stand for 0 to 1.
template <typename T>
void adjust_images(Adjustment what, const Images<T>& images, const float* factors, T* out);

struct Operation {
  Arithmetic what;
  float number;
};

// Bytes as float32, and then a sequence of operations with a number, each rounded as in IEEE 754.
class Scaling {
 public:
  explicit Scaling(std::vector<Operation> operations);  // one or more
  void operator()(const uint8_t* values, int64_t count, float* out) const;
  void with_help(const uint8_t* values, int64_t count, float* out) const;

 private:
  std::vector<Operation> operations_;
  float high_ = 0, low_ = 0;  // if the first operation divides, and multiplying gives the same: the two factors
  bool multiplies_ = false;
};

}  // namespace headrace
