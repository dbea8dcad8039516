#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>

#include <algorithm>
#include <cstdlib>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "kernels.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

using Ints = nb::ndarray<int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using ConstInts = nb::ndarray<const int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Rows = nb::ndarray<uint8_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using ConstRows = nb::ndarray<const uint8_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using ConstBytes = nb::ndarray<const uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Released = nb::call_guard<nb::gil_scoped_release>;

void require(bool holds, const char* what) {
  if (!holds) throw std::invalid_argument(what);
}

headrace::ShuffleLaw law(uint64_t key, int64_t capacity, int64_t total) {
  require(capacity > 0, "the buffer needs at least one slot");
  return {key, capacity, total};
}

// Every row must lie within the values, and rows must not run backwards.
void require_offsets(const ConstInts& offsets, size_t values) {
  require(offsets.shape(0) >= 1 && offsets.data()[0] >= 0, "offsets");
  for (size_t i = 1; i < offsets.shape(0); ++i) require(offsets.data()[i] >= offsets.data()[i - 1], "offsets");
  require(size_t(offsets.data()[offsets.shape(0) - 1]) <= values, "offsets beyond the values");
}

void require_slots(const ConstInts& draws, size_t slots) {
  for (size_t i = 0; i < draws.shape(0); ++i) require(draws.data()[i] >= 0 && size_t(draws.data()[i]) < slots, "draw");
}

// The memory of any object that has some: bytes, an mmap, an array, an Arrow buffer. Made and dropped with the GIL held.
class Buffer {
 public:
  explicit Buffer(nb::handle source) {
    if (PyObject_GetBuffer(source.ptr(), &view_, PyBUF_SIMPLE) != 0) throw nb::python_error();
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() { PyBuffer_Release(&view_); }

  const uint8_t* data() const { return static_cast<const uint8_t*>(view_.buf); }
  size_t size() const { return size_t(view_.len); }

  size_t position(int64_t at) const {
    require(at >= 0 && size_t(at) <= size(), "start lies beyond the buffer");
    return size_t(at);
  }

 private:
  Py_buffer view_;
};

// An array that a kernel fills; made without the GIL, handed to NumPy with it.
template <typename T>
class Array {
 public:
  explicit Array(size_t size) : data_(static_cast<T*>(std::malloc(std::max<size_t>(size, 1) * sizeof(T)))), size_(size) {
    if (!data_) throw std::bad_alloc();
  }
  explicit Array(const std::vector<T>& values) : Array(values.size()) {
    std::copy(values.begin(), values.end(), data_);
  }
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;
  ~Array() { std::free(data_); }

  T* data() { return data_; }

  // NumPy owns the memory from here on, and shows the first `size` of it.
  nb::object release(size_t size) {
    nb::capsule owner(data_, [](void* memory) noexcept { std::free(memory); });
    T* data = std::exchange(data_, nullptr);
    return nb::cast(nb::ndarray<nb::numpy, T, nb::ndim<1>>(data, {size}, owner));
  }
  nb::object release() { return release(size_); }

