// Windows of JPEGs, with the bits of libjpeg-turbo on x86. Baseline files only; others are left to a library.
#pragma once

#include <vector>

#include "image.h"
#include "jpeg_decoder.h"

namespace headrace {

struct JpegHow {
  bool fast_dct;
  bool fast_upsampling;
};

// The rows of a window of a JPEG, with the bits of a full decode. If anything about the file is flawed, `row` is null or
// `finish` false. Memory is reused from one file to the next.
class JpegRows : public ByteRows {
 public:
  // False too if the file has not the height and width of `shape`, or is of a kind that is left to others.
  bool open(const uint8_t* data, size_t size, ImageShape shape, const Cut& window, JpegHow how);
  const uint8_t* row(int64_t y) override;
  // All rows, contiguous in `to`.
  bool copy_to(uint8_t* to);
  // Read the rest of the file: whether all of it is sound.
  bool finish();
  // Keep little memory until the next file.
  void trim() { decoder_.trim(); }

 private:
  bool write_row(int64_t y, uint8_t* to);

  jpeg::Decoder decoder_;
  Cut window_{};
  int64_t channels_ = 0;
  std::vector<uint8_t> line_, mirrored_;
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

// The same, resized, contiguous in `out`, which is float or uint8.
void decode_and_resize_jpegs(const Jpegs& jpegs, const Resized& how, void* out, bool* made);

}  // namespace headrace
