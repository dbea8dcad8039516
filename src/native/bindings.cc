#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>

#include <algorithm>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "example.h"
#include "kernels.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

using Ints = nb::ndarray<int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using ConstInts = nb::ndarray<const int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Rows = nb::ndarray<uint8_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using ConstRows = nb::ndarray<const uint8_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using ConstFloats = nb::ndarray<const float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using ConstBytes = nb::ndarray<const uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Words = nb::ndarray<uint64_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using ConstWords = nb::ndarray<const uint64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using ConstIds = nb::ndarray<const uint64_t, nb::shape<-1, 2>, nb::c_contig, nb::device::cpu>;
using Doubles = nb::ndarray<double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Numbers = nb::ndarray<int64_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
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

template <class Out>
headrace::RowDraws row_draws(uint64_t key, const ConstIds& ids, uint64_t first, const Out& out) {
  require(out.shape(0) == ids.shape(0), "out needs a line for each row");
  require(out.shape(1) <= UINT64_MAX - first, "draws beyond the end");
  return {key, ids.data(), int64_t(ids.shape(0)), first, int64_t(out.shape(1))};
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

// An array that a kernel has filled: NumPy owns its memory from here on.
template <typename T>
nb::object numpy(headrace::Growing<T>& array) {
  const size_t size = array.size();
  T* memory = array.release();
  nb::capsule owner(memory, [](void* held) noexcept { std::free(held); });
  nb::object made = nb::cast(nb::ndarray<nb::numpy, T, nb::ndim<1>>(memory, {size}, owner));
  if constexpr (!std::is_same_v<T, int64_t>) return made;
  // NumPy has two types of this size, and gets the one that nobody else uses
  static const PyObject* usual = nb::object(nb::module_::import_("numpy").attr("int64")).release().ptr();
  return made.attr("view")(nb::handle(usual));
}

nb::tuple unframe(nb::handle source, int64_t start, int64_t max_rows, int64_t max_bytes, bool verify) {
  const Buffer buffer(source);
  const size_t from = buffer.position(start);
  require(max_rows >= 0 && max_bytes >= 0, "limits must not be negative");
  headrace::Growing<uint8_t> values;
  headrace::Growing<int64_t> offsets;
  headrace::Scan scan;
  {
    nb::gil_scoped_release released;
    headrace::Growing<int64_t> starts;
    scan = headrace::scan_records(buffer.data(), buffer.size(), from, max_rows, max_bytes, false, starts);
    values.extend(scan.consumed - from - starts.size() * headrace::kFraming);
    offsets.extend(starts.size() + 1);
    const size_t good = headrace::copy_records(buffer.data(), starts.data(), starts.size(), verify, offsets.data(),
                                               values.data());
    if (good < starts.size()) {
      scan = {size_t(starts[good]), headrace::Problem::kData};
      offsets.shrink(good + 1);
      values.shrink(size_t(offsets[good]));
    }
  }
  return nb::make_tuple(numpy(values), numpy(offsets), scan.consumed, int(scan.problem));
}

nb::tuple scan_records(nb::handle source, int64_t start, int64_t max_rows, bool verify) {
  const Buffer buffer(source);
  const size_t from = buffer.position(start);
  require(max_rows >= 0, "limits must not be negative");
  headrace::Growing<int64_t> starts;
  headrace::Scan scan;
  {
    nb::gil_scoped_release released;
    scan = headrace::scan_records(buffer.data(), buffer.size(), from, max_rows, INT64_MAX, verify, starts);
  }
  return nb::make_tuple(numpy(starts), scan.consumed, int(scan.problem));
}

nb::object frame(ConstBytes values, ConstInts offsets) {
  headrace::Growing<uint8_t> out;
  {
    nb::gil_scoped_release released;
    require_offsets(offsets, values.shape(0));
    const size_t rows = offsets.shape(0) - 1;
    out.extend(size_t(offsets.data()[rows] - offsets.data()[0]) + rows * headrace::kFraming);
    headrace::frame(values.data(), offsets.data(), int64_t(rows), out.data());
  }
  return numpy(out);
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

headrace::Kind kind_of(int64_t number) {
  require(number >= 1 && number <= 3, "a feature holds bytes (1), floats (2) or int64 (3)");
  return headrace::Kind(number);
}

std::string text_of(nb::bytes value) { return {value.c_str(), value.size()}; }

// (name, kind, in_steps, size, multiple, required, skip_empty, default): see headrace::Request.
headrace::Request request_of(nb::tuple given) {
  require(given.size() == 8, "a request has eight parts");
  headrace::Request request{text_of(nb::cast<nb::bytes>(given[0])), kind_of(nb::cast<int64_t>(given[1])),
                            nb::cast<bool>(given[2]), nb::cast<int64_t>(given[3]), nb::cast<int64_t>(given[4]),
                            nb::cast<bool>(given[5]), nb::cast<bool>(given[6]), {}, {}, {}};
  require(request.size >= -1 && request.multiple >= 1, "sizes must be positive");
  size_t defaults = 0;
  if (!given[7].is_none() && request.kind == headrace::Kind::kBytes) {
    for (nb::handle value : nb::cast<nb::list>(given[7])) {
      request.default_bytes.push_back(text_of(nb::cast<nb::bytes>(value)));
    }
    defaults = request.default_bytes.size();
  } else if (!given[7].is_none() && request.kind == headrace::Kind::kFloat) {
    const auto values = nb::cast<ConstFloats>(given[7]);
    request.default_floats.append(values.data(), defaults = values.shape(0));
  } else if (!given[7].is_none()) {
    const auto values = nb::cast<ConstInts>(given[7]);
    request.default_ints.append(values.data(), defaults = values.shape(0));
  }
  const bool needed = !request.required && !request.in_steps && request.size > 0;
  require(defaults == (needed ? size_t(request.size) : 0), "a default has as many values as the feature, or none");
  return request;
}

nb::object values_of(headrace::Column& column, headrace::Kind kind) {
  if (kind == headrace::Kind::kInt64) return numpy(column.ints);
  return kind == headrace::Kind::kFloat ? numpy(column.floats) : numpy(column.bytes);
}

// ([(values, byte_ends, splits, steps), …], -1, ""), or which row was refused and why.
nb::tuple parse(const headrace::ExampleParser& parser, ConstBytes values, ConstInts offsets) {
  headrace::Refusal refusal;
  std::vector<headrace::Column> columns;
  {
    nb::gil_scoped_release released;
    require_offsets(offsets, values.shape(0));
    columns = parser.parse(values.data(), offsets.data(), int64_t(offsets.shape(0)) - 1, refusal);
  }
  nb::list made;
  for (size_t i = 0; refusal.row < 0 && i < columns.size(); ++i) {
    headrace::Column& column = columns[i];
    const headrace::Request& request = parser.requests()[i];
    const nb::object ends = request.kind == headrace::Kind::kBytes ? numpy(column.byte_ends) : nb::none();
    const nb::object splits = request.size < 0 ? numpy(column.splits) : nb::none();
    const nb::object steps = request.in_steps ? numpy(column.steps) : nb::none();
    made.append(nb::make_tuple(values_of(column, request.kind), ends, splits, steps));
  }
  const nb::bytes what(refusal.what.data(), refusal.what.size());  // names need not be text
  return nb::make_tuple(made, refusal.row, what);
}

// (name, kind, values, byte_ends or None, splits or None): without splits each row has its share of the values.
headrace::Written written_of(nb::tuple given, size_t rows) {
  require(given.size() == 5, "a column to write has five parts");
  headrace::Written column{text_of(nb::cast<nb::bytes>(given[0])), kind_of(nb::cast<int64_t>(given[1])), 0, nullptr,
                           nullptr, nullptr};
  size_t count;
  if (column.kind == headrace::Kind::kBytes) {
    const auto values = nb::cast<ConstBytes>(given[2], false);
    const auto ends = nb::cast<ConstInts>(given[3], false);
    require_offsets(ends, values.shape(0));
    column.values = values.data();
    column.byte_ends = ends.data();
    count = ends.shape(0) - 1;
  } else if (column.kind == headrace::Kind::kFloat) {
    const auto values = nb::cast<ConstFloats>(given[2], false);
    column.values = values.data();
    count = values.shape(0);
  } else {
    const auto values = nb::cast<ConstInts>(given[2], false);
    column.values = values.data();
    count = values.shape(0);
  }
  if (given[4].is_none()) {
    require(rows == 0 || count % rows == 0, "the values do not share out over the rows");
    column.size = rows ? int64_t(count / rows) : 0;
  } else {
    const auto splits = nb::cast<ConstInts>(given[4], false);
    require_offsets(splits, count);
    require(splits.shape(0) == rows + 1, "splits and rows differ");
    column.splits = splits.data();
  }
  return column;
}

// The arrays stay alive in the list of the caller.
nb::tuple encode(nb::list given, int64_t rows) {
  require(rows >= 0, "rows must not be negative");
  std::vector<headrace::Written> columns;
  for (nb::handle column : given) columns.push_back(written_of(nb::cast<nb::tuple>(column), size_t(rows)));
  headrace::Growing<uint8_t> out;
  headrace::Growing<int64_t> offsets;
  {
    nb::gil_scoped_release released;
    headrace::encode_examples(columns, rows, out, offsets.extend(size_t(rows) + 1));
  }
  return nb::make_tuple(numpy(out), numpy(offsets));
}

// The values of one record on their way to encode_examples: numbers and text as Python has them, and arrays.
class Features {
 public:
  // False if the value is something else, which nothing was taken of.
  bool add(std::string_view name, nb::handle value) {
    if (PyList_Check(value.ptr()) || PyTuple_Check(value.ptr())) {
      PyObject** items = PySequence_Fast_ITEMS(value.ptr());
      return add(name, items, PySequence_Fast_GET_SIZE(value.ptr()));
    }
    PyObject* only = value.ptr();
    return add(name, &only, 1);
  }

  // An array of int64 or float32, or a list of text.
  void add_flat(std::string_view name, nb::handle value) {
    ConstInts ints;
    ConstFloats floats;
    if (PyList_Check(value.ptr())) {
      add_text(name, PySequence_Fast_ITEMS(value.ptr()), PySequence_Fast_GET_SIZE(value.ptr()));
    } else if (nb::try_cast(value, ints, false)) {
      begin(name, headrace::Kind::kInt64, ints_.size(), ints.shape(0));
      ints_.append(ints.data(), ints.shape(0));
    } else {
      require(nb::try_cast(value, floats, false), "an array of int64 or float32");
      begin(name, headrace::Kind::kFloat, floats_.size(), floats.shape(0));
      floats_.append(floats.data(), floats.shape(0));
    }
  }

  nb::bytes encoded() {
    for (size_t i = 0; i < columns_.size(); ++i) {  // now that nothing moves any more
      headrace::Written& column = columns_[i];
      switch (column.kind) {
        case headrace::Kind::kInt64: column.values = ints_.data() + firsts_[i]; break;
        case headrace::Kind::kFloat: column.values = floats_.data() + firsts_[i]; break;
        default:
          column.values = bytes_.data();
          column.byte_ends = ends_.data() + firsts_[i];
      }
    }
    std::sort(columns_.begin(), columns_.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
    headrace::Growing<uint8_t> out;
    int64_t offsets[2];
    headrace::encode_examples(columns_, 1, out, offsets);
    return nb::bytes(out.data(), out.size());
  }

 private:
  bool add(std::string_view name, PyObject** items, Py_ssize_t count) {
    bool whole = true, real = true, text = true;
    for (Py_ssize_t i = 0; i < count; ++i) {
      const bool integer = PyLong_Check(items[i]);
      whole &= integer;
      real &= integer || PyFloat_Check(items[i]);
      text &= PyBytes_Check(items[i]) || PyUnicode_Check(items[i]);
    }
    if (whole) return add_ints(name, items, count);
    if (real) return add_floats(name, items, count);
    return text && add_text(name, items, count);
  }

  bool add_ints(std::string_view name, PyObject** items, Py_ssize_t count) {
    const size_t before = ints_.size();
    for (Py_ssize_t i = 0; i < count; ++i) {
      int overflow = 0;
      ints_.push(PyLong_AsLongLongAndOverflow(items[i], &overflow));
      if (overflow) {
        ints_.shrink(before);
        return false;
      }
    }
    begin(name, headrace::Kind::kInt64, before, size_t(count));
    return true;
  }

  bool add_floats(std::string_view name, PyObject** items, Py_ssize_t count) {
    begin(name, headrace::Kind::kFloat, floats_.size(), size_t(count));
    for (Py_ssize_t i = 0; i < count; ++i) {
      const double value = PyFloat_AsDouble(items[i]);
      if (value == -1 && PyErr_Occurred()) throw nb::python_error();
      floats_.push(float(value));
    }
    return true;
  }

  bool add_text(std::string_view name, PyObject** items, Py_ssize_t count) {
    begin(name, headrace::Kind::kBytes, ends_.size(), size_t(count));
    ends_.push(int64_t(bytes_.size()));
    for (Py_ssize_t i = 0; i < count; ++i) {
      Py_ssize_t size = 0;
      const char* data = PyBytes_Check(items[i]) ? PyBytes_AS_STRING(items[i]) : PyUnicode_AsUTF8AndSize(items[i], &size);
      if (!data) throw nb::python_error();
      bytes_.append(data, size_t(PyBytes_Check(items[i]) ? PyBytes_GET_SIZE(items[i]) : size));
      ends_.push(int64_t(bytes_.size()));
    }
    return true;
  }

  void begin(std::string_view name, headrace::Kind kind, size_t first, size_t count) {
    columns_.push_back({std::string(name), kind, int64_t(count), nullptr, nullptr, nullptr});
    firsts_.push_back(first);
  }

  std::vector<headrace::Written> columns_;
  std::vector<size_t> firsts_;
  headrace::Growing<int64_t> ints_, ends_;
  headrace::Growing<float> floats_;
  headrace::Growing<uint8_t> bytes_;
};

// What is neither a number nor text nor a list of these, `flat` makes an array of, or a list of text.
nb::bytes encode_example(nb::dict features, nb::callable flat) {
  Features made;
  for (auto [key, value] : features) {
    Py_ssize_t size;
    const char* name = PyUnicode_AsUTF8AndSize(key.ptr(), &size);
    if (!name) throw nb::python_error();
    const std::string_view text(name, size_t(size));
    const bool nothing = value.is_none() || ((PyList_Check(value.ptr()) || PyTuple_Check(value.ptr())) &&
                                             PySequence_Fast_GET_SIZE(value.ptr()) == 0);
    if (nothing || made.add(text, value)) continue;
    made.add_flat(text, flat(key, value));
  }
  return made.encoded();
}

void bind_examples(nb::module_& m) {
  nb::class_<headrace::ExampleParser>(m, "ExampleParser")
      .def(
          "__init__",
          [](headrace::ExampleParser* self, nb::list given) {
            std::vector<headrace::Request> requests;
            for (nb::handle request : given) requests.push_back(request_of(nb::cast<nb::tuple>(request)));
            new (self) headrace::ExampleParser(std::move(requests));
          },
          "requests"_a)
      .def("parse", &parse, "values"_a, "offsets"_a);
  m.def("encode_examples", &encode, "columns"_a, "rows"_a);
  m.def("encode_example", &encode_example, "features"_a, "flat"_a);
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
    headrace::Growing<decltype(value)> out;
    {
      nb::gil_scoped_release released;
      headrace::csv_convert(buffer.data(), layout, column, fallback.number, records, problems, out.extend(rows));
    }
    return numpy(out);
  };
  switch (layout.kinds[column]) {
    case headrace::CsvKind::kInt32: return numbers(int32_t());
    case headrace::CsvKind::kInt64: return numbers(int64_t());
    case headrace::CsvKind::kFloat32: return numbers(float());
    case headrace::CsvKind::kFloat64: return numbers(double());
    case headrace::CsvKind::kText: break;
  }
  headrace::Growing<uint8_t> values;
  headrace::Growing<int64_t> offsets;
  {
    nb::gil_scoped_release released;
    values.extend(headrace::csv_text_bytes(layout, column, fallback.text, records));
    values.shrink(headrace::csv_text(buffer.data(), layout, column, fallback.text, records, problems,
                                     offsets.extend(rows + 1), values.data()));
  }
  return nb::make_tuple(numpy(values), numpy(offsets));
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
  headrace::Growing<int64_t> starts, wrong;
  starts.append(records.starts.data(), records.starts.size());
  for (const auto& problem : problems) {
    for (const int64_t number : {problem.row, int64_t(problem.error), problem.field}) wrong.push(number);
  }
  return nb::make_tuple(made, numpy(starts), numpy(wrong));
}

}  // namespace

NB_MODULE(_native, m) {
  nb::set_leak_warnings(false);  // compiled descriptions are kept until the interpreter ends
  bind_records(m);
  bind_examples(m);
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
  m.def(
      "random_words",
      [](uint64_t key, ConstIds ids, uint64_t first, Words out) {
        headrace::random_words(row_draws(key, ids, first, out), out.data());
      },
      "key"_a, "ids"_a, "first"_a, "out"_a.noconvert(), Released());
  m.def(
      "random_uniform",
      [](uint64_t key, ConstIds ids, uint64_t first, Doubles out) {
        headrace::random_uniform(row_draws(key, ids, first, out), out.data());
      },
      "key"_a, "ids"_a, "first"_a, "out"_a.noconvert(), Released());
  m.def(
      "random_normal",
      [](uint64_t key, ConstIds ids, uint64_t first, Doubles out) {
        headrace::random_normal(row_draws(key, ids, first, out), out.data());
      },
      "key"_a, "ids"_a, "first"_a, "out"_a.noconvert(), Released());
  m.def(
      "random_integers",
      [](uint64_t key, ConstIds ids, uint64_t first, ConstWords low, ConstWords span, Words out) {
        const auto draws = row_draws(key, ids, first, out);
        const bool each = low.shape(0) != 1;
        require(low.shape(0) == span.shape(0) && (!each || low.shape(0) == out.size()), "bounds do not fit");
        headrace::random_integers(draws, low.data(), span.data(), each, out.data());
      },
      "key"_a, "ids"_a, "first"_a, "low"_a, "span"_a, "out"_a.noconvert(), Released());
  m.def(
      "random_permutation",
      [](uint64_t key, ConstIds ids, uint64_t first, Numbers out) {
        headrace::random_permutation(row_draws(key, ids, first, out), out.data());
      },
      "key"_a, "ids"_a, "first"_a, "out"_a.noconvert(), Released());
  m.def("die_with_parent", &headrace::die_with_parent);
  m.def("release_memory", &headrace::release_memory, Released());
}
