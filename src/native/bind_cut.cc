#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>

#include "cut.h"
#include "python.h"
#include "tar.h"

namespace headrace::python {
namespace {

struct Preferred {
  int64_t group = 1, before = 0;
};

Preferred preferred(const std::pair<int64_t, int64_t>& given) {
  const auto [group, before] = given;
  require(group >= 1 && before >= 0 && before <= INT64_MAX / 2, "a size of groups and a number of rows are wanted");
  return {group, before};
}

template <typename Cut>
nb::tuple cut(const ConstBytes& data, int64_t start, int64_t target, bool portable, Preferred rows, Cut run) {
  require(start >= 0 && size_t(start) <= data.shape(0), "start is beyond the bytes");
  require(target >= 1 && target <= INT64_MAX / 2, "target must be positive");
  headrace::CutPoints points;
  {
    nb::gil_scoped_release released;
    run(headrace::CutInput{data.data(), data.shape(0), size_t(start), target, 0, 0, rows.group, rows.before, portable},
        points);
  }
  return nb::make_tuple(numpy(points.offsets), numpy(points.rows), numpy(points.lines));
}

nb::tuple cut_csv(ConstBytes data, int64_t start, int64_t target, nb::bytes delimiter, nb::bytes quote, int64_t rows,
                  int64_t lines, bool portable, std::pair<int64_t, int64_t> prefer) {
  require(delimiter.size() == 1 && quote.size() <= 1, "delimiter and quote are single bytes");
  const uint8_t between = uint8_t(delimiter.c_str()[0]);
  const int quotes = quote.size() ? uint8_t(quote.c_str()[0]) : -1;
  require(between != quotes && between != '\n' && between != '\r', "the delimiter is no quote and no line end");
  return cut(data, start, target, portable, preferred(prefer), [&](headrace::CutInput input, headrace::CutPoints& out) {
    input.rows = rows;
    input.lines = lines;
    headrace::cut_csv(input, between, quotes, out);
  });
}

nb::tuple tar_samples(ConstBytes data, nb::list fields, int64_t most, bool final, bool cut) {
  require(most >= 0, "limits must not be negative");
  headrace::TarInput input{data.data(), data.shape(0), most, final, cut, {}};
  for (nb::handle field : fields) {
    const nb::bytes name = nb::cast<nb::bytes>(field);
    input.fields.emplace_back(name.c_str(), name.size());
  }
  headrace::TarSamples made;
  {
    nb::gil_scoped_release released;
    headrace::tar_samples(input, made);
  }
  return nb::make_tuple(numpy(made.begins), numpy(made.ends), numpy(made.keys), numpy(made.key_offsets),
                        numpy(made.contents), int(made.end), made.stopped);
}

}  // namespace

void bind_cut(nb::module_& m) {
  const auto any_row = std::make_pair(int64_t(1), int64_t(0));
  m.def(
      "cut_text",
      [](ConstBytes data, int64_t start, int64_t target, bool portable, std::pair<int64_t, int64_t> prefer) {
        return cut(data, start, target, portable, preferred(prefer), headrace::cut_text);
      },
      "data"_a, "start"_a, "target"_a, "portable"_a = false, "prefer"_a = any_row);
  m.def(
      "cut_json_lines",
      [](ConstBytes data, int64_t start, int64_t target, bool portable, std::pair<int64_t, int64_t> prefer) {
        return cut(data, start, target, portable, preferred(prefer), headrace::cut_json_lines);
      },
      "data"_a, "start"_a, "target"_a, "portable"_a = false, "prefer"_a = any_row);
  m.def("cut_csv", &cut_csv, "data"_a, "start"_a, "target"_a, "delimiter"_a, "quote"_a, "rows"_a, "lines"_a,
        "portable"_a = false, "prefer"_a = any_row);
  m.def("tar_samples", &tar_samples, "data"_a, "fields"_a, "most"_a, "final"_a, "cut"_a);
}

}  // namespace headrace::python
