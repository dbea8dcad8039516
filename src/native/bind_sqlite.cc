#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "python.h"
#include "sqlite.h"

namespace headrace::python {
namespace {

using headrace::SqlColumn;
using headrace::SqlKind;
using headrace::Sqlite;

[[noreturn]] void raise(const char* kind, const char* said) {
  PyErr_SetString(nb::object(nb::module_::import_("sqlite3").attr(kind)).ptr(), said);
  throw nb::python_error();
}

// Raise SQLite's errors like Python's sqlite3 module does.
template <typename Work>
auto told(Work work) {
  try {
    return work();
  } catch (const headrace::SqliteRefusal& error) {
    raise("IntegrityError", error.what());
  } catch (const headrace::SqliteError& error) {
    raise("OperationalError", error.what());
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

// A column in Arrow's layout: validity (None for all), offsets of texts, values.
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

// The memory of a column to be written, after checking its size.
class InputBuffers {
 public:
  // A kind; validity, offsets of texts (each may be None) and values; the first row.
  InputBuffers(nb::handle given, int64_t rows) {
    const auto [kind, valid, offsets, values, first] =
        nb::cast<std::tuple<int, nb::object, nb::object, nb::object, int64_t>>(given);
    require(kind >= 0 && kind <= int(SqlKind::kBlob), "kind");
    require(first >= 0 && rows >= 0 && rows <= kMost && first <= kMost, "rows");
    const size_t end = size_t(first + rows);
    input_.kind = SqlKind(kind);
    input_.first = first;
    input_.valid = memory<uint8_t>(valid, (end + 7) / 8, "what is valid is too little");
    if (input_.kind < SqlKind::kText) {
      const auto* numbers = memory<int64_t>(values, end, "there are fewer values than rows");
      require(numbers || !end, "there are no values");
      if (input_.kind == SqlKind::kInteger) input_.integers = numbers;
      if (input_.kind == SqlKind::kReal) input_.reals = reinterpret_cast<const double*>(numbers);
      return;
    }
    if (!end) return;
    input_.offsets = memory<int32_t>(offsets, end + 1, "there are fewer offsets than rows");
    require(input_.offsets && input_.offsets[first] >= 0, "offsets");
    for (size_t i = size_t(first); i < end; ++i) require(input_.offsets[i + 1] >= input_.offsets[i], "offsets");
    input_.bytes = memory<uint8_t>(values, size_t(input_.offsets[end]), "offsets beyond the values");
    require(input_.bytes || input_.offsets[end] == 0, "offsets beyond the values");
  }

  const headrace::SqlInput& input() const { return input_; }

 private:
  static constexpr int64_t kMost = int64_t(1) << 40;

  template <typename T>
  const T* memory(nb::handle given, size_t count, const char* wrong) {
    if (given.is_none()) return nullptr;
    held_.push_back(std::make_unique<Buffer>(given));
    require(held_.back()->size() / sizeof(T) >= count, wrong);
    const void* data = held_.back()->data();
    require(reinterpret_cast<uintptr_t>(data) % sizeof(T) == 0, "memory that is not aligned");
    return static_cast<const T*>(data);
  }

  headrace::SqlInput input_{};
  std::vector<std::unique_ptr<Buffer>> held_;
};

void insert(Sqlite& database, const std::string& statement, nb::list columns, int64_t rows) {
  std::vector<InputBuffers> held;
  std::vector<headrace::SqlInput> inputs;
  for (const nb::handle column : columns) inputs.push_back(held.emplace_back(column, rows).input());
  told([&] {
    const nb::gil_scoped_release released;
    database.insert(statement, inputs, rows);
  });
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
  m.def(
      "find_sqlite",
      [](const std::string& module) {
        return headrace::sqlite_find(module.c_str(), reinterpret_cast<const void*>(&Py_IsInitialized));
      },
      "module"_a);
  nb::class_<Sqlite>(m, "Sqlite")
      .def(
          "__init__",
          [](Sqlite* made, nb::bytes path, bool create) {
            told([&] { new (made) Sqlite(path.c_str(), create); });
          },
          "path"_a, nb::kw_only(), "create"_a = false)
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
      .def("insert", &insert, "statement"_a, "columns"_a, "rows"_a)
      .def("interrupt", &Sqlite::interrupt, Released())
      .def("close", &Sqlite::close, Released());
}

}  // namespace headrace::python
