#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>

#include "kernels.h"
#include "limited.h"
#include "python.h"
#include "recent_text.h"
#include "team.h"

namespace headrace::python {

namespace {

nb::tuple text_pick(nb::list given, ConstInts which, ConstInts rows) {
  require(which.shape(0) == rows.shape(0), "different numbers of rows");
  std::vector<std::pair<ConstBytes, ConstInts>> arrays;
  for (nb::handle part : given) arrays.push_back(nb::cast<std::pair<ConstBytes, ConstInts>>(part));
  headrace::Growing<uint8_t> values;
  headrace::Growing<int64_t> offsets;
  {
    nb::gil_scoped_release released;
    std::vector<headrace::TextPart> parts;
    for (const auto& [bytes, cuts] : arrays) {
      require_offsets(cuts, bytes.shape(0));
      parts.push_back({bytes.data(), cuts.data()});
    }
    for (size_t i = 0; i < which.shape(0); ++i) {
      const int64_t part = which.data()[i], row = rows.data()[i];
      require(part >= 0 && size_t(part) < parts.size(), "no such part");
      require(row >= 0 && size_t(row) + 1 < arrays[size_t(part)].second.shape(0), "index out of range");
    }
    headrace::text_pick(parts.data(), which.data(), rows.data(), int64_t(which.shape(0)), values,
                        offsets.extend(which.shape(0) + 1));
  }
  return nb::make_tuple(numpy(values), numpy(offsets));
}

// Rows as an array of bytes objects, or of strings.
nb::object text_objects(ConstBytes values, ConstInts offsets, bool text) {
  require_offsets(offsets, values.shape(0));
  const int64_t* cuts = offsets.data();
  const size_t rows = offsets.shape(0) - 1;
  bool ascii = text;
  if (text) {
    nb::gil_scoped_release released;
    uint8_t any = 0;
    for (int64_t i = cuts[0]; i < cuts[rows]; ++i) any |= values.data()[i];
    ascii = any < 0x80;
  }
  nb::object array = object_array(rows);
  const Buffer places(array, PyBUF_WRITABLE);
  PyObject** const out = static_cast<PyObject**>(places.memory());
  RecentText* const recent = ascii && RecentText::shared().is_worthwhile() ? &RecentText::shared() : nullptr;
  size_t found = 0;
  for (size_t row = 0; row < rows; ++row) {
    const uint8_t* const data = values.data() + cuts[row];
    const size_t size = size_t(cuts[row + 1] - cuts[row]);
    const char* const letters = reinterpret_cast<const char*>(data);
    PyObject* const made = recent  ? recent->get(data, size, found)
                           : ascii ? ascii_text(data, size)
                           : text  ? PyUnicode_DecodeUTF8(letters, Py_ssize_t(size), nullptr)
                                   : PyBytes_FromStringAndSize(letters, Py_ssize_t(size));
    if (!made) throw nb::python_error();
    Py_XDECREF(std::exchange(out[row], made));
  }
  if (recent) recent->note(rows, found);
  return array;
}

nb::object bytes_pick(nb::list given, ConstInts which, ConstInts bounds) {
  const Ranges ranges(given, which, bounds);
  headrace::Growing<uint8_t> out;
  {
    nb::gil_scoped_release released;
    headrace::bytes_pick(ranges.parts(), ranges.which(), ranges.bounds(), ranges.count(), out.extend(ranges.bytes()));
  }
  return numpy(out);
}

constexpr size_t kShortCopyBytes = size_t(1) << 20;  // copying fewer takes less time than releasing the GIL may cost

// The bytes of all rows and the offset of each; None if one of them is not a bytes object. No other code may have `rows`.
nb::object join_bytes(nb::list rows) {
  const int64_t count = int64_t(rows.size());
  headrace::Growing<int64_t> offsets;
  int64_t* const at = offsets.extend(size_t(count) + 1);
  std::vector<const char*> found(static_cast<size_t>(count));
  at[0] = 0;
  int64_t next = 0;
  for (nb::handle row : rows) {
    if (!PyBytes_CheckExact(row.ptr())) return nb::none();
    found[size_t(next)] = bytes_data(row.ptr());
    at[next + 1] = at[next] + int64_t(bytes_size(row.ptr()));
    ++next;
  }
  const size_t total = size_t(at[count]);
  headrace::Growing<uint8_t> values;
  uint8_t* const out = values.extend(total);
  const auto copy = [&found, at, out](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      if (at[i + 1] > at[i]) std::memcpy(out + at[i], found[size_t(i)], size_t(at[i + 1] - at[i]));
    }
  };
  if (total < kShortCopyBytes) {
    copy(0, count);
  } else {
    const nb::gil_scoped_release released;
    headrace::in_pieces(count, headrace::grain_of(count, int64_t(total)), copy);
  }
  return nb::make_tuple(numpy(values), numpy(offsets));
}

}  // namespace

void bind_ragged(nb::module_& m) {
  m.def("join_bytes", &join_bytes, "rows"_a);
  m.def(
      "common_length",  // of all rows, -1 if they differ: too little work to release the GIL
      [](ConstInts offsets) {
        const size_t rows = offsets.shape(0) ? offsets.shape(0) - 1 : 0;
        const int64_t* cuts = offsets.data();
        const int64_t length = rows ? cuts[1] - cuts[0] : 0;
        for (size_t i = 1; i < rows; ++i) {
          if (cuts[i + 1] - cuts[i] != length) return int64_t(-1);
        }
        return length;
      },
      "offsets"_a);
  m.def("text_objects", &text_objects, "values"_a, "offsets"_a, "text"_a);
  m.def("text_pick", &text_pick, "parts"_a, "which"_a, "rows"_a);
  m.def("bytes_pick", &bytes_pick, "parts"_a, "which"_a, "bounds"_a);
  m.def(
      "ragged_take",
      [](const ConstRows& values, const ConstInts& offsets, const ConstInts& indices, const Rows& out) {
        const ReleasedFor released(out.size());
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
      "values"_a, "offsets"_a, "indices"_a, "out"_a.noconvert());
  m.def(
      "ragged_pad",
      [](const ConstRows& values, const ConstInts& offsets, const ConstInts& lengths, std::optional<ConstRows> filler,
         const Rows& out) {
        const ReleasedFor released(out.size());
        require_offsets(offsets, values.shape(0));
        const int64_t rows = int64_t(offsets.shape(0)) - 1, groups = int64_t(lengths.shape(0));
        require(groups > 0 && rows % groups == 0, "groups of different sizes");
        const int64_t size = rows / groups;
        size_t cells = 0;
        for (int64_t i = 0; i < rows; ++i) {
          const int64_t length = lengths.data()[i / size];
          require(offsets.data()[i + 1] - offsets.data()[i] <= length, "a row is longer than the padding");
          require(cells <= out.shape(0) && size_t(length) <= out.shape(0) - cells, "out does not fit");
          cells += size_t(length);
        }
        require(out.shape(0) == cells && out.shape(1) == values.shape(1), "out does not fit");
        require(!filler || (filler->shape(0) == 1 && filler->shape(1) == values.shape(1)), "filler does not fit");
        headrace::ragged_pad(values.data(), values.shape(1), offsets.data(), groups, size, lengths.data(),
                             filler ? filler->data() : nullptr, out.data());
      },
      "values"_a, "offsets"_a, "lengths"_a, "filler"_a.none(), "out"_a.noconvert());
}

}  // namespace headrace::python
