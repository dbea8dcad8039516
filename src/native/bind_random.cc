
#include "kernels.h"
#include "python.h"

namespace headrace::python {
namespace {

template <class Out>
headrace::RowDraws row_draws(uint64_t key, const ConstIds& ids, uint64_t first, const Out& out) {
  require(out.shape(0) == ids.shape(0), "out needs a line for each row");
  require(out.shape(1) <= UINT64_MAX - first, "draws beyond the end");
  return {key, ids.data(), int64_t(ids.shape(0)), first, int64_t(out.shape(1))};
}

template <class Draw>
void without_lock(const headrace::RowDraws& draws, Draw&& draw) {
  const ReleasedFor released(size_t(draws.rows * draws.count) * kDraw);
  draw(draws);
}

uint64_t scrambled(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

// Of an integer of any size, its last 64 bits.
uint64_t last_bits(nb::handle number) {
  const uint64_t bits = PyLong_AsUnsignedLongLongMask(number.ptr());
  if (bits == UINT64_MAX && PyErr_Occurred()) throw nb::python_error();
  return bits;
}

uint64_t mix_key(nb::handle start, nb::args values) {
  constexpr uint64_t kGolden = 0x9E3779B97F4A7C15u;
  uint64_t key = last_bits(start);
  for (nb::handle value : values) key = scrambled(scrambled(key + kGolden) + last_bits(value) * kGolden);
  return key;
}

}  // namespace

void bind_random(nb::module_& m) {
  m.def("mix_key", &mix_key, "key"_a, "values"_a);
  m.def(
      "random_words",
      [](uint64_t key, ConstIds ids, uint64_t first, Words out) {
        without_lock(row_draws(key, ids, first, out), [&](auto& draws) { headrace::random_words(draws, out.data()); });
      },
      "key"_a, "ids"_a, "first"_a, "out"_a.noconvert());
  m.def(
      "random_uniform",
      [](uint64_t key, ConstIds ids, uint64_t first, Doubles out) {
        without_lock(row_draws(key, ids, first, out), [&](auto& draws) { headrace::random_uniform(draws, out.data()); });
      },
      "key"_a, "ids"_a, "first"_a, "out"_a.noconvert());
  m.def(
      "random_normal",
      [](uint64_t key, ConstIds ids, uint64_t first, Doubles out) {
        without_lock(row_draws(key, ids, first, out), [&](auto& draws) { headrace::random_normal(draws, out.data()); });
      },
      "key"_a, "ids"_a, "first"_a, "out"_a.noconvert());
  m.def(
      "random_integers",
      [](uint64_t key, ConstIds ids, uint64_t first, ConstWords low, ConstWords span, Words out) {
        const bool each = low.shape(0) != 1;
        require(low.shape(0) == span.shape(0) && (!each || low.shape(0) == out.size()), "bounds do not fit");
        without_lock(row_draws(key, ids, first, out), [&](auto& draws) {
          headrace::random_integers(draws, low.data(), span.data(), each, out.data());
        });
      },
      "key"_a, "ids"_a, "first"_a, "low"_a, "span"_a, "out"_a.noconvert());
  m.def(
      "random_permutation",
      [](uint64_t key, ConstIds ids, uint64_t first, Numbers out) {
        without_lock(row_draws(key, ids, first, out), [&](auto& draws) { headrace::random_permutation(draws, out.data()); });
      },
      "key"_a, "ids"_a, "first"_a, "out"_a.noconvert());
}

}  // namespace headrace::python
