#include "sqlite.h"

#include <dlfcn.h>

#include <cstring>
#include <limits>
#include <utility>

namespace headrace {
namespace {

constexpr int kOk = 0, kRow = 100, kDone = 101;
constexpr int kReadWrite = 2, kNoMutex = 0x8000;
constexpr int kPatience = 1000;  // milliseconds that a lock is waited for

using Destructor = void (*)(void*);
const Destructor kTransient = reinterpret_cast<Destructor>(-1);  // SQLite is to copy what is bound

// The functions in use: result, name, arguments, and its place in the table that SQLite has for what it loads.
#define SQLITE_FUNCTIONS(F)                                                                       \
  F(int, open_v2, (const char*, sqlite3**, int, const char*), 135)                                \
  F(int, close_v2, (sqlite3*), 179)                                                               \
  F(const char*, errmsg, (sqlite3*), 53)                                                          \
  F(int, busy_timeout, (sqlite3*, int), 14)                                                       \
  F(void, interrupt, (sqlite3*), 64)                                                              \
  F(int, prepare_v2, (sqlite3*, const char*, int, sqlite3_stmt**, const char**), 116)             \
  F(int, finalize, (sqlite3_stmt*), 57)                                                           \
  F(int, step, (sqlite3_stmt*), 94)                                                               \
  F(int, reset, (sqlite3_stmt*), 77)                                                              \
  F(int, column_count, (sqlite3_stmt*), 22)                                                       \
  F(const char*, column_name, (sqlite3_stmt*, int), 30)                                           \
  F(sqlite3_value*, column_value, (sqlite3_stmt*, int), 39)                                       \
  F(int, value_type, (sqlite3_value*), 113)                                                       \
  F(int64_t, value_int64, (sqlite3_value*), 107)                                                  \
  F(double, value_double, (sqlite3_value*), 105)                                                  \
  F(const unsigned char*, value_text, (sqlite3_value*), 109)                                      \
  F(const void*, value_blob, (sqlite3_value*), 102)                                               \
  F(int, value_bytes, (sqlite3_value*), 103)                                                      \
  F(int, bind_null, (sqlite3_stmt*, int), 6)                                                      \
  F(int, bind_int64, (sqlite3_stmt*, int, int64_t), 5)                                            \
  F(int, bind_double, (sqlite3_stmt*, int, double), 3)                                            \
  F(int, bind_text, (sqlite3_stmt*, int, const char*, int, Destructor), 10)                       \
  F(int, bind_blob, (sqlite3_stmt*, int, const void*, int, Destructor), 2)                        \
  F(int, bind_parameter_count, (sqlite3_stmt*), 7)

struct {
#define FUNCTION(result, name, arguments, place) result(*name) arguments = nullptr;
  SQLITE_FUNCTIONS(FUNCTION)
#undef FUNCTION
} api;

int size_of(size_t size) {
  if (size > size_t(std::numeric_limits<int>::max())) throw SqliteError("a value is larger than 2 GB");
  return int(size);
}

// Adds a value; false if it is of a kind that the column cannot have.
bool add(SqlColumn& column, SqlKind kind, sqlite3_value* value, bool convert, int64_t row, int64_t rows) {
  SqlKind found = SqlKind::kInteger;
  const bool missing = !sqlite_kind(value, found);
  if (missing && !convert) {
    if (!column.nulls++) std::memset(column.valid.extend(size_t(rows + 7) / 8), 0xFF, size_t(rows + 7) / 8);
    column.valid[size_t(row) / 8] &= uint8_t(~(1u << (row % 8)));
  }
  switch (kind) {
    case SqlKind::kInteger:
      if (found != SqlKind::kInteger && !convert) return false;
      column.integers.push(api.value_int64(value));
      return true;
    case SqlKind::kReal:
      if (found > SqlKind::kReal && !convert) return false;
      column.reals.push(api.value_double(value));
      return true;
    default:
      if (!missing) {
        const auto [data, size] = sqlite_bytes(value, kind);
        if (column.bytes.size() + size > size_t(std::numeric_limits<int32_t>::max()))
          throw SqliteError("the texts of a few rows are larger than 2 GB");
        column.bytes.append(data, size);
      }
      column.offsets.push(int32_t(column.bytes.size()));
      return true;
  }
}

// Drops what was added of a row that does not fit.
void cut(SqlRows& out, const std::vector<SqlKind>& kinds) {
  for (size_t i = 0; i < kinds.size(); ++i) {
    SqlColumn& column = out.columns[i];
    const size_t rows = size_t(out.rows);
    if (kinds[i] == SqlKind::kInteger) column.integers.shrink(rows);
    if (kinds[i] == SqlKind::kReal) column.reals.shrink(rows);
    if (kinds[i] >= SqlKind::kText) {
      column.offsets.shrink(rows + 1);
      column.bytes.shrink(size_t(column.offsets[rows]));
    }
  }
}

}  // namespace

bool sqlite_find(const char* library) {
  void* handle = dlopen(*library ? library : nullptr, RTLD_LAZY | RTLD_LOCAL);
  if (!handle) return false;
  // the handle is kept: what it stands for is in use from here on
#define FUNCTION(result, name, arguments, place)                                       \
  api.name = reinterpret_cast<decltype(api.name)>(dlsym(handle, "sqlite3_" #name));    \
  if (!api.name) return false;
  SQLITE_FUNCTIONS(FUNCTION)
#undef FUNCTION
  return true;
}

bool sqlite_kind(sqlite3_value* value, SqlKind& kind) {
  const int type = api.value_type(value);  // from 1 on, in our order; the last is NULL
  if (type > 4) return false;
  kind = SqlKind(type - 1);
  return true;
}

int64_t sqlite_integer(sqlite3_value* value) { return api.value_int64(value); }

double sqlite_real(sqlite3_value* value) { return api.value_double(value); }

std::pair<const uint8_t*, size_t> sqlite_bytes(sqlite3_value* value, SqlKind kind) {
  const void* data = kind == SqlKind::kText ? api.value_text(value) : api.value_blob(value);
  return {static_cast<const uint8_t*>(data), data ? size_t(api.value_bytes(value)) : 0};
}

Sqlite::Sqlite(const char* path) {
  if (!api.open_v2) throw SqliteError("SQLite was not found");
  const int code = api.open_v2(path, &connection_, kReadWrite | kNoMutex, nullptr);
  if (code != kOk) {
    const std::string said = connection_ ? api.errmsg(connection_) : "out of memory";
    close();
    throw SqliteError(said);
  }
  api.busy_timeout(connection_, kPatience);
}

void Sqlite::fail() {
  const std::string said = api.errmsg(connection_);
  if (query_) api.reset(query_);
  throw SqliteError(said);
}

sqlite3_stmt* Sqlite::ready() {
  if (!query_) throw SqliteError("there is no query, or it was closed");
  return query_;
}

void Sqlite::finalize() {
  if (query_) api.finalize(std::exchange(query_, nullptr));
}

void Sqlite::prepare(const std::string& query) {
  const std::lock_guard<std::mutex> held(using_);
  if (!connection_) throw SqliteError("the connection was closed");
  finalize();
  if (api.prepare_v2(connection_, query.c_str(), size_of(query.size() + 1), &query_, nullptr) != kOk) fail();
  if (!query_) throw SqliteError("the query is empty");
}

int Sqlite::parameters() { return api.bind_parameter_count(ready()); }

void Sqlite::bind(int number) {
  if (api.bind_null(ready(), number) != kOk) fail();
}

void Sqlite::bind(int number, int64_t value) {
  if (api.bind_int64(ready(), number, value) != kOk) fail();
}

void Sqlite::bind(int number, double value) {
  if (api.bind_double(ready(), number, value) != kOk) fail();
}

void Sqlite::bind(int number, const char* data, size_t size, bool text) {
  const int code = text ? api.bind_text(ready(), number, data, size_of(size), kTransient)
                        : api.bind_blob(ready(), number, data, size_of(size), kTransient);
  if (code != kOk) fail();
}

std::vector<std::string> Sqlite::names() {
  const std::lock_guard<std::mutex> held(using_);
  std::vector<std::string> found;
  const int count = api.column_count(ready());
  for (int i = 0; i < count; ++i) {
    const char* name = api.column_name(query_, i);
    if (!name) throw std::bad_alloc();
    found.emplace_back(name);
  }
  return found;
}

std::vector<SqlKind> Sqlite::guess(int64_t rows) {
  const std::lock_guard<std::mutex> held(using_);
  std::vector<SqlKind> kinds;
  for (int64_t row = 0; row < rows; ++row) {
    const int code = api.step(ready());
    if (code == kDone) break;
    if (code != kRow) fail();
    kinds.resize(size_t(api.column_count(query_)), SqlKind::kInteger);
    for (size_t i = 0; i < kinds.size(); ++i) {
      SqlKind found;
      if (sqlite_kind(api.column_value(query_, int(i)), found)) kinds[i] = std::max(kinds[i], found);
    }
  }
  api.reset(ready());
  kinds.resize(size_t(api.column_count(query_)), SqlKind::kInteger);
  return kinds;
}

SqlRows Sqlite::fetch(const std::vector<SqlKind>& kinds, int64_t rows, size_t bytes, bool convert) {
  const std::lock_guard<std::mutex> held(using_);
  SqlRows out;
  out.columns.resize(kinds.size());
  for (size_t i = 0; i < kinds.size(); ++i) {
    SqlColumn& column = out.columns[i];
    if (kinds[i] == SqlKind::kInteger) column.integers.expect(size_t(rows));
    if (kinds[i] == SqlKind::kReal) column.reals.expect(size_t(rows));
    if (kinds[i] < SqlKind::kText) continue;
    column.offsets.expect(size_t(rows) + 1);
    column.offsets.push(0);
  }
  for (size_t taken = 0; out.rows < rows && taken < bytes; ++out.rows) {
    const int code = api.step(ready());
    if (code == kDone) {
      out.done = true;
      api.reset(query_);  // which lets go of the file
      break;
    }
    if (code != kRow) fail();
    if (!out.rows && api.column_count(query_) != int(kinds.size()))
      throw SqliteError("the query has other columns than it had: the table was changed");
    taken += 8 * kinds.size();
    for (size_t i = 0; i < kinds.size(); ++i) {
      SqlColumn& column = out.columns[i];
      sqlite3_value* value = api.column_value(query_, int(i));
      const size_t before = column.bytes.size();
      if (!add(column, kinds[i], value, convert, out.rows, rows)) {
        out.misfit = int(i);
        sqlite_kind(value, out.found);
        cut(out, kinds);
        api.reset(query_);
        return out;
      }
      taken += column.bytes.size() - before;
    }
  }
  return out;
}

bool Sqlite::step() {
  const std::lock_guard<std::mutex> held(using_);
  const int code = api.step(ready());
  if (code == kRow) return true;
  if (code != kDone) fail();
  api.reset(query_);
  return false;
}

sqlite3_value* Sqlite::value(int column) { return api.column_value(ready(), column); }

void Sqlite::interrupt() {
  const std::lock_guard<std::mutex> held(living_);
  if (connection_) api.interrupt(connection_);
}

void Sqlite::close() {
  const std::lock_guard<std::mutex> used(using_);
  finalize();
  const std::lock_guard<std::mutex> held(living_);
  if (connection_) api.close_v2(std::exchange(connection_, nullptr));
}

}  // namespace headrace

// What SQLite calls when it loads this as an extension of its own, with the table of its functions: so they are found
// where Python has them hidden in itself.
extern "C" __attribute__((visibility("default"))) int headrace_sqlite_init(void*, char**, void* const* table) {
#define FUNCTION(result, name, arguments, place) \
  headrace::api.name = reinterpret_cast<decltype(headrace::api.name)>(table[place]);
  SQLITE_FUNCTIONS(FUNCTION)
#undef FUNCTION
  return headrace::kOk;
}
