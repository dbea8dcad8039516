#include "jpeg_decoder.h"

#include <algorithm>
#include <cstring>

namespace headrace::jpeg {

void Plane::open(int64_t rows, int64_t first_column, int64_t columns) {
  mask_ = 2 * rows - 1;
  first_ = first_column;
  stride_ = (size_t(columns) + 2 * kOvershoot + 31) / 32 * 32;
  if (samples_.size() < stride_ * size_t(2 * rows)) samples_.resize(stride_ * size_t(2 * rows));
}

bool Decoder::open(const uint8_t* data, size_t size, ImageShape shape, const Wanted& wanted) {
  if (!read_file(data, size, file_) || file_.height != shape.height || file_.width != shape.width) return false;
  if (__BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__) return false;
  wanted_ = wanted;
  used_ = wanted.colours ? file_.component_count : 1;
  if (!build_tables()) return false;
  list_blocks();
  const Component& first = file_.components[0];
  tall_ = kBlock * first.rows;
  wide_ = kBlock * first.columns;
  bands_ = (file_.height + tall_ - 1) / tall_;
  mcus_ = (file_.width + wide_ - 1) / wide_;
  band_ = 0;
  exact_ = true;
  choose_upsampling();
  choose_ranges();
  std::memset(coefficients_, 0, sizeof coefficients_);
  scan_.open(data, size, file_.pixels);
  before_restart_ = 0;
  begun_ = false;
  return true;
}

bool Decoder::build_tables() {
  for (int i = 0; i < file_.component_count; ++i) {
    const Component& component = file_.components[i];
    if (!build(file_.dc[component.dc], true, dc_[component.dc])) return false;
    if (!build(file_.ac[component.ac], false, ac_[component.ac])) return false;
    if (i < used_) set_factors(file_.quantisations[component.quantisation], wanted_.fast_dct, factors_[i]);
  }
  return true;
}

void Decoder::list_blocks() {
  block_count_ = 0;
  for (int i = 0, before = 0; i < file_.component_count; ++i) {
    const Component& component = file_.components[i];
    for (int y = 0; y < component.rows; ++y, before += kMcusAtOnce * component.columns) {
      for (int x = 0; x < component.columns; ++x) {
        blocks_[block_count_++] = {{&dc_[component.dc], &ac_[component.ac]}, i, before + x, component.columns};
      }
    }
  }
}

// As libjpeg-turbo does: it interpolates colours of half the width or height, but no rows of one or two samples.
void Decoder::choose_upsampling() {
  const Component& first = file_.components[0];
  colour_height_ = (file_.height + first.rows - 1) / first.rows;
  colour_width_ = (file_.width + first.columns - 1) / first.columns;
  across_ = first.columns == 1 ? kSame : kRepeated;
  down_ = first.rows == 1 ? kSame : kRepeated;
  if (!wanted_.fancy_upsampling || first.columns > 2 || (first.columns == 2 && colour_width_ <= 2)) return;
  if (across_ != kSame) across_ = kInterpolated;
  if (down_ != kSame) down_ = kInterpolated;
}

void Decoder::choose_ranges() {
  const Cut& window = wanted_.window;
  const auto around = [](int64_t begin, int64_t size, int64_t unit, int64_t limit, bool neighbors) -> Range {
    const int64_t margin = neighbors ? 2 : 0;  // pixels of the next sample
    return {std::max<int64_t>(begin - margin, 0) / unit, std::min((begin + size + margin + unit - 1) / unit, limit)};
  };
  rows_ = around(window.top, window.height, tall_, bands_, down_ == kInterpolated);
  columns_ = around(window.left, window.width, wide_, mcus_, across_ == kInterpolated);
  for (int i = 0; i < used_; ++i) {
    const Component& component = file_.components[i];
    const int64_t unit = kBlock * component.columns;
    planes_[i].open(kBlock * component.rows, columns_.first * unit, (columns_.stop - columns_.first) * unit);
    if (across_ != kSame || down_ != kSame) widened_[i].resize(size_t(window.width + 4) + kOvershoot);
  }
}

// Each restart interval begins at a byte, with no reference to what was before.
bool Decoder::start_interval() {
  if (!begun_) {
    begun_ = true;
  } else if (reader_.unread() < 0 || reader_.unread() >= 8 || !scan_.next()) {
    return false;
  }
  reader_ = scan_.reader();
  std::fill_n(last_dc_, kMaxComponents, 0);
  before_restart_ = file_.restart_interval ? file_.restart_interval : bands_ * mcus_;
  return true;
}

template <bool kStored>
bool Decoder::read_mcus(int64_t count) {
  for (int64_t first = 0; first < count;) {
    if (before_restart_ == 0 && !start_interval()) return false;
    const int64_t run = std::min(count - first, before_restart_);
    if (!read_run<kStored>(first, run)) return false;
    before_restart_ -= run;
    first += run;
  }
  return true;
}

template <bool kStored>
bool Decoder::read_run(int64_t first, int64_t count) {
  BitReader reader = reader_;  // in registers
  for (int64_t mcu = first; mcu < first + count; ++mcu) {
    for (int i = 0; i < block_count_; ++i) {
      const McuBlock& of = blocks_[i];
      if (!kStored || of.component >= used_) {
        if (decode_block<false>(reader, of.tables, last_dc_[of.component], nullptr) < 0) return false;
        continue;
      }
      const int block = of.first + int(mcu) * of.step;
      int16_t* const to = coefficients_ + block / 2 * kPairSize + block % 2 * kBlock;
      const int last = decode_block<true>(reader, of.tables, last_dc_[of.component], to);
      if (last < 0) return false;
      last_[block] = uint8_t(last);
    }
  }
  reader_ = reader;
  return true;
}

void Decoder::transform(int64_t first, int64_t count) {
  const PixelKernels& kernels = pixel_kernels();
  const auto transformed = wanted_.fast_dct ? kernels.transform_fast : kernels.transform_accurate;
  int base = 0;
  for (int i = 0; i < used_; ++i) {
    const Component& component = file_.components[i];
    Plane& plane = planes_[i];
    const int in_row = kMcusAtOnce * component.columns, blocks = int(count) * component.columns;
    for (int y = 0; y < component.rows; ++y, base += in_row) {
      if (blocks % 2) last_[base + blocks] = 0;
      uint8_t* to = plane.at((band_ * component.rows + y) * kBlock, first * component.columns * kBlock);
      for (int x = 0; x < blocks; x += 2, to += kPairRow) {
        const int block = base + x;
        const BlockPair pair{coefficients_ + block / 2 * kPairSize, &factors_[i], std::max(last_[block], last_[block + 1])};
        exact_ &= transformed(pair, to, plane.stride());
      }
    }
  }
}

// Colours are interpolated with neighbors, which samples at the edges have to have.
void Decoder::repeat_edges() {
  if (across_ != kInterpolated) return;
  for (int i = 1; i < used_; ++i) {
    for (int64_t y = band_ * kBlock; y < (band_ + 1) * kBlock; ++y) {
      uint8_t* const first = planes_[i].at(y, 0);
      if (columns_.first == 0) first[-1] = first[0];
      if (columns_.stop == mcus_) first[colour_width_] = first[colour_width_ - 1];
    }
  }
}

bool Decoder::decode_band() {
  if (band_ < rows_.first || band_ >= rows_.stop) {
    if (!read_mcus<false>(mcus_)) return false;
  } else {
    if (!read_mcus<false>(columns_.first)) return false;
    for (int64_t at = columns_.first; at < columns_.stop; at += kMcusAtOnce) {
      const int64_t count = std::min<int64_t>(kMcusAtOnce, columns_.stop - at);
      if (!read_mcus<true>(count)) return false;
      transform(at, count);
    }
    repeat_edges();
    if (!read_mcus<false>(mcus_ - columns_.stop)) return false;
  }
  ++band_;
  return true;
}

bool Decoder::decode_to(int64_t y) {
  int64_t needed = y / tall_;
  if (down_ == kInterpolated) needed = std::max(needed, std::min((y + 1) / 2, colour_height_ - 1) / kBlock);
  while (band_ <= needed) {
    if (!decode_band()) return false;
  }
  return true;
}

bool Decoder::finish() {
  rows_.stop = std::min(rows_.stop, band_);
  while (band_ < bands_) {
    if (!decode_band()) return false;
  }
  return exact_ && reader_.unread() >= 0 && reader_.unread() < 8 && scan_.at_end_of_image();
}

const uint8_t* Decoder::samples(int component, int64_t y, int64_t left, int64_t width) {
  Plane& plane = planes_[component];
  if (component == 0 || (across_ == kSame && down_ == kSame)) return plane.at(y, left);
  const Component& first = file_.components[0];
  const PixelKernels& kernels = pixel_kernels();
  uint8_t* const out = widened_[component].data();
  const int64_t row = y / first.rows, column = left / first.columns, count = (left + width - 1) / first.columns - column + 1;
  uint8_t *const near = plane.at(row, column), *far = near;
  if (down_ == kInterpolated) {
    far = plane.at(std::clamp<int64_t>(y % 2 ? row + 1 : row - 1, 0, colour_height_ - 1), column);
  }
  if (across_ == kSame) {
    if (down_ == kRepeated) return near;
    kernels.between(near, far, y % 2 ? 2 : 1, count, out);
    return out;
  }
  if (across_ == kRepeated) {
    for (int64_t i = 0; i < width; ++i) out[i] = near[(left + i) / first.columns - column];
    return out;
  }
  if (down_ == kInterpolated) {
    kernels.widen_between(near, far, count, out);
  } else {
    kernels.widen(near, count, out);
  }
  return out + left % 2;
}

}  // namespace headrace::jpeg