 private:
  T* data_;
  size_t size_;
};

nb::tuple unframe(nb::handle source, int64_t start, int64_t max_rows, int64_t max_bytes, bool verify) {
  const Buffer buffer(source);
  const size_t from = buffer.position(start);
  require(max_rows >= 0 && max_bytes >= 0, "limits must not be negative");
  std::optional<Array<uint8_t>> values;
  std::optional<Array<int64_t>> offsets;
  headrace::Scan scan;
  int64_t rows;
  {
    nb::gil_scoped_release released;
    std::vector<int64_t> starts;
    scan = headrace::scan_records(buffer.data(), buffer.size(), from, max_rows, max_bytes, false, starts);
    values.emplace(scan.consumed - from - starts.size() * headrace::kFraming);
    offsets.emplace(starts.size() + 1);
    rows = headrace::copy_records(buffer.data(), starts.data(), int64_t(starts.size()), verify, offsets->data(),
                                  values->data());
    if (size_t(rows) < starts.size()) scan = {size_t(starts[size_t(rows)]), headrace::Problem::kData};
  }
  const size_t bytes = size_t(offsets->data()[rows]);
  return nb::make_tuple(values->release(bytes), offsets->release(size_t(rows) + 1), scan.consumed, int(scan.problem));
}

nb::tuple scan_records(nb::handle source, int64_t start, int64_t max_rows, bool verify) {
  const Buffer buffer(source);
  const size_t from = buffer.position(start);
  require(max_rows >= 0, "limits must not be negative");
  std::optional<Array<int64_t>> positions;
  headrace::Scan scan;
  {
    nb::gil_scoped_release released;
    std::vector<int64_t> starts;
    scan = headrace::scan_records(buffer.data(), buffer.size(), from, max_rows, INT64_MAX, verify, starts);
    positions.emplace(starts);
  }
  return nb::make_tuple(positions->release(), scan.consumed, int(scan.problem));
}

nb::object frame(ConstBytes values, ConstInts offsets) {
  std::optional<Array<uint8_t>> out;
  {
    nb::gil_scoped_release released;
    require_offsets(offsets, values.shape(0));
    const size_t rows = offsets.shape(0) - 1;
    out.emplace(size_t(offsets.data()[rows] - offsets.data()[0]) + rows * headrace::kFraming);
    headrace::frame(values.data(), offsets.data(), int64_t(rows), out->data());
  }
  return out->release();
}

void bind_records(nb::module_& m) {
  m.def(
      "crc32c",
      [](nb::handle source, bool portable) {
        const Buffer buffer(source);
        nb::gil_scoped_release released;
        return (portable ? headrace::crc32c_portable : headrace::crc32c)(buffer.data(), buffer.size());
      },
      "buffer"_a, "portable"_a = false);
  m.def("crc32c_in_hardware", &headrace::crc32c_in_hardware);
  m.def("unframe", &unframe, "buffer"_a, "start"_a, "max_rows"_a, "max_bytes"_a, "verify"_a = true);
  m.def("scan_records", &scan_records, "buffer"_a, "start"_a, "max_rows"_a, "verify"_a = true);
  m.def(
      "resync",
      [](nb::handle source, int64_t start, int64_t end) {
        const Buffer buffer(source);
        const size_t from = buffer.position(start);
        require(end < 0 || size_t(end) >= buffer.size(), "end lies within the buffer");
        nb::gil_scoped_release released;
        return headrace::resync(buffer.data(), buffer.size(), from, end < 0 ? UINT64_MAX : uint64_t(end));
      },
      "buffer"_a, "start"_a, "end"_a = -1);
  m.def("frame", &frame, "values"_a, "offsets"_a);
}

// What `parse_csv` is told of a column: its kind, and what stands for an empty field (None: nothing may).
struct CsvDefault {
  headrace::CsvNumber number{};
  std::string text;
};

headrace::CsvLayout csv_layout(nb::list columns, nb::list slots, bool exact, nb::bytes delimiter, nb::bytes quote,
                               nb::bytes na, std::vector<CsvDefault>& defaults) {
  require(delimiter.size() == 1 && quote.size() <= 1, "delimiter and quote are single bytes");
  require(columns.size() > 0, "at least one column");
  headrace::CsvLayout layout;
  layout.delimiter = uint8_t(delimiter.c_str()[0]);
  layout.quote = quote.size() ? uint8_t(quote.c_str()[0]) : -1;
  layout.na = std::string(na.c_str(), na.size());
  layout.exact = exact;
  layout.columns = columns.size();
  for (nb::handle slot : slots) {
    layout.slots.push_back(nb::cast<int>(slot));
    require(layout.slots.back() >= -2 && layout.slots.back() < int(layout.columns), "a slot without a column");
  }
  for (nb::handle handle : columns) {
    const auto [kind, fallback] = nb::cast<std::pair<int, nb::object>>(handle);
    require(kind >= 0 && kind <= int(headrace::CsvKind::kText), "kind");
    layout.kinds.push_back(headrace::CsvKind(kind));
    layout.required.push_back(fallback.is_none());
    defaults.emplace_back();
    if (fallback.is_none()) continue;
    if (kind == int(headrace::CsvKind::kText)) {
      const nb::bytes text = nb::cast<nb::bytes>(fallback);
      defaults.back().text.assign(text.c_str(), text.size());
    } else if (kind >= int(headrace::CsvKind::kFloat32)) {
      defaults.back().number.real = nb::cast<double>(fallback);
    } else {
      defaults.back().number.integer = nb::cast<int64_t>(fallback);
    }
  }
  return layout;
}

nb::object csv_column(const Buffer& buffer, const headrace::CsvLayout& layout, size_t column, const CsvDefault& fallback,
                      const headrace::CsvRecords& records, std::vector<headrace::CsvProblem>& problems) {
  const size_t rows = records.good.size();
  const auto numbers = [&](auto value) -> nb::object {
    std::optional<Array<decltype(value)>> out;
    {
      nb::gil_scoped_release released;
      out.emplace(rows);
      headrace::csv_convert(buffer.data(), layout, column, fallback.number, records, problems, out->data());
    }
    return out->release();
  };
  switch (layout.kinds[column]) {
    case headrace::CsvKind::kInt32: return numbers(int32_t());
    case headrace::CsvKind::kInt64: return numbers(int64_t());
    case headrace::CsvKind::kFloat32: return numbers(float());
    case headrace::CsvKind::kFloat64: return numbers(double());
    case headrace::CsvKind::kText: break;
  }
  std::optional<Array<uint8_t>> values;
  std::optional<Array<int64_t>> offsets;
  size_t used;
  {
    nb::gil_scoped_release released;
    values.emplace(headrace::csv_text_bytes(layout, column, fallback.text, records));
    offsets.emplace(rows + 1);
    used = headrace::csv_text(buffer.data(), layout, column, fallback.text, records, problems, offsets->data(),
                              values->data());
  }
  return nb::make_tuple(values->release(used), offsets->release());
}

// Records of CSV as columns (arrays, or values and offsets), where each record begins, and what is wrong with some:
// row, error and field, three numbers each. Records that could not be cut into fields are not in the columns.
nb::tuple parse_csv(nb::handle source, nb::list columns, nb::list slots, bool exact, nb::bytes delimiter, nb::bytes quote,
                    nb::bytes na, int64_t max_rows, bool final) {
  const Buffer buffer(source);
  std::vector<CsvDefault> defaults;
  const headrace::CsvLayout layout = csv_layout(columns, slots, exact, delimiter, quote, na, defaults);
  headrace::CsvRecords records;
  {
    nb::gil_scoped_release released;
    headrace::csv_split(buffer.data(), buffer.size(), 0, max_rows, final, layout, records);
  }
  nb::list made;
  std::vector<headrace::CsvProblem> problems = records.problems;
  for (size_t column = 0; column < layout.columns; ++column) {
    made.append(csv_column(buffer, layout, column, defaults[column], records, problems));
  }
  std::vector<int64_t> listed;
  for (const auto& problem : problems) listed.insert(listed.end(), {problem.row, int64_t(problem.error), problem.field});
  Array<int64_t> starts(records.starts), wrong(listed);
  return nb::make_tuple(made, starts.release(), wrong.release());
}

}  // namespace

