#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include <deque>
#include <utility>
#include <vector>

#include "id_program.h"
#include "kernels.h"
#include "python.h"

namespace headrace::python {
namespace {

using Hashes = nb::ndarray<uint64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Matrix = nb::ndarray<float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using ConstMatrix = nb::ndarray<const float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

// No salt, or two words.
const uint64_t* salt_words(const ConstWords& salt) {
  require(salt.shape(0) == 0 || salt.shape(0) == 2, "a salt has two words");
  return salt.shape(0) ? salt.data() : nullptr;
}

void require_rows(const ConstInts& offsets, size_t rows) { require(offsets.shape(0) == rows + 1, "out does not fit"); }

void require_rising(const ConstFloats& bounds) {
  for (size_t i = 1; i < bounds.shape(0); ++i) require(bounds.data()[i - 1] <= bounds.data()[i], "bounds must rise");
}

// Weights are one for each id, or none at all.
const float* checked_weights(const ConstFloats& weights, const ConstInts& ids) {
  require(weights.shape(0) == 0 || weights.shape(0) == ids.shape(0), "one weight for each id");
  return weights.shape(0) ? weights.data() : nullptr;
}

// The offset of a part of `width` columns in the rows of a matrix.
float* columns_of(const Matrix& out, int64_t first, int64_t width) {
  require(first >= 0 && width >= 0 && first <= int64_t(out.shape(1)) && width <= int64_t(out.shape(1)) - first,
          "columns beyond the matrix");
  return out.data() + first;
}

nb::tuple cross_product(nb::list given, uint64_t key, uint64_t buckets) {
  require(given.size() > 0, "at least one part");
  require(buckets > 0, "buckets must be positive");
  std::vector<std::pair<ConstWords, ConstInts>> arrays;
  for (nb::handle part : given) arrays.push_back(nb::cast<std::pair<ConstWords, ConstInts>>(part));
  headrace::Growing<int64_t> values, offsets;
  {
    nb::gil_scoped_release released;
    std::vector<headrace::CrossPart> parts;
    for (const auto& [hashes, cuts] : arrays) {
      require_offsets(cuts, hashes.shape(0));
      require(cuts.shape(0) == arrays[0].second.shape(0), "different numbers of rows");
      parts.push_back({hashes.data(), cuts.data()});
    }
    const size_t rows = arrays[0].second.shape(0) - 1;
    headrace::cross_product(parts, int64_t(rows), key, buckets, values, offsets.extend(rows + 1));
  }
  return nb::make_tuple(numpy(values), numpy(offsets));
}

uint64_t checked_buckets(uint64_t buckets) {
  require(buckets > 0 && buckets <= uint64_t(INT64_MAX), "buckets must be positive");
  return buckets;
}

// (bytes, offsets, which of these is the first row's): memory of any kind, as Arrow has it.
class TextArgument {
 public:
  explicit TextArgument(nb::tuple given)
      : values_(given[0]), offsets_(given[1]), first_(nb::cast<int64_t>(given[2])) {
    require(reinterpret_cast<uintptr_t>(offsets_.data()) % alignof(int64_t) == 0, "offsets must be aligned");
  }

  headrace::Text rows(size_t count) const {
    const size_t there = offsets_.size() / sizeof(int64_t);
    require(first_ >= 0 && size_t(first_) <= there && there - size_t(first_) > count, "out does not fit");
    const int64_t* const offsets = reinterpret_cast<const int64_t*>(offsets_.data()) + first_;
    require(offsets[0] >= 0, "offsets");
    for (size_t i = 0; i < count; ++i) require(offsets[i + 1] >= offsets[i], "offsets");
    require(size_t(offsets[count]) <= values_.size(), "offsets beyond the values");
    return {values_.data(), offsets};
  }

