#include <algorithm>
#include <atomic>
#include <new>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "example.h"
#include "limited.h"
#include "operations.h"
#include "places.h"
#include "python.h"
#include "team.h"

namespace headrace::python {
namespace {

constexpr size_t kSomeBytes = 256 << 10;

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

// (ints, floats, [(values, byte_ends, splits, steps), …], -1, ""), or which row was rejected and why. Single numbers
// are in the first two, column after column; the list has the others.
nb::tuple as_tuple(const headrace::ExampleParser& parser, headrace::Columns& made, const headrace::Refusal& refusal) {
  nb::list others;
  for (size_t i = 0; refusal.row < 0 && i < made.columns.size(); ++i) {
    headrace::Column& column = made.columns[i];
    const headrace::Request& request = parser.requests()[i];
    if (request.single_number()) continue;
    const nb::object ends = request.kind == headrace::Kind::kBytes ? numpy(column.byte_ends) : nb::none();
    const nb::object splits = request.size < 0 ? numpy(column.splits) : nb::none();
    const nb::object steps = request.in_steps ? numpy(column.steps) : nb::none();
    others.append(nb::make_tuple(values_of(column, request.kind), ends, splits, steps));
  }
  const nb::bytes what(refusal.what.data(), refusal.what.size());  // names need not be text
  return nb::make_tuple(numpy(made.ints), numpy(made.floats), others, refusal.row, what);
}

nb::tuple parse(const headrace::ExampleParser& parser, ConstBytes values, ConstInts offsets) {
  headrace::Refusal refusal;
  headrace::Columns made;
  {
    nb::gil_scoped_release released;
    require_offsets(offsets, values.shape(0));
    made = parser.parse(values.data(), offsets.data(), int64_t(offsets.shape(0)) - 1, refusal);
  }
  return as_tuple(parser, made, refusal);
}

// Parse records at these offsets; None if one of them is bad. Records are copied in pieces, verified and parsed while
// they are in the cache.
nb::object parse_places(const headrace::ExampleParser& parser, nb::list files, ConstWhere where) {
  const Places places(files, where);
  headrace::Refusal refusal;
  headrace::Columns made;
  bool good = true;
  {
    nb::gil_scoped_release released;
    headrace::guard_mapped();
    made = parser.begin(size_t(places.count()));
    made.record_bytes = places.bytes();
    headrace::Growing<uint8_t> values;
    headrace::Growing<int64_t> offsets;
    for (int64_t first = 0, rows; good && refusal.row < 0 && first < places.count(); first += rows) {
      rows = places.some(first, kSomeBytes);
      values.shrink(0), offsets.shrink(0);
      good = places.copy(first, first + rows, values, offsets);
      if (good) parser.parse_some(values.data(), offsets.data(), rows, first, made, refusal);
    }
  }
  return good && places.intact() ? nb::object(as_tuple(parser, made, refusal)) : nb::none();
}

// A text of a fixed number of bytes in each record, to be converted to floats.
struct ScaledText {
  size_t request, length;
  headrace::Scaling scaling;
  float* out;

