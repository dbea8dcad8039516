#include <atomic>
#include <new>
#include <optional>

#include "image_jpeg.h"
#include "operations.h"
#include "python.h"
#include "team.h"

namespace headrace::python {
namespace {

template <typename T>
using Flat = nb::ndarray<T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Table = nb::ndarray<const int64_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Weights = nb::ndarray<const float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

// height × width × channels, which must be a valid number of values.
int64_t values_of(const ImageShape& shape) {
  const __int128 most = __int128(1) << 47;
  require(shape.height >= 0 && shape.width >= 0 && shape.channels >= 1, "a shape of an image");
  require(shape.height <= most && shape.width <= most && shape.channels <= most, "a shape of an image");
  const __int128 plane = __int128(shape.height) * shape.width;
  require(plane <= most && plane * shape.channels <= most, "a shape of an image");
  return int64_t(plane * shape.channels);
}

// Images within their buffer; `value_bytes` is the size of one value.
template <typename T>
Images<T> images_in(const Flat<const T>& data, const ConstInts& starts, const Table& shapes, int64_t value_bytes = 1) {
  require(value_bytes >= 1 && shapes.shape(1) == 3 && shapes.shape(0) == starts.shape(0), "as many shapes as images");
  const int64_t size = int64_t(data.shape(0)) / value_bytes;
  const auto* all = reinterpret_cast<const ImageShape*>(shapes.data());
  for (size_t i = 0; i < starts.shape(0); ++i) {
    const int64_t start = starts.data()[i];
    require(start >= 0 && start <= size && values_of(all[i]) <= size - start, "an image is outside of the values");
  }
  return {data.data(), starts.data(), all, int64_t(starts.shape(0))};
}

template <typename T>
void bind_resize(nb::module_& m) {
  m.def(
      "resize_bilinear",
      [](Flat<const T> data, ConstInts starts, Table shapes, int64_t height, int64_t width, Flat<float> out) {
        const Images<T> images = images_in<T>(data, starts, shapes);
        require(height >= 1 && width >= 1, "a size has at least a pixel");
        for (int64_t i = 0; i < images.count; ++i) {
          const ImageShape& shape = images.shapes[i];
          require(shape.height >= 1 && shape.width >= 1, "an image without pixels");
          require(shape.channels == images.shapes[0].channels, "images of different channels");
        }
        const int64_t each = images.count ? values_of({height, width, images.shapes[0].channels}) : 0;
        require(__int128(each) * images.count == __int128(out.shape(0)), "out does not fit");
        resize_bilinear(images, height, width, out.data());
      },
      "data"_a.noconvert(), "starts"_a, "shapes"_a, "height"_a, "width"_a, "out"_a.noconvert(), Released());
  m.def(
      "resample",
      [](Flat<const T> data, ConstInts shape, ConstInts row_starts, Weights row_weights, ConstInts column_starts,
         Weights column_weights, Flat<float> out) {
        require(shape.shape(0) == 3, "a shape of an image");
        const ImageShape size{shape.data()[0], shape.data()[1], shape.data()[2]};
        require(values_of(size) == int64_t(data.shape(0)), "an image is outside of the values");
        const auto taps = [](const ConstInts& starts, const Weights& weights, int64_t limit) -> Taps {
          require(weights.shape(0) == starts.shape(0), "as many weights as places");
          const Taps made{starts.data(), weights.data(), int64_t(starts.shape(0)), int64_t(weights.shape(1))};
          for (int64_t i = 0; i < made.count; ++i) {
            require(made.starts[i] >= -(int64_t(1) << 40) && made.starts[i] <= (int64_t(1) << 40), "a place");
            for (int64_t k = 0; k < made.taps; ++k) {
              const int64_t at = made.starts[i] + k;
              require(made.weights[i * made.taps + k] == 0 || (at >= 0 && at < limit), "a place outside of the image");
            }
          }
          return made;
        };
        const Taps rows = taps(row_starts, row_weights, size.height), columns = taps(column_starts, column_weights, size.width);
        require(values_of({rows.count, columns.count, size.channels}) == int64_t(out.shape(0)), "out does not fit");
        resample(data.data(), size, rows, columns, out.data());
      },
      "data"_a.noconvert(), "shape"_a, "row_starts"_a, "row_weights"_a, "column_starts"_a, "column_weights"_a,
      "out"_a.noconvert(), Released());
  m.def(
      "adjust_images",
      [](int what, Flat<const T> data, ConstInts starts, Table shapes, ConstFloats factors, Flat<T> out) {
        const Images<T> images = images_in<T>(data, starts, shapes);
        require(what >= kBrightness && what <= kHue, "no such adjustment");
        require(out.shape(0) == data.shape(0) && int64_t(factors.shape(0)) == images.count, "out does not fit");
        for (int64_t i = 0; i < images.count; ++i) {
          require(what < kSaturation || images.shapes[i].channels == 3, "colours have three channels");
        }
        adjust_images(Adjustment(what), images, factors.data(), out.data());
      },
      "what"_a, "data"_a.noconvert(), "starts"_a, "shapes"_a, "factors"_a, "out"_a.noconvert(), Released());
}

// Windows, each within its image.
const Cut* windows_in(const Table& windows, const ImageShape* shapes, int64_t count) {
  require(windows.shape(1) == 5 && int64_t(windows.shape(0)) == count, "as many windows as images");
  const auto* all = reinterpret_cast<const Cut*>(windows.data());
  for (int64_t i = 0; i < count; ++i) {
    const Cut& cut = all[i];
    require(cut.top >= 0 && cut.height >= 1 && cut.height <= shapes[i].height && cut.top <= shapes[i].height - cut.height &&
                cut.left >= 0 && cut.width >= 1 && cut.width <= shapes[i].width && cut.left <= shapes[i].width - cut.width,
            "a window is outside of its image");
  }
  return all;
}

Jpegs jpegs_in(const ConstBytes& values, const ConstInts& offsets, const Table& shapes, const Table& windows, JpegHow how) {
  require_offsets(offsets, values.shape(0));
  require(shapes.shape(1) == 3 && shapes.shape(0) + 1 == offsets.shape(0), "as many shapes as images");
  const auto* all = reinterpret_cast<const ImageShape*>(shapes.data());
  const auto count = int64_t(shapes.shape(0));
  for (int64_t i = 0; i < count; ++i) {
    values_of(all[i]);
    require(all[i].channels == 1 || all[i].channels == 3, "a JPEG is decoded to one channel or three");
  }
  return {values.data(), offsets.data(), all, windows_in(windows, all, count), count, how};
}

// Operations on the rows of images of one size, if there are any.
std::optional<RowScaling> row_scaling(const ConstInts& what, const Weights& numbers, int64_t channels, int64_t width) {
  require(numbers.shape(0) == what.shape(0), "as many numbers as operations");
  if (what.shape(0) == 0) return std::nullopt;
  require(numbers.shape(1) == 1 || int64_t(numbers.shape(1)) == channels, "a number for all channels, or one for each");
  std::vector<Arithmetic> operations;
  for (size_t i = 0; i < what.shape(0); ++i) {
    require(what.data()[i] >= kAdd && what.data()[i] <= kDivide, "no such operation");
    operations.push_back(Arithmetic(what.data()[i]));
  }
  return RowScaling(std::move(operations), {numbers.data(), numbers.data() + numbers.size()}, channels * width);
}

// Where images of one size go: floats or bytes, contiguous.
template <typename T>
void require_room(const Flat<T>& out, const ImageShape* shapes, int64_t count, int64_t height, int64_t width, int64_t rounding) {
  require(height >= 1 && width >= 1, "a size has at least a pixel");
  require(rounding >= kFloats && rounding <= kTruncated && (rounding == kFloats) == (sizeof(T) == 4), "no such rounding");
  for (int64_t i = 0; i < count; ++i) require(shapes[i].channels == shapes[0].channels, "images of different channels");
  const int64_t each = count ? values_of({height, width, shapes[0].channels}) : 0;
  require(__int128(each) * count == __int128(out.shape(0)), "out does not fit");
}

template <typename T>
void bind_resize_windows(nb::module_& m) {
  m.def(
      "resize_windows",
      [](Flat<const uint8_t> data, ConstInts starts, Table shapes, Table windows, int64_t height, int64_t width,
         int64_t rounding, ConstInts mirrored, ConstInts what, Weights numbers, Flat<T> out) {
        const Images<uint8_t> images = images_in<uint8_t>(data, starts, shapes);
        const Cut* const all = windows_in(windows, images.shapes, images.count);
        require(int64_t(mirrored.shape(0)) == images.count, "as many flags as images");
        require_room(out, images.shapes, images.count, height, width, rounding);
        if (images.count == 0) return;
        const auto scaling = row_scaling(what, numbers, images.shapes[0].channels, width);
        require(!scaling || rounding == kFloats, "bytes are not scaled");
        resize_windows(images, all, {height, width, Rounding(rounding), mirrored.data(), scaling ? &*scaling : nullptr}, out.data());
      },
      "data"_a.noconvert(), "starts"_a, "shapes"_a, "windows"_a, "height"_a, "width"_a, "rounding"_a, "mirrored"_a, "what"_a,
      "numbers"_a, "out"_a.noconvert(), Released());
  m.def(
      "decode_and_resize_jpegs",
      [](ConstBytes values, ConstInts offsets, Table shapes, Table windows, bool fast_dct, bool fast_upsampling, int64_t height,
         int64_t width, int64_t rounding, ConstInts mirrored, ConstInts what, Weights numbers, Flat<T> out, Flat<bool> made) {
        const Jpegs jpegs = jpegs_in(values, offsets, shapes, windows, {fast_dct, fast_upsampling});
        require(int64_t(mirrored.shape(0)) == jpegs.count && int64_t(made.shape(0)) == jpegs.count, "as many flags as images");
        require_room(out, jpegs.shapes, jpegs.count, height, width, rounding);
        if (jpegs.count == 0) return;
        const auto scaling = row_scaling(what, numbers, jpegs.shapes[0].channels, width);
        require(!scaling || rounding == kFloats, "bytes are not scaled");
        decode_and_resize_jpegs(jpegs, {height, width, Rounding(rounding), mirrored.data(), scaling ? &*scaling : nullptr},
                                out.data(), made.data());
      },
      "values"_a, "offsets"_a, "shapes"_a, "windows"_a, "fast_dct"_a, "fast_upsampling"_a, "height"_a, "width"_a,
      "rounding"_a, "mirrored"_a, "what"_a, "numbers"_a, "out"_a.noconvert(), "made"_a.noconvert(), Released());
}

}  // namespace

void bind_image(nb::module_& m) {
  m.def(
      "count_jpeg_scans",
      [](ConstBytes values, ConstInts offsets, Ints out) {
        require_offsets(offsets, values.shape(0));
        require(out.shape(0) + 1 == offsets.shape(0), "out does not fit");
        for (size_t i = 0; i < out.shape(0); ++i) {
          const int64_t start = offsets.data()[i], stop = offsets.data()[i + 1];
          out.data()[i] = count_jpeg_scans(values.data() + start, size_t(stop - start));
        }
      },
      "values"_a, "offsets"_a, "out"_a.noconvert(), Released());
  m.def(
      "decode_jpegs",
      [](ConstBytes values, ConstInts offsets, Table shapes, Table windows, bool fast_dct, bool fast_upsampling, ConstInts starts,
         Flat<uint8_t> out, Flat<bool> made) {
        const Jpegs jpegs = jpegs_in(values, offsets, shapes, windows, {fast_dct, fast_upsampling});
        require(int64_t(starts.shape(0)) == jpegs.count && int64_t(made.shape(0)) == jpegs.count, "as many places as images");
        for (int64_t i = 0; i < jpegs.count; ++i) {
          const int64_t size = values_of({jpegs.windows[i].height, jpegs.windows[i].width, jpegs.shapes[i].channels});
          const int64_t start = starts.data()[i], room = int64_t(out.shape(0));
          require(start >= 0 && start <= room && size <= room - start, "out does not fit");
        }
        decode_jpegs(jpegs, starts.data(), out.data(), made.data());
      },
      "values"_a, "offsets"_a, "shapes"_a, "windows"_a, "fast_dct"_a, "fast_upsampling"_a, "starts"_a, "out"_a.noconvert(),
      "made"_a.noconvert(), Released());
  bind_resize_windows<uint8_t>(m);
  bind_resize_windows<float>(m);
  m.def(
      "image_headers",
      [](ConstBytes values, ConstInts offsets, int64_t only, double most, Numbers out) {
        require_offsets(offsets, values.shape(0));
        require(out.shape(0) + 1 == offsets.shape(0) && out.shape(1) == 5, "out does not fit");
        int64_t refused = -1;
        for (size_t i = out.shape(0); i-- > 0;) {
          const int64_t start = offsets.data()[i], stop = offsets.data()[i + 1];
          const ImageHeader found = read_image_header(values.data() + start, size_t(stop - start));
          int64_t* row = out.data() + 5 * i;
          row[0] = found.kind, row[1] = found.height, row[2] = found.width, row[3] = found.channels, row[4] = found.depth;
          const bool wanted = only ? found.kind == only : found.kind != kUnknownImage;
          const bool sized = found.height >= 1 && found.width >= 1;
          if (!wanted || !sized || double(found.height) * double(found.width) > most) refused = int64_t(i);
        }
        return refused;
      },
      "values"_a, "offsets"_a, "only"_a, "most"_a, "out"_a.noconvert(), Released());
  m.def(
      "jpeg_samplings",
      [](ConstBytes values, ConstInts offsets, Numbers out) {
        require_offsets(offsets, values.shape(0));
        require(out.shape(0) + 1 == offsets.shape(0) && out.shape(1) == 3, "out does not fit");
        jpeg::File file;
        for (size_t i = 0; i < out.shape(0); ++i) {
          const int64_t start = offsets.data()[i], stop = offsets.data()[i + 1];
          int64_t* const row = out.data() + 3 * i;
          row[0] = row[1] = row[2] = 0;
          const uint8_t* const data = values.data() + start;
          if (!jpeg::read_file(data, size_t(stop - start), file) || !file.baseline) continue;
          if (data[stop - start - 2] != 0xFF || data[stop - start - 1] != 0xD9) continue;  // it breaks off
          row[0] = file.component_count, row[1] = file.components[0].columns, row[2] = file.components[0].rows;
        }
      },
      "values"_a, "offsets"_a, "out"_a.noconvert(), Released());
  m.def(
      "decode_pngs",
      [](ConstBytes values, ConstInts offsets, Table shapes, ConstInts starts, Flat<uint8_t> out, Flat<bool> made) {
        require_offsets(offsets, values.shape(0));
        require(offsets.shape(0) == starts.shape(0) + 1 && made.shape(0) == starts.shape(0), "as many places as images");
        const Images<uint8_t> images = images_in<uint8_t>(Flat<const uint8_t>(out), starts, shapes);
        PngScratch scratch;
        for (int64_t i = 0; i < images.count; ++i) {
          const int64_t start = offsets.data()[i], stop = offsets.data()[i + 1];
          made.data()[i] = decode_png(values.data() + start, size_t(stop - start), images.shapes[i], scratch,
                                      out.data() + images.starts[i]);
        }
      },
      "values"_a, "offsets"_a, "shapes"_a, "starts"_a, "out"_a.noconvert(), "made"_a.noconvert(), Released());
  m.def(
      "encode_pngs",
      [](Flat<const uint8_t> data, ConstInts shape) {
        require(shape.shape(0) == 4, "as many images, their height, width and channels");
        const int64_t count = shape.data()[0];
        const ImageShape each{shape.data()[1], shape.data()[2], shape.data()[3]};
        const int64_t size = values_of(each);
        require(each.height >= 1 && each.width >= 1 && each.channels <= 4 && size <= int64_t(1) << 30, "a shape of an image");
        require(count >= 0 && __int128(count) * size == __int128(data.shape(0)), "as many images, their height, width and channels");
        std::vector<Growing<uint8_t>> made(static_cast<size_t>(count));
        std::atomic<bool> full = false;
        {
          nb::gil_scoped_release released;
          in_pieces(count, grain_of(count, 8 * count * size), [&](int64_t begin, int64_t end) {
            try {
              PngEncoder scratch;
              for (int64_t i = begin; i < end; ++i) encode_png(data.data() + i * size, each, scratch, made[size_t(i)]);
            } catch (const std::bad_alloc&) {
              full = true;
            }
          });
        }
        if (full) throw std::bad_alloc();
        Growing<uint8_t> values;
        Growing<int64_t> offsets;
        size_t total = 0;
        for (const auto& one : made) total += one.size();
        values.expect(total);
        offsets.push(0);
        for (const auto& one : made) {
          values.append(one.data(), one.size());
          offsets.push(int64_t(values.size()));
        }
        return nb::make_tuple(numpy(values), numpy(offsets));
      },
      "data"_a.noconvert(), "shape"_a);
  bind_resize<uint8_t>(m);
  bind_resize<float>(m);
  m.def(
      "cut_images",
      [](ConstBytes data, int64_t value_bytes, ConstInts starts, Table shapes, Table cuts, ConstInts out_starts,
         nb::ndarray<uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu> out) {
        const Images<uint8_t> images = images_in<uint8_t>(data, starts, shapes, value_bytes);
        require(cuts.shape(1) == 5 && int64_t(cuts.shape(0)) == images.count, "as many cuts as images");
        require(int64_t(out_starts.shape(0)) == images.count, "as many places as images");
        const auto* all = reinterpret_cast<const Cut*>(cuts.data());
        const int64_t room = int64_t(out.shape(0)) / value_bytes;
        for (int64_t i = 0; i < images.count; ++i) {
          const ImageShape& shape = images.shapes[i];
          const Cut& cut = all[i];
          require(cut.top >= 0 && cut.height >= 0 && cut.top <= shape.height && cut.height <= shape.height - cut.top &&
                      cut.left >= 0 && cut.width >= 0 && cut.left <= shape.width && cut.width <= shape.width - cut.left,
                  "a cut is outside of its image");
          const int64_t start = out_starts.data()[i], size = values_of({cut.height, cut.width, shape.channels});
          require(start >= 0 && start <= room && size <= room - start, "out does not fit");
        }
        cut_images(images, value_bytes, all, out_starts.data(), out.data());
      },
      "data"_a, "value_bytes"_a, "starts"_a, "shapes"_a, "cuts"_a, "out_starts"_a, "out"_a.noconvert(), Released());
  m.def(
      "scale_bytes",
      [](ConstBytes values, ConstInts what, ConstFloats numbers, Flat<float> out) {
        require(values.shape(0) == out.shape(0), "out does not fit");
        const Scaling scaling(operations_of(what, numbers));
        ReleasedFor released(out.nbytes());
        scaling.with_help(values.data(), int64_t(values.shape(0)), out.data());
      },
      "values"_a.noconvert(), "what"_a, "numbers"_a, "out"_a.noconvert());
}

}  // namespace headrace::python
