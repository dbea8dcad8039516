#include <nanobind/stl/pair.h>

#include <string>
#include <utility>
#include <vector>

#include "kernels.h"
#include "python.h"

namespace headrace::python {
namespace {

// A column for `parse_csv`: its kind, and the value of an empty field (None: must not be empty).
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
      const int64_t number = nb::cast<int64_t>(fallback);
      require(kind != int(headrace::CsvKind::kInt32) || number == int32_t(number), "a default beyond int32");
      defaults.back().number.integer = number;
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

// CSV records as columns (arrays, or values and offsets), the offset of each record, and errors: row, error and field,
// three numbers each. Records that could not be split into fields are not in the columns.
nb::tuple parse_csv(nb::handle source, nb::list columns, nb::list slots, bool exact, nb::bytes delimiter, nb::bytes quote,
                    nb::bytes na, int64_t max_rows, bool final) {
  const Buffer buffer(source);
  require(max_rows >= 0, "limits must not be negative");
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

void bind_csv(nb::module_& m) {
  m.def("parse_csv", &parse_csv, "buffer"_a, "columns"_a, "slots"_a, "exact"_a, "delimiter"_a, "quote"_a, "na"_a,
        "max_rows"_a, "final"_a);
}

}  // namespace headrace::python
