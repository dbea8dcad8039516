#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "kernels.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

using Ints = nb::ndarray<int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using ConstInts = nb::ndarray<const int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Rows = nb::ndarray<uint8_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using ConstRows = nb::ndarray<const uint8_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
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

}  // namespace

NB_MODULE(_native, m) {
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