 private:
  Buffer values_, offsets_;
  int64_t first_;
};

void run_ids(const headrace::IdProgram& program, nb::list given_texts, nb::list given_features, Numbers out) {
  const size_t rows = out.shape(1);
  require(out.shape(0) == program.columns(), "out does not fit");
  require(given_texts.size() >= program.texts() && given_features.size() >= program.features(), "features are missing");
  std::deque<TextArgument> arguments;  // which do not move
  std::vector<ConstFloats> floats;
  for (nb::handle text : given_texts) arguments.emplace_back(nb::cast<nb::tuple>(text));
  for (nb::handle feature : given_features) floats.push_back(nb::cast<ConstFloats>(feature, false));
  nb::gil_scoped_release released;
  std::vector<headrace::Text> texts;
  for (const TextArgument& argument : arguments) texts.push_back(argument.rows(rows));
  std::vector<const float*> features;
  for (const ConstFloats& feature : floats) {
    require(feature.shape(0) == rows, "different numbers of rows");
    features.push_back(feature.data());
  }
  program.run(texts, features, int64_t(rows), out.data());
}

}  // namespace

void bind_features(nb::module_& m) {
  m.def(
      "hash_text",
      [](ConstBytes values, ConstInts offsets, ConstWords salt, Hashes out) {
        require_offsets(offsets, values.shape(0));
        require_rows(offsets, out.shape(0));
        headrace::hash_text(values.data(), offsets.data(), int64_t(out.shape(0)), salt_words(salt), out.data());
      },
      "values"_a, "offsets"_a, "salt"_a, "out"_a.noconvert(), Released());
  m.def(
      "hash_numbers",
      [](ConstInts numbers, ConstWords salt, Hashes out) {
        require(numbers.shape(0) == out.shape(0), "out does not fit");
        headrace::hash_numbers(numbers.data(), int64_t(out.shape(0)), salt_words(salt), out.data());
      },
      "numbers"_a, "salt"_a, "out"_a.noconvert(), Released());
  m.def(
      "hash_buckets",
      [](ConstWords hashes, uint64_t buckets, int64_t first, Ints out) {
        require(hashes.shape(0) == out.shape(0), "out does not fit");
        require(buckets > 0 && buckets <= uint64_t(INT64_MAX) && first >= 0 && first <= INT64_MAX - int64_t(buckets),
                "buckets must be positive");
        headrace::hash_buckets(hashes.data(), int64_t(out.shape(0)), buckets, first, out.data());
      },
      "hashes"_a, "buckets"_a, "first"_a, "out"_a.noconvert(), Released());
  m.def(
      "cross_rows",
      [](Hashes made, ConstWords hashes) {
        require(made.shape(0) == hashes.shape(0), "different numbers of rows");
        headrace::cross_rows(made.data(), hashes.data(), int64_t(made.shape(0)));
      },
      "made"_a.noconvert(), "hashes"_a, Released());
  m.def("cross_product", &cross_product, "parts"_a, "key"_a, "buckets"_a);
  nb::class_<headrace::TextTable>(m, "TextTable")
      .def(
          "__init__",
          [](headrace::TextTable* made, ConstBytes values, ConstInts offsets) {
            require_offsets(offsets, values.shape(0));
            new (made) headrace::TextTable(values.data(), offsets.data(), int64_t(offsets.shape(0)) - 1);
          },
          "values"_a, "offsets"_a)
      .def(
          "find",
          [](const headrace::TextTable& table, ConstBytes values, ConstInts offsets, ConstWords hashes, Ints out) {
            require_offsets(offsets, values.shape(0));
            require_rows(offsets, out.shape(0));
            require(hashes.shape(0) == out.shape(0), "one hash for each row");
            table.find(values.data(), offsets.data(), int64_t(out.shape(0)), hashes.data(), out.data());
          },
          "values"_a, "offsets"_a, "hashes"_a, "out"_a.noconvert(), Released())
      .def(
          "ids",
          [](const headrace::TextTable& table, ConstBytes values, ConstInts offsets, int64_t start, int64_t unknown,
             uint64_t buckets, Ints out) {
            require_offsets(offsets, values.shape(0));
            require_rows(offsets, out.shape(0));
            require(buckets <= uint64_t(INT64_MAX), "too many buckets");
            table.ids(values.data(), offsets.data(), int64_t(out.shape(0)), start, unknown, buckets, out.data());
          },
          "values"_a, "offsets"_a, "start"_a, "unknown"_a, "buckets"_a, "out"_a.noconvert(), Released());
  nb::class_<headrace::TextCounter>(m, "TextCounter")
      .def(nb::init<>())
      .def("__len__", &headrace::TextCounter::size)
      .def(
          "add",
          [](headrace::TextCounter& counter, ConstBytes values, ConstInts offsets, ConstInts counts) {
            require_offsets(offsets, values.shape(0));
            const size_t rows = offsets.shape(0) - 1;
            require(counts.shape(0) == 0 || counts.shape(0) == rows, "one count for each row");
            counter.add(values.data(), offsets.data(), int64_t(rows), counts.shape(0) ? counts.data() : nullptr);
          },
          "values"_a, "offsets"_a, "counts"_a, Released())
      .def(
          "most_frequent",
          [](const headrace::TextCounter& counter, size_t limit, int64_t least) {
            headrace::Growing<uint8_t> values;
            headrace::Growing<int64_t> offsets, counts;
            offsets.push(0);
            const std::vector<int64_t> times = counter.counts();
            for (const int64_t row : counter.most_frequent(limit, least)) {
              const int64_t start = counter.offsets()[size_t(row)], stop = counter.offsets()[size_t(row) + 1];
              values.append(counter.values().data() + start, size_t(stop - start));
              offsets.push(int64_t(values.size()));
              counts.push(times[size_t(row)]);
            }
            return nb::make_tuple(numpy(values), numpy(offsets), numpy(counts));
          },
          "limit"_a, "least"_a)
      .def("arrays", [](const headrace::TextCounter& counter) {
        headrace::Growing<uint8_t> values;
        headrace::Growing<int64_t> offsets, counts;
        values.append(counter.values().data(), counter.values().size());
        offsets.append(counter.offsets().data(), counter.offsets().size());
        const std::vector<int64_t> times = counter.counts();
        counts.append(times.data(), times.size());
        return nb::make_tuple(numpy(values), numpy(offsets), numpy(counts));
      });
  m.def(
      "bucketize",
      [](ConstFloats values, ConstFloats bounds, Ints out) {
        require(values.shape(0) == out.shape(0), "out does not fit");
        require_rising(bounds);
        headrace::bucketize(values.data(), int64_t(out.shape(0)), bounds.data(), int64_t(bounds.shape(0)), out.data());
      },
      "values"_a, "bounds"_a, "out"_a.noconvert(), Released());
  nb::class_<headrace::IdProgram>(m, "IdProgram")
      .def(nb::init<>())
      .def(
          "add_buckets",
          [](headrace::IdProgram& program, size_t feature, ConstFloats bounds) {
            require_rising(bounds);
            program.add_buckets(feature, {bounds.data(), bounds.data() + bounds.shape(0)});
          },
          "feature"_a, "bounds"_a)
      .def(
          "add_hashed",
          [](headrace::IdProgram& program, size_t text, uint64_t buckets) {
            program.add_hashed(text, checked_buckets(buckets));
          },
          "text"_a, "buckets"_a)
      .def(
          "add_crossed",
          [](headrace::IdProgram& program, std::vector<size_t> texts, uint64_t key, uint64_t buckets) {
            program.add_crossed(std::move(texts), key, checked_buckets(buckets));
          },
          "texts"_a, "key"_a, "buckets"_a)
      .def("run", &run_ids, "texts"_a, "features"_a, "out"_a.noconvert());
  m.def(
      "add_counts",
      [](ConstInts ids, ConstInts offsets, ConstFloats weights, int64_t depth, Matrix out, int64_t first) {
        require_offsets(offsets, ids.shape(0));
        require_rows(offsets, out.shape(0));
        headrace::add_counts(ids.data(), offsets.data(), int64_t(out.shape(0)), checked_weights(weights, ids), depth,
                             columns_of(out, first, depth), int64_t(out.shape(1)));
      },
      "ids"_a, "offsets"_a, "weights"_a, "depth"_a, "out"_a.noconvert(), "first"_a, Released());
  m.def(
      "add_embeddings",
      [](ConstInts ids, ConstInts offsets, ConstFloats weights, ConstMatrix table, int combiner, Matrix out, int64_t first) {
        require_offsets(offsets, ids.shape(0));
        require_rows(offsets, out.shape(0));
        require(combiner >= 0 && combiner <= int(headrace::Combiner::kSqrtn), "combiner");
        const int64_t dimension = int64_t(table.shape(1));
        headrace::add_embeddings(ids.data(), offsets.data(), int64_t(out.shape(0)), checked_weights(weights, ids),
                                 table.data(), int64_t(table.shape(0)), dimension, headrace::Combiner(combiner),
                                 columns_of(out, first, dimension), int64_t(out.shape(1)));
      },
      "ids"_a, "offsets"_a, "weights"_a, "table"_a, "combiner"_a, "out"_a.noconvert(), "first"_a, Released());
}

}  // namespace headrace::python
