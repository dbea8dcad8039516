#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <vector>

#include "python.h"
#include "sqlite.h"

namespace headrace::python {
namespace {

using headrace::SqlColumn;
using headrace::SqlKind;
using headrace::Sqlite;

// What SQLite says is raised as Python's own module of it does.
template <typename Work>
auto told(Work work) {
  try {
    return work();
  } catch (const headrace::SqliteError& error) {
    const nb::object kind = nb::module_::import_("sqlite3").attr("OperationalError");
    PyErr_SetString(kind.ptr(), error.what());
    throw nb::python_error();
  }
}

void bind_value(Sqlite& query, int number, nb::handle value) {
  if (value.is_none()) return query.bind(number);
  if (nb::isinstance<nb::int_>(value)) return query.bind(number, nb::cast<int64_t>(value));
  if (nb::isinstance<nb::float_>(value)) return query.bind(number, nb::cast<double>(value));
  if (nb::isinstance<nb::str>(value)) {
    const auto text = nb::cast<std::string>(value);
    return query.bind(number, text.data(), text.size(), true);
  }
  require(nb::isinstance<nb::bytes>(value), "a parameter is None, int, float, str or bytes");
  const nb::bytes bytes = nb::cast<nb::bytes>(value);
  query.bind(number, bytes.c_str(), bytes.size(), false);
}

nb::object value_of(Sqlite& query, int column) {
  sqlite3_value* value = query.value(column);
  SqlKind kind;
  if (!headrace::sqlite_kind(value, kind)) return nb::none();
  if (kind == SqlKind::kInteger) return nb::int_(headrace::sqlite_integer(value));
  if (kind == SqlKind::kReal) return nb::float_(headrace::sqlite_real(value));
  const auto [data, size] = headrace::sqlite_bytes(value, kind);
  const char* letters = reinterpret_cast<const char*>(data);
  if (kind == SqlKind::kText) return nb::str(letters, size);
  return nb::bytes(letters, size);
}

// A column as Arrow lays it out: what is valid (None for all), offsets of texts, values.
nb::tuple column_of(SqlColumn& column, SqlKind kind) {
  const nb::object valid = column.nulls ? numpy(column.valid) : nb::none();
  if (kind == SqlKind::kInteger) return nb::make_tuple(valid, nb::none(), numpy(column.integers));
  if (kind == SqlKind::kReal) return nb::make_tuple(valid, nb::none(), numpy(column.reals));
  return nb::make_tuple(valid, numpy(column.offsets), numpy(column.bytes));
}

nb::tuple fetch(Sqlite& query, const std::vector<int>& given, int64_t rows, int64_t bytes, bool convert) {
  require(rows > 0 && bytes > 0, "at least one row");
  std::vector<SqlKind> kinds;
  for (const int kind : given) {
    require(kind >= 0 && kind <= int(SqlKind::kBlob), "kind");
    kinds.push_back(SqlKind(kind));
  }
  headrace::SqlRows found = told([&] {
    const nb::gil_scoped_release released;
    return query.fetch(kinds, rows, size_t(bytes), convert);
  });
  nb::list columns;
  for (size_t i = 0; i < kinds.size(); ++i) columns.append(column_of(found.columns[i], kinds[i]));
  const nb::object misfit =
      found.misfit < 0 ? nb::none() : nb::object(nb::make_tuple(found.misfit, int(found.found)));
  return nb::make_tuple(columns, found.rows, found.done, misfit);
}

nb::list values(Sqlite& query) {
  nb::list rows;
  while (told([&] {
    const nb::gil_scoped_release released;
    return query.step();
  })) {
    nb::list row;
    const int columns = int(query.names().size());
    for (int i = 0; i < columns; ++i) row.append(told([&] { return value_of(query, i); }));
    rows.append(nb::tuple(row));
  }
  return rows;
}

std::vector<int> guess(Sqlite& query, int64_t rows) {
  const auto kinds = told([&] {
    const nb::gil_scoped_release released;
    return query.guess(rows);
  });
  std::vector<int> numbers;
  for (const SqlKind kind : kinds) numbers.push_back(int(kind));
  return numbers;
}

}  // namespace

void bind_sqlite(nb::module_& m) {
  m.def("find_sqlite", [](const std::string& library) { return headrace::sqlite_find(library.c_str()); }, "library"_a);
  nb::class_<Sqlite>(m, "Sqlite")
      .def(
          "__init__",
          [](Sqlite* made, nb::bytes path) {
            told([&] { new (made) Sqlite(path.c_str()); });
          },
          "path"_a)
      .def(
          "prepare",
          [](Sqlite& query, const std::string& text, nb::list params) {
            told([&] {
              {
                const nb::gil_scoped_release released;
                query.prepare(text);
              }
              const int wanted = query.parameters();
              if (size_t(wanted) != params.size())
                throw headrace::SqliteError("the query has " + std::to_string(wanted) + " placeholders, and there are " +
                                            std::to_string(params.size()) + " params");
              for (int i = 0; i < wanted; ++i) bind_value(query, i + 1, params[size_t(i)]);
            });
          },
          "query"_a, "params"_a)
      .def("names", [](Sqlite& query) { return told([&] { return query.names(); }); })
      .def("guess", &guess, "rows"_a)
      .def("fetch", &fetch, "kinds"_a, "rows"_a, "bytes"_a, "convert"_a)
      .def("values", &values)
      .def("interrupt", &Sqlite::interrupt, Released())
      .def("close", &Sqlite::close, Released());
}

}  // namespace headrace::python
