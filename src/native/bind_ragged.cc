#include "kernels.h"
#include "python.h"

namespace headrace::python {

void bind_ragged(nb::module_& m) {
  m.def(
      "ragged_take",
      [](ConstRows values, ConstInts offsets, ConstInts indices, Rows out) {
        require_offsets(offsets, values.shape(0));
        const int64_t rows = int64_t(offsets.shape(0)) - 1;
        size_t needed = 0;
        for (size_t i = 0; i < indices.shape(0); ++i) {
          const int64_t row = indices.data()[i];
          require(row >= 0 && row < rows, "index out of range");
          needed += size_t(offsets.data()[row + 1] - offsets.data()[row]);
        }
        require(out.shape(0) == needed && out.shape(1) == values.shape(1), "out does not fit");
        headrace::ragged_take(values.data(), values.shape(1), offsets.data(), indices.data(),
                              int64_t(indices.shape(0)), out.data());
      },
      "values"_a, "offsets"_a, "indices"_a, "out"_a.noconvert(), Released());
  m.def(
      "ragged_pad",
      [](ConstRows values, ConstInts offsets, int64_t length, Rows out) {
        require_offsets(offsets, values.shape(0));
        const int64_t rows = int64_t(offsets.shape(0)) - 1;
        for (int64_t i = 0; i < rows; ++i) {
          require(offsets.data()[i + 1] - offsets.data()[i] <= length, "a row is longer than the padding");
        }
        require(length >= 0 && (rows == 0 || out.shape(0) / size_t(rows) == size_t(length)) &&
                    out.shape(0) == size_t(rows) * size_t(length) && out.shape(1) == values.shape(1),
                "out does not fit");
        headrace::ragged_pad(values.data(), values.shape(1), offsets.data(), rows, length, out.data());
      },
      "values"_a, "offsets"_a, "length"_a, "out"_a.noconvert(), Released());
}

}  // namespace headrace::python
