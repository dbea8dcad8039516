#define NPY_NO_DEPRECATED_API NPY_2_0_API_VERSION
#define NPY_TARGET_VERSION NPY_2_0_API_VERSION
#include <nanobind/stl/pair.h>
#include <numpy/arrayobject.h>

#include <algorithm>
#include <utility>

#include "kernels.h"
#include "python.h"
#include "text_pool.h"

namespace headrace::python {
namespace {

headrace::ShuffleLaw law(uint64_t key, int64_t capacity, int64_t total) {
  require(capacity > 0, "the buffer needs at least one slot");
  return {key, capacity, total};
}

// Steps first to first + count - 1, whose rows have valid numbers.
void require_steps(const headrace::ShuffleLaw& law, int64_t first, size_t count) {
  const int64_t last = law.total < 0 ? INT64_MAX - law.capacity : law.total;
  require(first >= 0 && first <= last && count <= size_t(last - first), "steps beyond the end");
}

// A draw of each step among the slots in use, whose number shrinks by `fewer` from one to the next.
void require_slots(const ConstInts& draws, int64_t slots, int64_t fewer) {
  for (size_t i = 0; i < draws.shape(0); ++i, slots -= fewer) {
    require(draws.data()[i] >= 0 && draws.data()[i] < slots, "draw of a slot that is not in use");
  }
}

// How many slots are in use before step `first`: as many as rows are left once none come in, all before. At that step
// the slot emptied last may or may not have been closed.
bool fits_step(const headrace::ShuffleLaw& law, int64_t first, int64_t used) {
  const int64_t tail = headrace::tail_start(law);
  if (first < tail || (first == tail && tail > 0 && used == law.capacity)) return used == law.capacity;
  return used == law.total - first;
}

// Columns of `rows` rows that take `row_bytes` together, kept alive by the caller.
template <typename Byte>
std::vector<headrace::ColumnBytes<Byte>> columns_of(nb::list arrays, size_t rows, size_t row_bytes) {
  std::vector<headrace::ColumnBytes<Byte>> made;
  made.reserve(arrays.size());
  for (nb::handle item : arrays) {
    require(PyArray_Check(item.ptr()), "no array");
    PyArrayObject* const array = reinterpret_cast<PyArrayObject*>(item.ptr());
    require(PyArray_NDIM(array) >= 1 && size_t(PyArray_DIM(array, 0)) == rows, "different numbers of rows");
    require(PyArray_IS_C_CONTIGUOUS(array), "a column is not in C order");
    require(std::is_const_v<Byte> || PyArray_ISWRITEABLE(array), "a column cannot be written to");
    require(!PyDataType_REFCHK(PyArray_DESCR(array)), "objects cannot be copied as bytes");
    const size_t bytes = rows ? size_t(PyArray_NBYTES(array)) / rows : 0;
    require(bytes <= row_bytes, "rows of different sizes");
    made.push_back({static_cast<Byte*>(PyArray_DATA(array)), bytes, int64_t(rows)});
    if (rows) row_bytes -= bytes;
  }
  require(!made.empty() && (row_bytes == 0 || rows == 0), "rows of different sizes");
  return made;
}

headrace::MixLaw mix_law(uint64_t key, const ConstInts& shares) {
  require(shares.shape(0) > 0, "no branches");
  for (size_t i = 0; i < shares.shape(0); ++i) {
    require(shares.data()[i] >= 0 && shares.data()[i] <= int64_t(1) << 30, "share out of range");
  }
  return {key, shares.data(), int64_t(shares.shape(0))};
}

constexpr int64_t kMostMixed = int64_t(1) << 62;

nb::object keep_texts(headrace::TextPool& pool, ConstBytes values, ConstInts offsets) {
  require_offsets(offsets, values.shape(0));
  const int64_t count = int64_t(offsets.shape(0)) - 1;
  headrace::Growing<int64_t> places;
  {
    const ReleasedFor released(values.shape(0));
    pool.keep(values.data(), offsets.data(), count, places.extend(size_t(count)));
  }
  return numpy(places);
}

nb::tuple read_texts(headrace::TextPool& pool, ConstInts places, bool drop) {
  const int64_t count = int64_t(places.shape(0));
  for (int64_t i = 0; drop && i < count; ++i) require(pool.holds(places.data()[i]), "the slot holds no text");
  headrace::Growing<uint8_t> values;
  headrace::Growing<int64_t> offsets;
  {
    nb::gil_scoped_release released;
    pool.read(places.data(), count, values, offsets);
    if (drop) pool.drop(places.data(), count);
  }
  return nb::make_tuple(numpy(values), numpy(offsets));
}

}  // namespace

void bind_shuffle(nb::module_& m) {
  if (_import_array() < 0) throw nb::python_error();
  nb::class_<headrace::TextPool>(m, "TextPool")
      .def(nb::init<>())
      .def("keep", &keep_texts, "values"_a, "offsets"_a)
      .def("read", [](headrace::TextPool& pool, ConstInts places) { return read_texts(pool, places, false); }, "places"_a)
      .def("give", [](headrace::TextPool& pool, ConstInts places) { return read_texts(pool, places, true); }, "places"_a);
  m.def(
      "shuffle_draws",
      [](uint64_t key, int64_t capacity, int64_t total, int64_t first, Ints out) {
        const auto rule = law(key, capacity, total);
        require_steps(rule, first, out.shape(0));
        const ReleasedFor released(out.shape(0) * kDraw);
        headrace::shuffle_draws(rule, first, int64_t(out.shape(0)), out.data());
      },
      "key"_a, "capacity"_a, "total"_a, "first"_a, "out"_a.noconvert());
  m.def(
      "shuffle_held",
      [](uint64_t key, int64_t capacity, int64_t total, int64_t t, Ints out) {
        const auto rule = law(key, capacity, total);
        require(int64_t(out.shape(0)) >= headrace::slots_needed(rule), "out is shorter than the buffer");
        require_steps(rule, t, 0);
        return headrace::shuffle_held(rule, t, out.data());
      },
      "key"_a, "capacity"_a, "total"_a, "t"_a, "out"_a.noconvert(), Released());
  m.def(
      "shuffle_rows_at",
      [](uint64_t key, int64_t capacity, int64_t total, ConstInts steps, Ints out) {
        require(steps.shape(0) == out.shape(0), "steps and out differ in length");
        const auto rule = law(key, capacity, total);
        for (size_t i = 0; i < steps.shape(0); ++i) require_steps(rule, steps.data()[i], 1);
        headrace::shuffle_rows_at(rule, steps.data(), int64_t(steps.shape(0)), out.data());
      },
      "key"_a, "capacity"_a, "total"_a, "steps"_a, "out"_a.noconvert(), Released());
  m.def(
      "shuffle_run",
      [](uint64_t key, int64_t capacity, int64_t total, int64_t first, Ints slots, int64_t hole, int64_t used, Ints out) {
        const auto rule = law(key, capacity, total);
        const int64_t needed = headrace::slots_needed(rule);
        require_steps(rule, first, out.shape(0));
        require(int64_t(slots.shape(0)) >= needed, "slots are fewer than the buffer's");
        require(hole >= 0 && hole < std::max<int64_t>(needed, 1), "no such slot");
        require(fits_step(rule, first, used), "slots of another step");
        headrace::shuffle_run(rule, first, int64_t(out.shape(0)), slots.data(), &hole, &used, out.data());
        return std::make_pair(hole, used);
      },
      "key"_a, "capacity"_a, "total"_a, "first"_a, "slots"_a.noconvert(), "hole"_a, "used"_a, "out"_a.noconvert(),
      Released());
  m.def(
      "pack_columns",
      [](nb::list columns, Rows rows) {
        const auto packed = columns_of<const uint8_t>(columns, rows.shape(0), rows.shape(1));
        const ReleasedFor released(rows.size());
        headrace::pack_columns(packed, 0, int64_t(rows.shape(0)), rows.shape(1), rows.data());
      },
      "columns"_a, "rows"_a.noconvert());
  m.def(
      "unpack_columns",
      [](ConstRows rows, nb::list columns) {
        const auto unpacked = columns_of<uint8_t>(columns, rows.shape(0), rows.shape(1));
        const ReleasedFor released(rows.size());
        headrace::unpack_columns(rows.data(), rows.shape(1), 0, int64_t(rows.shape(0)), unpacked);
      },
      "rows"_a, "columns"_a);
  m.def(
      "gather_columns",
      [](ConstRows rows, ConstInts numbers, nb::list columns) {
        const auto gathered = columns_of<uint8_t>(columns, numbers.shape(0), rows.shape(1));
        for (size_t i = 0; i < numbers.shape(0); ++i) {
          require(numbers.data()[i] >= 0 && size_t(numbers.data()[i]) < rows.shape(0), "no such row");
        }
        const ReleasedFor released(numbers.shape(0) * rows.shape(1));
        headrace::gather_columns(rows.data(), rows.shape(1), numbers.data(), int64_t(numbers.shape(0)), gathered);
      },
      "rows"_a, "numbers"_a, "columns"_a);
  m.def(
      "shuffle_exchange",
      [](Rows slots, int64_t hole, nb::list incoming, ConstInts draws, nb::list out) {
        const size_t bytes = slots.shape(1), count = draws.shape(0);
        const auto from = columns_of<const uint8_t>(incoming, count, bytes);
        const auto to = columns_of<uint8_t>(out, count, bytes);
        const auto alike = [](const auto& a, const auto& b) { return a.bytes == b.bytes; };
        require(std::equal(from.begin(), from.end(), to.begin(), to.end(), alike), "columns of different sizes");
        require(hole >= 0 && size_t(hole) < slots.shape(0), "no such slot");
        require_slots(draws, int64_t(slots.shape(0)), 0);
        const ReleasedFor released(count * bytes);
        return headrace::shuffle_exchange(slots.data(), bytes, hole, from, draws.data(), int64_t(count), to);
      },
      "slots"_a.noconvert(), "hole"_a, "incoming"_a, "draws"_a, "out"_a);
  m.def(
      "shuffle_drain",
      [](Rows slots, int64_t used, ConstInts draws, nb::list out) {
        const size_t bytes = slots.shape(1), count = draws.shape(0);
        const auto to = columns_of<uint8_t>(out, count, bytes);
        require(used <= int64_t(slots.shape(0)) && int64_t(count) <= used, "more draws than rows");
        require_slots(draws, used, 1);
        const ReleasedFor released(count * bytes);
        headrace::shuffle_drain(slots.data(), bytes, used, draws.data(), int64_t(count), to);
      },
      "slots"_a.noconvert(), "used"_a, "draws"_a, "out"_a);
  m.def(
      "permute",
      [](uint64_t key, int64_t size, ConstInts indices, Ints out) {
        require(indices.shape(0) == out.shape(0), "indices and out differ in length");
        require(size >= 0, "size out of range");
        for (size_t i = 0; i < indices.shape(0); ++i) {
          require(indices.data()[i] >= 0 && indices.data()[i] < size, "index out of range");
        }
        headrace::permute(key, size, indices.data(), int64_t(indices.shape(0)), out.data());
      },
      "key"_a, "size"_a, "indices"_a, "out"_a.noconvert(), Released());
  m.def(
      "mix_rows",
      [](uint64_t key, ConstInts shares, ConstInts indices, Ints branches, Ints rows) {
        require(indices.shape(0) == branches.shape(0) && indices.shape(0) == rows.shape(0), "different numbers of rows");
        for (size_t i = 0; i < indices.shape(0); ++i) {
          require(indices.data()[i] >= 0 && indices.data()[i] < kMostMixed, "index out of range");
        }
        headrace::mix_rows(mix_law(key, shares), indices.data(), int64_t(indices.shape(0)), branches.data(), rows.data());
      },
      "key"_a, "shares"_a, "indices"_a, "branches"_a.noconvert(), "rows"_a.noconvert(), Released());
  m.def(
      "mix_counts",
      [](uint64_t key, ConstInts shares, int64_t n, Ints counts) {
        require(n >= 0 && n < kMostMixed, "index out of range");
        require(counts.shape(0) == shares.shape(0), "as many counts as branches");
        headrace::mix_counts(mix_law(key, shares), n, counts.data());
      },
      "key"_a, "shares"_a, "n"_a, "counts"_a.noconvert(), Released());
}

}  // namespace headrace::python