NB_MODULE(_native, m) {
  bind_records(m);
  m.def("parse_csv", &parse_csv, "buffer"_a, "columns"_a, "slots"_a, "exact"_a, "delimiter"_a, "quote"_a, "na"_a,
        "max_rows"_a, "final"_a);
  m.def(
      "shuffle_draws",
      [](uint64_t key, int64_t capacity, int64_t total, int64_t first, Ints out) {
        const int64_t count = int64_t(out.shape(0));
        require(first >= 0 && count <= INT64_MAX - first && (total < 0 || first + count <= total), "steps beyond the end");
        headrace::shuffle_draws(law(key, capacity, total), first, count, out.data());
      },
      "key"_a, "capacity"_a, "total"_a, "first"_a, "out"_a.noconvert(), Released());
  m.def(
      "shuffle_held",
      [](uint64_t key, int64_t capacity, int64_t total, int64_t t, Ints out) {
        const auto rule = law(key, capacity, total);
        require(int64_t(out.shape(0)) >= headrace::slots_needed(rule), "out is shorter than the buffer");
        require(t >= 0 && t <= (total < 0 ? INT64_MAX - capacity : total), "step beyond the end");
        return headrace::shuffle_held(rule, t, out.data());
      },
      "key"_a, "capacity"_a, "total"_a, "t"_a, "out"_a.noconvert(), Released());
  m.def(
      "shuffle_rows_at",
      [](uint64_t key, int64_t capacity, int64_t total, ConstInts steps, Ints out) {
        require(steps.shape(0) == out.shape(0), "steps and out differ in length");
        for (size_t i = 0; i < steps.shape(0); ++i) {
          const int64_t step = steps.data()[i];
          require(step >= 0 && (total < 0 || step < total), "step beyond the end");
        }
        headrace::shuffle_rows_at(law(key, capacity, total), steps.data(), int64_t(steps.shape(0)), out.data());
      },
      "key"_a, "capacity"_a, "total"_a, "steps"_a, "out"_a.noconvert(), Released());
  m.def(
      "shuffle_run",
      [](uint64_t key, int64_t capacity, int64_t total, int64_t first, Ints slots, int64_t hole, int64_t used, Ints out) {
        const auto rule = law(key, capacity, total);
        const int64_t count = int64_t(out.shape(0)), needed = headrace::slots_needed(rule);
        require(first >= 0 && count <= INT64_MAX - first && (total < 0 || first + count <= total), "steps beyond the end");
        require(int64_t(slots.shape(0)) >= needed, "slots are fewer than the buffer's");
        require(hole >= 0 && hole < std::max<int64_t>(needed, 1) && used >= 0 && used <= needed, "no such slot");
        require(total < 0 || first + used >= std::min(total, capacity), "slots of another step");
        headrace::shuffle_run(rule, first, count, slots.data(), &hole, &used, out.data());
        return std::make_pair(hole, used);
      },
      "key"_a, "capacity"_a, "total"_a, "first"_a, "slots"_a.noconvert(), "hole"_a, "used"_a, "out"_a.noconvert(),
      Released());
  m.def(
      "shuffle_exchange",
      [](Rows slots, int64_t hole, ConstRows incoming, ConstInts draws, Rows out) {
        const size_t bytes = slots.shape(1);
        require(incoming.shape(1) == bytes && out.shape(1) == bytes, "rows of different sizes");
        require(incoming.shape(0) == draws.shape(0) && out.shape(0) == draws.shape(0), "different numbers of rows");
        require(hole >= 0 && size_t(hole) < slots.shape(0), "no such slot");
        require_slots(draws, slots.shape(0));
        return headrace::shuffle_exchange(slots.data(), bytes, hole, incoming.data(), draws.data(),
                                          int64_t(draws.shape(0)), out.data());
      },
      "slots"_a.noconvert(), "hole"_a, "incoming"_a, "draws"_a, "out"_a.noconvert(), Released());
  m.def(
      "shuffle_drain",
      [](Rows slots, int64_t used, ConstInts draws, Rows out) {
        const size_t bytes = slots.shape(1);
        require(out.shape(1) == bytes && out.shape(0) == draws.shape(0), "out does not fit");
        require(used <= int64_t(slots.shape(0)) && int64_t(draws.shape(0)) <= used, "more draws than rows");
        require_slots(draws, slots.shape(0));
        headrace::shuffle_drain(slots.data(), bytes, used, draws.data(), int64_t(draws.shape(0)), out.data());
      },
      "slots"_a.noconvert(), "used"_a, "draws"_a, "out"_a.noconvert(), Released());
  m.def(
      "permute",
      [](uint64_t key, int64_t size, ConstInts indices, Ints out) {
        require(indices.shape(0) == out.shape(0), "indices and out differ in length");
        for (size_t i = 0; i < indices.shape(0); ++i) {
          require(indices.data()[i] >= 0 && indices.data()[i] < size, "index out of range");
        }
        headrace::permute(key, size, indices.data(), int64_t(indices.shape(0)), out.data());
      },
      "key"_a, "size"_a, "indices"_a, "out"_a.noconvert(), Released());
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
  m.def("release_memory", &headrace::release_memory, Released());
}
