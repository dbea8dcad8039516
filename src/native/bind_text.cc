#include <nanobind/stl/tuple.h>

#include "kernels.h"
#include "python.h"

namespace headrace::python {
namespace {

using Arrays = std::tuple<ConstBytes, ConstInts, ConstInts>;

nb::object whole(headrace::Growing<uint8_t>& values, headrace::Growing<int64_t>& offsets) {
  return nb::make_tuple(numpy(values), numpy(offsets));
}

nb::object text_join(nb::list given) {
  std::vector<Arrays> arrays;
  for (nb::handle part : given) arrays.push_back(nb::cast<Arrays>(part));
  headrace::Growing<uint8_t> values;
  headrace::Growing<int64_t> offsets;
  {
    nb::gil_scoped_release released;
    std::vector<headrace::Spans> parts;
    size_t rows = 0;
    for (const auto& [data, starts, stops] : arrays) {
      parts.push_back(spans_of(data, starts, stops));
      rows += starts.shape(0);
    }
    headrace::text_join(parts.data(), parts.size(), values, offsets.extend(rows + 1));
  }
  return whole(values, offsets);
}

nb::object text_gather(ConstBytes data, ConstInts starts, ConstInts stops) {
  headrace::Growing<uint8_t> values;
  headrace::Growing<int64_t> offsets;
  {
    nb::gil_scoped_release released;
    const headrace::Spans spans = spans_of(data, starts, stops);
    headrace::text_join(&spans, 1, values, offsets.extend(starts.shape(0) + 1));
  }
  return whole(values, offsets);
}

nb::object text_pick(nb::list given, ConstInts which, ConstInts rows) {
  require(which.shape(0) == rows.shape(0), "different numbers of rows");
  std::vector<Arrays> arrays;
  for (nb::handle part : given) arrays.push_back(nb::cast<Arrays>(part));
  headrace::Growing<uint8_t> values;
  headrace::Growing<int64_t> offsets;
  {
    nb::gil_scoped_release released;
    std::vector<headrace::Spans> parts;
    for (const auto& [data, starts, stops] : arrays) parts.push_back(spans_of(data, starts, stops));
    for (size_t i = 0; i < which.shape(0); ++i) {
      const int64_t part = which.data()[i], row = rows.data()[i];
      require(part >= 0 && size_t(part) < parts.size(), "no such part");
      require(row >= 0 && row < parts[size_t(part)].rows, "index out of range");
    }
    headrace::text_pick(parts.data(), which.data(), rows.data(), int64_t(which.shape(0)), values,
                        offsets.extend(which.shape(0) + 1));
  }
  return whole(values, offsets);
}

// The bytes of all rows and where each begins; None if one of them is no bytes object.
nb::object join_bytes(nb::list rows) {
  size_t total = 0;
  for (nb::handle row : rows) {
    if (!PyBytes_CheckExact(row.ptr())) return nb::none();
    total += size_t(PyBytes_GET_SIZE(row.ptr()));
  }
  headrace::Growing<uint8_t> values;
  headrace::Growing<int64_t> offsets;
  uint8_t* out = values.extend(total);
  int64_t* at = offsets.extend(rows.size() + 1);
  *at = 0;
  for (nb::handle row : rows) {
    const size_t size = size_t(PyBytes_GET_SIZE(row.ptr()));
    if (size) std::memcpy(out + *at, PyBytes_AS_STRING(row.ptr()), size);
    at[1] = *at + int64_t(size);
    ++at;
  }
  return whole(values, offsets);
}

// Rows as an array of bytes or, of UTF-8, str objects.
nb::object text_objects(ConstBytes data, ConstInts starts, ConstInts stops, bool as_str) {
  const headrace::Spans spans = spans_of(data, starts, stops);
  Objects made;
  for (int64_t i = 0; i < spans.rows; ++i) {
    const uint8_t* row = spans.data + spans.starts[i];
    as_str ? made.add_text(row, size_t(spans.size(i))) : made.add_bytes(row, size_t(spans.size(i)));
  }
  return made.array();
}

}  // namespace

headrace::Spans spans_of(const ConstBytes& data, const ConstInts& starts, const ConstInts& stops) {
  require(starts.shape(0) == stops.shape(0), "as many starts as stops");
  const int64_t rows = int64_t(starts.shape(0)), size = int64_t(data.shape(0));
  for (int64_t i = 0; i < rows; ++i) {
    const int64_t start = starts.data()[i], stop = stops.data()[i];
    require(start >= 0 && start <= stop && stop <= size, "a row lies beyond the data");
  }
  return {data.data(), starts.data(), stops.data(), rows, size};
}

void bind_text(nb::module_& m) {
  m.def("join_bytes", &join_bytes, "rows"_a);
  m.def("text_join", &text_join, "parts"_a);
  m.def("text_gather", &text_gather, "data"_a, "starts"_a, "stops"_a);
  m.def("text_pick", &text_pick, "parts"_a, "which"_a, "rows"_a);
  m.def("text_objects", &text_objects, "data"_a, "starts"_a, "stops"_a, "as_str"_a);
}

}  // namespace headrace::python
