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

// The values of one column: of its kind's type, or text with offsets.
struct CsvValues {
  headrace::Growing<int32_t> int32;
  headrace::Growing<int64_t> int64;  // the offsets of text, too
  headrace::Growing<float> float32;
  headrace::Growing<double> float64;
  headrace::Growing<uint8_t> text;
};

void convert_column(const Buffer& buffer, const headrace::CsvLayout& layout, size_t column, const CsvDefault& fallback,
                    const headrace::CsvRecords& records, std::vector<headrace::CsvProblem>& problems, CsvValues& out) {
  const size_t rows = records.good.size();
  const auto numbers = [&](auto& values) {
    headrace::csv_convert(buffer.data(), layout, column, fallback.number, records, problems, values.extend(rows));
  };
  switch (layout.kinds[column]) {
    case headrace::CsvKind::kInt32: return numbers(out.int32);
    case headrace::CsvKind::kInt64: return numbers(out.int64);
    case headrace::CsvKind::kFloat32: return numbers(out.float32);
    case headrace::CsvKind::kFloat64: return numbers(out.float64);
    case headrace::CsvKind::kText: break;
  }
  out.text.extend(headrace::csv_text_bytes(layout, column, fallback.text, records));
  out.text.shrink(headrace::csv_text(buffer.data(), layout, column, fallback.text, records, problems,
                                     out.int64.extend(rows + 1), out.text.data()));
}

nb::object csv_column(headrace::CsvKind kind, CsvValues& values) {
  switch (kind) {
    case headrace::CsvKind::kInt32: return numpy(values.int32);
    case headrace::CsvKind::kInt64: return numpy(values.int64);
    case headrace::CsvKind::kFloat32: return numpy(values.float32);
    case headrace::CsvKind::kFloat64: return numpy(values.float64);
    case headrace::CsvKind::kText: break;
  }
  return nb::make_tuple(numpy(values.text), numpy(values.int64));
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
  std::vector<headrace::CsvProblem> problems;
  std::vector<CsvValues> columns_of_values(layout.columns);
  {
    nb::gil_scoped_release released;  // once for all columns: threads that release it for each wait for each other
    headrace::csv_split(buffer.data(), buffer.size(), 0, max_rows, final, layout, records);
    problems = records.problems;
    for (size_t column = 0; column < layout.columns; ++column) {
      convert_column(buffer, layout, column, defaults[column], records, problems, columns_of_values[column]);
    }
  }
  nb::list made;
  for (size_t column = 0; column < layout.columns; ++column) {
    made.append(csv_column(layout.kinds[column], columns_of_values[column]));
  }
  headrace::Growing<int64_t> starts, wrong;
  starts.append(records.starts.data(), records.starts.size());
  for (const auto& problem : problems) {
    for (const int64_t number : {problem.row, int64_t(problem.error), problem.field}) wrong.push(number);
  }
  return nb::make_tuple(made, numpy(starts), numpy(wrong));
}

// How many line ends there are: LF, CR, or CR LF.
int64_t count_line_ends(nb::handle source) {
  const Buffer buffer(source);
  const ReleasedFor released(buffer.size());
  return headrace::count_line_ends(buffer.data(), buffer.size());
}

}  // namespace

void bind_csv(nb::module_& m) {
  m.def("parse_csv", &parse_csv, "buffer"_a, "columns"_a, "slots"_a, "exact"_a, "delimiter"_a, "quote"_a, "na"_a,
        "max_rows"_a, "final"_a);
  m.def("count_line_ends", &count_line_ends, "buffer"_a);
}

}  // namespace headrace::python