  // Copy the texts of some rows to the rows from `first` on; false if one has another length.
  bool put(int64_t first, int64_t rows, headrace::Column& column) const {
    for (size_t row = 0; row < size_t(rows); ++row) {
      if (size_t(column.byte_ends[row + 1]) != (row + 1) * length) return false;
      scaling(column.texts[row], int64_t(length), out + (size_t(first) + row) * length);
    }
    return true;
  }
};

// Like parse_places, if numbers and one text are requested, whose bytes become floats while they are in the cache:
// (ints, floats), or None if a record is bad, is rejected, or has a text of another length.
nb::object parse_scaled(const headrace::ExampleParser& parser, nb::list files, ConstWhere where, int64_t request,
                        ConstInts what, ConstFloats numbers, Floats out) {
  const Places places(files, where);
  for (size_t i = 0; i < parser.requests().size(); ++i) {
    const headrace::Request& each = parser.requests()[i];
    require(int64_t(i) == request ? each.single_text() : each.single_number(), "numbers, and one text");
  }
  require(request >= 0 && size_t(request) < parser.requests().size(), "no such request");
  require(int64_t(out.shape(0)) == places.count(), "out does not fit");
  const ScaledText text{size_t(request), out.shape(1), headrace::Scaling(operations_of(what, numbers)), out.data()};
  std::atomic<bool> good{true};
  headrace::Columns made;
  {
    nb::gil_scoped_release released;
    headrace::guard_mapped();
    made = parser.begin(size_t(places.count()));
    const int64_t grain = headrace::grain_of(places.count(), int64_t(places.bytes()));
    const auto parse = [&](int64_t first, int64_t rows) {
      headrace::Growing<uint8_t> values;
      headrace::Growing<int64_t> offsets;
      headrace::Columns part = parser.part_of(made, first, rows);
      headrace::Refusal refusal;
      return places.copy(first, first + rows, values, offsets) &&
             parser.parse_some(values.data(), offsets.data(), rows, 0, part, refusal) &&
             text.put(first, rows, part.columns[text.request]);
    };
    headrace::in_pieces(places.count(), grain, [&](int64_t begin, int64_t end) {
      for (int64_t first = begin, rows; good && first < end; first += rows) {
        rows = std::min(end - first, places.some(first, kSomeBytes));
        try {
          if (!parse(first, rows)) good = false;
        } catch (const std::bad_alloc&) {
          good = false;
        }
      }
    });
  }
  if (!good || !places.intact()) return nb::none();
  return nb::make_tuple(numpy(made.ints), numpy(made.floats));
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

// The values of one record for encode_examples: Python numbers and text, and arrays.
class Features {
 public:
  // False if the value is something else, and nothing was taken from it.
  bool add(std::string_view name, nb::handle value) {
    if (PyList_Check(value.ptr()) || PyTuple_Check(value.ptr())) {
      Items items(value.ptr());
      return add(name, items.data(), items.size());
    }
    PyObject* only = value.ptr();
    return add(name, &only, 1);
  }

  // An array of int64 or float32, or a list of text.
  void add_flat(std::string_view name, nb::handle value) {
    ConstInts ints;
    ConstFloats floats;
    if (PyList_Check(value.ptr())) {
      Items items(value.ptr());
      add_text(name, items.data(), items.size());
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
      const char* data = PyBytes_Check(items[i]) ? bytes_data(items[i]) : PyUnicode_AsUTF8AndSize(items[i], &size);
      if (!data) throw nb::python_error();
      bytes_.append(data, PyBytes_Check(items[i]) ? bytes_size(items[i]) : size_t(size));
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

// `flat` converts anything but numbers, text and lists of these into an array, or a list of text.
nb::bytes encode_example(nb::dict features, nb::callable flat) {
  Features made;
  for (auto [given_key, given_value] : features) {
    const nb::object key = nb::borrow(given_key), value = nb::borrow(given_value);  // `flat` may change the dict
    Py_ssize_t size;
    const char* name = PyUnicode_AsUTF8AndSize(key.ptr(), &size);
    if (!name) throw nb::python_error();
    const std::string_view text(name, size_t(size));
    const bool nothing = value.is_none() || ((PyList_Check(value.ptr()) || PyTuple_Check(value.ptr())) &&
                                             items_count(value.ptr()) == 0);
    if (nothing || made.add(text, value)) continue;
    made.add_flat(text, flat(key, value));
  }
  return made.encoded();
}

}  // namespace

void bind_examples(nb::module_& m) {
  nb::class_<headrace::ExampleParser>(m, "ExampleParser")
      .def(
          "__init__",
          [](headrace::ExampleParser* self, nb::list given, bool closed) {
            std::vector<headrace::Request> requests;
            for (nb::handle request : given) requests.push_back(request_of(nb::cast<nb::tuple>(request)));
            new (self) headrace::ExampleParser(std::move(requests), closed);
          },
          "requests"_a, "closed"_a = false)
      .def("parse", &parse, "values"_a, "offsets"_a)
      .def("parse_places", &parse_places, "files"_a, "where"_a)
      .def("parse_scaled", &parse_scaled, "files"_a, "where"_a, "request"_a, "what"_a, "numbers"_a, "out"_a.noconvert());
  m.def("encode_examples", &encode, "columns"_a, "rows"_a);
  m.def("encode_example", &encode_example, "features"_a, "flat"_a);
}

}  // namespace headrace::python
