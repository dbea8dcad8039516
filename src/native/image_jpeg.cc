#include "image_jpeg.h"

#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <csetjmp>
#include <cstdio>
#include <cstring>

#include "libjpeg_abi.h"
#include "team.h"

namespace headrace {
namespace {

std::atomic<const libjpeg::Functions*> library{nullptr};

template <typename F>
bool find(void* handle, const char* name, F& function) {
  function = reinterpret_cast<F>(dlsym(handle, name));
  return function != nullptr;
}

bool find_all(void* handle, libjpeg::Functions& to) {
  return find(handle, "jpeg_std_error", to.default_reporter) && find(handle, "jpeg_CreateDecompress", to.create) &&
         find(handle, "jpeg_destroy_decompress", to.destroy) && find(handle, "jpeg_mem_src", to.from_memory) &&
         find(handle, "jpeg_read_header", to.read_header) && find(handle, "jpeg_start_decompress", to.start) &&
         find(handle, "jpeg_read_scanlines", to.read_rows) && find(handle, "jpeg_skip_scanlines", to.skip_rows) &&
         find(handle, "jpeg_crop_scanline", to.crop) && find(handle, "jpeg_finish_decompress", to.finish);
}

struct JumpingReporter {
  libjpeg::Reporter base;  // first: the library only knows this part
  std::jmp_buf failed;
};

[[noreturn]] void fail(libjpeg::Decoder* decoder) {
  std::longjmp(reinterpret_cast<JumpingReporter*>(decoder->reporter)->failed, 1);
}

void fail_on_warning(libjpeg::Decoder* decoder, int level) {
  if (level < 0) fail(decoder);  // the file is damaged
}

void print_nothing(libjpeg::Decoder*) {}

// A decoder whose errors and warnings end the call that meets them.
struct CheckedDecoder {
  const libjpeg::Functions* const jpeg;
  libjpeg::Decoder info{};
  JumpingReporter reporter{};

  explicit CheckedDecoder(const libjpeg::Functions* functions) : jpeg(functions) {}
  CheckedDecoder(const CheckedDecoder&) = delete;
  CheckedDecoder& operator=(const CheckedDecoder&) = delete;

  ~CheckedDecoder() {
    if (info.reporter) jpeg->destroy(&info);  // also if `create` failed: nothing is done then
  }

  // Call the library; false if it reports an error. No frame between here and the library has a destructor.
  template <typename Call>
  bool safely(Call call) {
    if (setjmp(reporter.failed)) return false;
    call();
    return true;
  }

  // False if the library has another interface.
  bool create() {
    info.reporter = jpeg->default_reporter(&reporter.base);
    reporter.base.fail = fail;
    reporter.base.warn_or_trace = fail_on_warning;
    reporter.base.print = print_nothing;
    return safely([&] { jpeg->create(&info, libjpeg::kInterface, sizeof info); });
  }
};

}  // namespace

bool use_jpeg_library(const char* path) {
  if (library.load()) return true;
  void* const handle = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
  if (!handle) return false;
  auto found = std::make_unique<libjpeg::Functions>();
  if (!find_all(handle, *found) || !CheckedDecoder(found.get()).create()) {
    dlclose(handle);
    return false;
  }
  const libjpeg::Functions* none = nullptr;
  if (library.compare_exchange_strong(none, found.get())) found.release();  // for as long as the process lives
  return true;
}

constexpr unsigned kRowsAtOnce = 8;

struct JpegRows::State : CheckedDecoder {
  State() : CheckedDecoder(library.load()) {}

  int64_t top = 0, width = 0, channels = 0, left = 0;  // left: in the columns that are decoded
  bool flip = false;
  unsigned held = 0;  // the number of the first row in `lines`
  size_t stride = 0;
  std::vector<uint8_t> lines, mirrored;

  void skip(int64_t rows) {
    if (rows > 0) jpeg->skip_rows(&info, unsigned(rows));
  }

