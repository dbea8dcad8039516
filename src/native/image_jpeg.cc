#include "image_jpeg.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "team.h"

namespace headrace {

bool JpegRows::open(const uint8_t* data, size_t size, ImageShape shape, const Cut& window, JpegHow how) {
  if (window.height < 1 || window.width < 1) return false;
  const bool colours = shape.channels == 3;
  if (!decoder_.open(data, size, shape, {window, colours, how.fast_dct, !how.fast_upsampling})) return false;
  window_ = window;
  channels_ = shape.channels;
  const size_t bytes = size_t(window.width * channels_) + jpeg::kOvershoot;
  if (line_.size() < bytes) line_.resize(bytes);
  if (window.flip && mirrored_.size() < bytes) mirrored_.resize(bytes);
  return true;
}

// Writes up to kOvershoot bytes after the row.
bool JpegRows::write_row(int64_t y, uint8_t* to) {
  y += window_.top;
  if (!decoder_.decode_to(y)) return false;
  const jpeg::PixelKernels& kernels = jpeg::pixel_kernels();
  const auto samples = [&](int component) { return decoder_.samples(component, y, window_.left, window_.width); };
  if (channels_ == 1) {
    std::memcpy(to, samples(0), size_t(window_.width));
  } else if (decoder_.components() == 1) {
    kernels.grey_to_rgb(samples(0), window_.width, to);
  } else {
    kernels.to_rgb(samples(0), samples(1), samples(2), window_.width, to);
  }
  return true;
}

const uint8_t* JpegRows::row(int64_t y) {
  if (!write_row(y, line_.data())) return nullptr;
  if (!window_.flip) return line_.data();
  mirror_row(line_.data(), window_.width, channels_, mirrored_.data());
  return mirrored_.data();
}

bool JpegRows::copy_to(uint8_t* to) {
  const size_t bytes = size_t(window_.width * channels_);
  size_t room = bytes * size_t(window_.height);
  for (int64_t y = 0; y < window_.height; ++y, to += bytes, room -= bytes) {
    if (!window_.flip && room - bytes >= jpeg::kOvershoot) {
      if (!write_row(y, to)) return false;
      continue;
    }
    const uint8_t* const from = row(y);
    if (!from) return false;
    std::memcpy(to, from, bytes);
  }
  return true;
}

bool JpegRows::finish() { return decoder_.finish(); }

namespace {

// Open each window, and have `take(rows, i)` use it. Each thread keeps its decoder, with its memory and tables.
template <typename Take>
void decode_each(const Jpegs& jpegs, bool* made, Take take) {
  in_pieces(jpegs.count, 1, [&](int64_t begin, int64_t end) {
    static thread_local const auto rows = std::make_unique<JpegRows>();
    for (int64_t i = begin; i < end; ++i) {
      const auto size = size_t(jpegs.offsets[i + 1] - jpegs.offsets[i]);
      made[i] = rows->open(jpegs.data + jpegs.offsets[i], size, jpegs.shapes[i], jpegs.windows[i], jpegs.how) &&
                take(*rows, i) && rows->finish();
    }
    rows->trim();
  });
}

}  // namespace

void decode_jpegs(const Jpegs& jpegs, const int64_t* starts, uint8_t* out, bool* made) {
  decode_each(jpegs, made, [=](JpegRows& rows, int64_t i) { return rows.copy_to(out + starts[i]); });
}

void decode_and_resize_jpegs(const Jpegs& jpegs, const Resized& how, void* out, bool* made) {
  decode_each(jpegs, made, [&](JpegRows& rows, int64_t i) {
    const Cut& window = jpegs.windows[i];
    return resize_rows(rows, {window.height, window.width, jpegs.shapes[i].channels}, how, i, out);
  });
}

}  // namespace headrace
