// A window of a JPEG: from its bytes to rows of samples of each component.
#pragma once

#include <vector>

#include "image.h"
#include "jpeg_file.h"
#include "jpeg_huffman.h"
#include "jpeg_pixels.h"

namespace headrace::jpeg {

struct Wanted {
  Cut window;
  bool colours, fast_dct, fancy_upsampling;
};

// The samples of a component in the last two rows of MCUs.
class Plane {
 public:
  // A row of MCUs has this many rows of samples, a power of 2. Columns are counted from that of the image.
  void open(int64_t rows, int64_t first_column, int64_t columns);
  uint8_t* at(int64_t y, int64_t column) {
    return samples_.data() + kOvershoot + size_t(y & mask_) * stride_ + (column - first_);
  }
  size_t stride() const { return stride_; }

 private:
  std::vector<uint8_t> samples_;
  size_t stride_ = 0;
  int64_t mask_ = 0, first_ = 0;
};

// Decodes one file after the other. Functions return false if the file is flawed, or of a kind that is left to others.
class Decoder {
 public:
  bool open(const uint8_t* data, size_t size, ImageShape shape, const Wanted& wanted);
  // Decode the rows of the window up to this one. No earlier rows are kept than those around it.
  bool decode_to(int64_t y);
  // A row of pixels that was decoded, from this column on. Interpolated samples are kept until the next call.
  const uint8_t* samples(int component, int64_t y, int64_t left, int64_t width);
  // Read over the rest of the file, and check that it ends where it should.
  bool finish();
  // Keep little memory until the next file.
  void trim() { scan_.trim(); }

  int components() const { return used_; }  // that are decoded

 private:
  struct Range {
    int64_t first, stop;
  };
  enum Upsampling { kSame, kRepeated, kInterpolated };
  struct McuBlock {
    BlockTables tables;
    int component;
    int first, step;  // its place among the blocks of kMcusAtOnce MCUs: in the first, and from one to the next
  };

  bool build_tables();
  void list_blocks();
  void choose_upsampling();
  void choose_ranges();
  bool start_interval();
  bool decode_band();
  template <bool kStored>
  bool read_mcus(int64_t count);
  template <bool kStored>
  bool read_run(int64_t first, int64_t count);
  void transform(int64_t first, int64_t count);
  void repeat_edges();

  static constexpr int kMcusAtOnce = 16, kMostBlocks = 10;

  File file_;
  HuffmanTable dc_[kMaxTables]{}, ac_[kMaxTables]{};
  Factors factors_[kMaxComponents];
  ScanData scan_;
  BitReader reader_;
  Wanted wanted_{};
  int used_ = 0, block_count_ = 0;
  McuBlock blocks_[kMostBlocks];
  bool exact_ = true, begun_ = false;
  int last_dc_[kMaxComponents];
  int64_t before_restart_ = 0;                                  // MCUs
  int64_t tall_ = 0, wide_ = 0;                                 // pixels of an MCU
  int64_t bands_ = 0, mcus_ = 0, band_ = 0;                     // rows of MCUs, MCUs in each, and rows that were read
  Range rows_{}, columns_{};                                    // of MCUs that are transformed
  Upsampling across_ = kSame, down_ = kSame;                    // of colours
  int64_t colour_height_ = 0, colour_width_ = 0;
  Plane planes_[kMaxComponents];
  std::vector<uint8_t> widened_[kMaxComponents];
  alignas(32) int16_t coefficients_[kMcusAtOnce * kMostBlocks * kBlock * kBlock];
  uint8_t last_[kMcusAtOnce * kMostBlocks];
};

}  // namespace headrace::jpeg