  // Read one row or more, as many as the library has ready.
  void read_rows(unsigned most = kRowsAtOnce) {
    unsigned char* rows[kRowsAtOnce];
    for (unsigned i = 0; i < kRowsAtOnce; ++i) rows[i] = lines.data() + i * stride;
    held = info.next_row;
    while (info.next_row == held) jpeg->read_rows(&info, rows, most);
  }
};

JpegRows::JpegRows() : state_(std::make_unique<State>()) {}

JpegRows::~JpegRows() = default;

bool JpegRows::open(const uint8_t* data, size_t size, ImageShape shape, const Cut& window, JpegHow how) {
  State& s = *state_;
  if (!s.jpeg || window.height < 1 || window.width < 1 || !s.create()) return false;
  bool known = false;
  const bool begun = s.safely([&] {
    s.jpeg->from_memory(&s.info, data, size);
    s.jpeg->read_header(&s.info, 1);
    const libjpeg::Colors stored = s.info.file_colors;
    known = int64_t(s.info.file_height) == shape.height && int64_t(s.info.file_width) == shape.width &&
            s.info.bits_per_sample == 8 && ((stored == libjpeg::kYCbCr && s.info.file_channels == 3) ||
                                            (stored == libjpeg::kGrey && s.info.file_channels == 1));
    if (!known) return;
    s.info.wanted_colors = shape.channels == 1 ? libjpeg::kGrey : libjpeg::kRgb;
    s.info.transform = how.fast_dct ? libjpeg::kFastIntegers : libjpeg::kAccurateIntegers;
    s.info.smooth_upsampling = !how.fast_upsampling;
    s.jpeg->start(&s.info);
  });
  if (!begun || !known || s.info.row_channels != shape.channels) return false;
  const int64_t tall = s.info.mcu_rows * libjpeg::kBlockSize, wide = s.info.mcu_columns * libjpeg::kBlockSize;
  const bool whole = s.info.progressive;  // all coefficients are in memory: nothing to gain
  // A pixel depends on its MCU and on its neighbors: one more on each side is decoded, and dropped.
  const int64_t first = whole ? 0 : std::max<int64_t>(window.left / wide - 1, 0) * wide;
  const int64_t stop = whole ? shape.width : std::min(((window.left + window.width + wide - 1) / wide + 1) * wide, shape.width);
  const int64_t skipped = whole ? 0 : std::max<int64_t>(window.top / tall - 1, 0) * tall;
  unsigned offset = unsigned(first), columns = unsigned(stop - first);
  const bool placed = s.safely([&] {
    if (columns < s.info.row_width) s.jpeg->crop(&s.info, &offset, &columns);
  });
  if (!placed || int64_t(offset) > window.left || int64_t(offset) + columns < window.left + window.width) return false;
  s.left = window.left - int64_t(offset);
  s.top = window.top;
  s.width = window.width;
  s.channels = shape.channels;
  s.flip = window.flip != 0;
  s.stride = size_t(columns * shape.channels + 1);
  s.lines.resize(kRowsAtOnce * s.stride);
  s.mirrored.resize(s.flip ? size_t(window.width * shape.channels + 1) : 0);
  return s.safely([&] { s.skip(skipped); });
}

const uint8_t* JpegRows::row(int64_t y) {
  State& s = *state_;
  const bool made = s.safely([&] {
    while (int64_t(s.info.next_row) <= s.top + y) s.read_rows();
  });
  if (!made) return nullptr;
  const uint8_t* const from = s.lines.data() + size_t(s.top + y - s.held) * s.stride + s.left * s.channels;
  if (!s.flip) return from;
  mirror_row(from, s.width, s.channels, s.mirrored.data());
  return s.mirrored.data();
}

bool JpegRows::copy_to(uint8_t* to, int64_t height) {
  State& s = *state_;
  const size_t bytes = size_t(s.width * s.channels);
  if (s.flip || s.left != 0 || s.stride != bytes + 1) {
    for (int64_t y = 0; y < height; ++y, to += bytes) {
      const uint8_t* const from = row(y);
      if (!from) return false;
      std::memcpy(to, from, bytes);
    }
    return true;
  }
  return s.safely([&] {  // whole rows are decoded where they belong
    const unsigned top = unsigned(s.top), bottom = unsigned(s.top + height);
    while (s.info.next_row < top) s.read_rows(std::min(kRowsAtOnce, top - s.info.next_row));
    while (s.info.next_row < bottom) {
      unsigned char* rows[kRowsAtOnce];
      const unsigned count = std::min(kRowsAtOnce, bottom - s.info.next_row);
      for (unsigned i = 0; i < count; ++i) rows[i] = to + (s.info.next_row - top + i) * bytes;
      s.jpeg->read_rows(&s.info, rows, count);
    }
  });
}

bool JpegRows::finish() {
  State& s = *state_;
  return s.safely([&] {
    // Rows that share their colors are decoded together: the library miscounts if it skips from between them.
    while (s.info.next_row < s.info.row_count && s.info.next_row % unsigned(s.info.mcu_rows) != 0) s.read_rows(1);
    // Not the last rows: the library would not look at them. With an even number left, halved colors stay in step.
    const int64_t kept = 2 * s.info.mcu_rows * libjpeg::kBlockSize;
    s.skip((int64_t(s.info.row_count) - s.info.next_row - kept) / kept * kept);
    while (s.info.next_row < s.info.row_count) s.read_rows();
    s.jpeg->finish(&s.info);
  });
}

void decode_jpegs(const Jpegs& jpegs, const int64_t* starts, uint8_t* out, bool* made) {
  in_pieces(jpegs.count, 1, [=](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const Cut& window = jpegs.windows[i];
      JpegRows rows;
      made[i] = rows.open(jpegs.data + jpegs.offsets[i], size_t(jpegs.offsets[i + 1] - jpegs.offsets[i]), jpegs.shapes[i], window, jpegs.how) &&
                rows.copy_to(out + starts[i], window.height) && rows.finish();
    }
  });
}

void decode_and_resize_jpegs(const Jpegs& jpegs, int64_t height, int64_t width, Rounding rounding, const int64_t* mirrored,
                             void* out, bool* made) {
  in_pieces(jpegs.count, 1, [=](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const Cut& window = jpegs.windows[i];
      const int64_t channels = jpegs.shapes[i].channels;
      const int64_t bytes = height * width * channels * (rounding == kFloats ? int64_t(sizeof(float)) : 1);
      JpegRows rows;
      made[i] = rows.open(jpegs.data + jpegs.offsets[i], size_t(jpegs.offsets[i + 1] - jpegs.offsets[i]), jpegs.shapes[i], window, jpegs.how) &&
                resize_rows(rows, {window.height, window.width, channels}, height, width, {rounding, mirrored[i] != 0},
                            static_cast<uint8_t*>(out) + i * bytes) &&
                rows.finish();
    }
  });
}

}  // namespace headrace
