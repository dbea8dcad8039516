// JPEGs by the libjpeg-turbo that is installed, rows and columns of a window only. It is loaded when it is first used,
// by the interface that libjpeg_abi.h describes.
#pragma once

#include <memory>

#include "image.h"

namespace headrace {

// Use the library at this path, once for the process; false if it is not there, or has another interface.
bool use_jpeg_library(const char* path);

struct JpegHow {
  bool fast_dct;
  bool fast_upsampling;
};

// The rows of a window of a JPEG, with the bits of a full decode. Whatever the library finds to be wrong with the file
// ends it: `row` is null, or `finish` false.
class JpegRows : public ByteRows {
 public:
  JpegRows();
  ~JpegRows() override;
  // False too if the file has not the height and width of `shape`, or is of a kind that is left to others.
  bool open(const uint8_t* data, size_t size, ImageShape shape, const Cut& window, JpegHow how);
  const uint8_t* row(int64_t y) override;
  // The first `height` rows, contiguous in `to`.
  bool copy_to(uint8_t* to, int64_t height);
  // Read the rest of the file: whether all of it is sound.
  bool finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

struct Jpegs {
  const uint8_t* data;
  const int64_t* offsets;   // of each, and the end of the last
  const ImageShape* shapes;  // of the whole image, with as many channels as are wanted: 1 or 3
  const Cut* windows;
  int64_t count;
  JpegHow how;
};

// The windows of all, each at its start in `out`; made[i] is false for those that could not be decoded.
void decode_jpegs(const Jpegs& jpegs, const int64_t* starts, uint8_t* out, bool* made);

// The same, resized to height × width, contiguous in `out`, which is float or uint8.
void decode_and_resize_jpegs(const Jpegs& jpegs, int64_t height, int64_t width, Rounding rounding, const int64_t* mirrored,
                             void* out, bool* made);

}  // namespace headrace
