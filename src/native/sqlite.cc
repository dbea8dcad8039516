#include "sqlite.h"

#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <limits>
#include <new>
#include <queue>
#include <system_error>
#include <thread>
#include <utility>

#include "linked.h"

namespace headrace {
namespace {

constexpr int kOk = 0, kRow = 100, kDone = 101;
constexpr int kConstraint = 19;
constexpr int kReadWrite = 2, kCreate = 4, kNoMutex = 0x8000;
constexpr int kPatience = 1000;  // milliseconds to wait for a lock
constexpr int kOften = 1000;     // SQLite's steps between two checks for an interrupt
constexpr int64_t kMostRows = 1 << 20;  // at a time
constexpr size_t kUsualText = 16;
constexpr size_t kAhead = 2;  // batches read ahead: with two, the reading thread need not wait

using Destructor = void (*)(void*);
const Destructor kTransient = reinterpret_cast<Destructor>(-1);  // SQLite is to copy what is bound,
const Destructor kStatic = nullptr;                              // or not

// The functions in use: result, name, arguments, and index in SQLite's extension API table.
#define SQLITE_FUNCTIONS(F)                                                                       \
  F(int, open_v2, (const char*, sqlite3**, int, const char*), 135)                                \
  F(int, close_v2, (sqlite3*), 179)                                                               \
  F(const char*, errmsg, (sqlite3*), 53)                                                          \
  F(int, errcode, (sqlite3*), 52)                                                                 \
  F(int, busy_timeout, (sqlite3*, int), 14)                                                       \
  F(void, interrupt, (sqlite3*), 64)                                                              \
  F(void, progress_handler, (sqlite3*, int, int (*)(void*), void*), 75)                           \
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

void set_missing(SqlColumn& column, int64_t row, int64_t rows) {
  if (!column.nulls++) std::memset(column.valid.extend(size_t(rows + 7) / 8), 0xFF, size_t(rows + 7) / 8);
  column.valid[size_t(row) / 8] &= uint8_t(~(1u << (row % 8)));
}

void add_bytes(SqlColumn& column, SqlKind kind, sqlite3_value* value, int64_t row) {
  const auto [data, size] = sqlite_bytes(value, kind);
  if (column.bytes.size() + size > size_t(std::numeric_limits<int32_t>::max()))
    throw SqliteError("the texts of a few rows are larger than 2 GB");
  column.bytes.append(data, size);
  column.offsets[size_t(row) + 1] = int32_t(column.bytes.size());
}

// Set a value of a row, for which there is room; false if the column cannot have its type.
bool set(SqlColumn& column, SqlKind kind, sqlite3_value* value, bool convert, int64_t row, int64_t rows) {
  SqlKind found = SqlKind::kInteger;
  const bool missing = !sqlite_kind(value, found);
  if (missing && !convert) set_missing(column, row, rows);
  switch (kind) {
    case SqlKind::kInteger:
      if (found != SqlKind::kInteger && !convert) return false;
      column.integers[size_t(row)] = api.value_int64(value);
      return true;
    case SqlKind::kReal:
      if (found > SqlKind::kReal && !convert) return false;
      column.reals[size_t(row)] = api.value_double(value);
      return true;
    default:
      if (missing) {
        column.offsets[size_t(row) + 1] = column.offsets[size_t(row)];
      } else {
        add_bytes(column, kind, value, row);
      }
      return true;
  }
}

// The values of a query's row. SQLite keeps them contiguous: if that is verified, two calls find them all instead of
// one for each, which would take as long as reading them.
class RowValues {
 public:
  RowValues(sqlite3_stmt* query, int count) : query_(query), count_(count) {}

  // Check all of a row: return their distance, if it is the same between any two.
  void learn() {
    apart_ = count_ > 2 ? address(1) - address(0) : 0;
    for (int i = 2; i < count_; ++i) {
      if (address(i) - address(i - 1) != apart_) apart_ = 0;
    }
  }

  void begin_row() {
    if (!apart_) return;
    first_ = address(0);
    side_by_side_ = address(count_ - 1) - first_ == apart_ * (count_ - 1);
  }

  sqlite3_value* at(int column) const {
    return apart_ && side_by_side_ ? reinterpret_cast<sqlite3_value*>(first_ + apart_ * column)
                                   : api.column_value(query_, column);
  }

 private:
  intptr_t address(int column) const { return reinterpret_cast<intptr_t>(api.column_value(query_, column)); }

  sqlite3_stmt* const query_;
  const int count_;
  intptr_t apart_ = 0, first_ = 0;
  bool side_by_side_ = false;
};

// The destination of a column's numbers, for which there is room.
struct Numbers {
  SqlKind kind;
  int64_t* integers;
  double* reals;
};

// Set a value of the column's type, as nearly all numbers are; else return false.
inline bool set_number(const Numbers& column, sqlite3_value* value, int64_t row) {
  SqlKind found;
  if (column.kind > SqlKind::kReal || !sqlite_kind(value, found) || found != column.kind) return false;
  if (found == SqlKind::kInteger) column.integers[row] = api.value_int64(value);
  else column.reals[row] = api.value_double(value);
  return true;
}

// Reserve room for this many rows.
SqlColumn room_for(SqlKind kind, size_t rows) {
  SqlColumn column;
  if (kind == SqlKind::kInteger) column.integers.extend(rows);
  if (kind == SqlKind::kReal) column.reals.extend(rows);
  if (kind < SqlKind::kText) return column;
  column.offsets.extend(rows + 1);
  column.offsets[0] = 0;
  column.bytes.expect(rows * kUsualText);
  return column;
}

// Drop the room of rows that did not come, and of one that does not fit.
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

bool sqlite_find(const char* module, const void* python) {
  const LinkedLibrary library = library_behind(module, python, "sqlite3_open_v2");
  // its handle is kept, because its functions are in use from here on
#define FUNCTION(result, name, arguments, place)                                            \
  void* const found_##name = library.function("sqlite3_" #name);                            \
  if (!found_##name) return false;
  SQLITE_FUNCTIONS(FUNCTION)
#undef FUNCTION
#define FUNCTION(result, name, arguments, place) api.name = reinterpret_cast<decltype(api.name)>(found_##name);
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

Sqlite::Sqlite(const char* path, bool create) : process_(getpid()) {
  if (!api.open_v2) throw SqliteError("SQLite was not found");
  const int code = api.open_v2(path, &connection_, kReadWrite | kNoMutex | (create ? kCreate : 0), nullptr);
  if (code != kOk) {
    const std::string said = connection_ ? api.errmsg(connection_) : "out of memory";
    close();
    throw SqliteError(said);
  }
  api.busy_timeout(connection_, kPatience);
  // `interrupt` alone is lost if a query has yet to begin
  const auto stops = [](void* unwanted) { return int(static_cast<std::atomic<bool>*>(unwanted)->load()); };
  api.progress_handler(connection_, kOften, stops, &unwanted_);
}

Sqlite::~Sqlite() { close(); }

void Sqlite::fail() {
  const std::string said = api.errmsg(connection_);
  const bool refused = (api.errcode(connection_) & 0xFF) == kConstraint;
  if (query_) api.reset(query_);
  if (refused) throw SqliteRefusal(said);
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
  compile(query);
}

void Sqlite::compile(const std::string& query) {
  if (!connection_) throw SqliteError("the connection was closed");
  end_ahead();
  finalize();
  unwanted_ = false;
  fetches_ = 0;
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

// A thread that reads rows, and the queue of those to be fetched.
struct Sqlite::Ahead {
  std::mutex lock;
  std::condition_variable changed;
  std::queue<SqlRows> ready;
  std::exception_ptr error;  // raised after them
  bool unwanted = false;
  std::thread thread;
};

SqlRows Sqlite::fetch(const std::vector<SqlKind>& kinds, int64_t rows, size_t bytes, bool convert) {
  const std::lock_guard<std::mutex> held(using_);
  if (!ahead_) {
    const Asked asked{kinds, std::min(rows, kMostRows), bytes, convert};
    SqlRows found = take(asked);
    if (fetches_++ && found.more()) begin_ahead(asked);
    return found;
  }
  std::unique_lock<std::mutex> waiting(ahead_->lock);
  ahead_->changed.wait(waiting, [&] { return !ahead_->ready.empty() || ahead_->error; });
  if (ahead_->ready.empty()) std::rethrow_exception(ahead_->error);
  SqlRows found = std::move(ahead_->ready.front());
  ahead_->ready.pop();
  ahead_->changed.notify_all();
  waiting.unlock();
  if (!found.more()) end_ahead();
  return found;
}

void Sqlite::begin_ahead(const Asked& asked) {
  try {
    ahead_ = std::make_unique<Ahead>();
    ahead_->thread = std::thread([this, asked] { read_ahead(asked); });
  } catch (const std::system_error&) {  // no thread can be started: rows are read on demand
    ahead_ = nullptr;
  } catch (const std::bad_alloc&) {
    ahead_ = nullptr;
  }
}

void Sqlite::read_ahead(const Asked& asked) {
  Ahead& ahead = *ahead_;
  try {
    for (bool more = true; more;) {
      SqlRows found = take(asked);
      more = found.more();
      std::unique_lock<std::mutex> waiting(ahead.lock);
      ahead.ready.push(std::move(found));
      ahead.changed.notify_all();
      ahead.changed.wait(waiting, [&] { return !more || ahead.unwanted || ahead.ready.size() < kAhead; });
      more &= !ahead.unwanted;
    }
  } catch (...) {
    const std::lock_guard<std::mutex> held(ahead.lock);
    ahead.error = std::current_exception();
    ahead.changed.notify_all();
  }
}

void Sqlite::end_ahead() {
  if (!ahead_) return;
  unwanted_ = true;
  {
    const std::lock_guard<std::mutex> held(ahead_->lock);
    ahead_->unwanted = true;
    ahead_->changed.notify_all();
  }
  ahead_->thread.join();
  ahead_ = nullptr;
}

SqlRows Sqlite::take(const Asked& asked) {
  const auto& [kinds, rows, bytes, convert] = asked;
  SqlRows out;
  std::vector<Numbers> numbers;
  for (const SqlKind kind : kinds) {
    out.columns.push_back(room_for(kind, size_t(rows)));
    numbers.push_back({kind, out.columns.back().integers.data(), out.columns.back().reals.data()});
  }
  const int count = int(kinds.size());
  sqlite3_stmt* const query = ready();
  RowValues values(query, count);
  for (size_t taken = 0; out.rows < rows && taken < bytes; ++out.rows) {
    const int code = api.step(query);
    if (code == kDone) {
      out.done = true;
      api.reset(query);  // which unlocks the file
      break;
    }
    if (code != kRow) fail();
    if (!out.rows && api.column_count(query) != count)
      throw SqliteError("the query has other columns than it had: the table was changed");
    if (!out.rows) values.learn();
    values.begin_row();
    taken += 8 * kinds.size();
    for (int i = 0; i < count; ++i) {
      sqlite3_value* const value = values.at(i);
      if (set_number(numbers[size_t(i)], value, out.rows)) continue;
      SqlColumn& column = out.columns[size_t(i)];
      const size_t before = column.bytes.size();
      if (!set(column, kinds[size_t(i)], value, convert, out.rows, rows)) {
        out.misfit = i;
        sqlite_kind(value, out.found);
        api.reset(query);
        cut(out, kinds);
        return out;
      }
      taken += column.bytes.size() - before;
    }
  }
  cut(out, kinds);
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

void Sqlite::bind_row(const std::vector<SqlInput>& columns, int64_t row) {
  int number = 0, code = kOk;
  for (const SqlInput& column : columns) {
    const size_t at = size_t(column.first + row);
    ++number;
    if (column.valid && !(column.valid[at / 8] >> (at % 8) & 1)) {
      code |= api.bind_null(query_, number);
    } else if (column.kind == SqlKind::kInteger) {
      code |= api.bind_int64(query_, number, column.integers[at]);
    } else if (column.kind == SqlKind::kReal) {
      code |= api.bind_double(query_, number, column.reals[at]);
    } else {
      const int size = column.offsets[at + 1] - column.offsets[at];
      const char* data = size ? reinterpret_cast<const char*>(column.bytes + column.offsets[at]) : "";
      code |= column.kind == SqlKind::kText ? api.bind_text(query_, number, data, size, kStatic)
                                            : api.bind_blob(query_, number, data, size, kStatic);
    }
  }
  if (code != kOk) fail();
}

void Sqlite::insert(const std::string& statement, const std::vector<SqlInput>& columns, int64_t rows) {
  const std::lock_guard<std::mutex> held(using_);
  compile(statement);
  if (size_t(parameters()) != columns.size()) throw SqliteError("the statement has other parameters than there are columns");
  for (int64_t row = 0; row < rows; ++row) {
    bind_row(columns, row);
    if (api.step(query_) != kDone) fail();
    if (api.reset(query_) != kOk) fail();
  }
  finalize();  // which drops the memory of the columns
}

void Sqlite::interrupt() {
  const std::lock_guard<std::mutex> held(living_);
  unwanted_ = true;
  if (connection_) api.interrupt(connection_);
}

void Sqlite::close() {
  if (getpid() != process_) {  // a forked child has no such threads and must not use the locks
    ahead_.release();
    return;
  }
  const std::lock_guard<std::mutex> used(using_);
  end_ahead();
  finalize();
  const std::lock_guard<std::mutex> held(living_);
  if (connection_) api.close_v2(std::exchange(connection_, nullptr));
}

}  // namespace headrace

// SQLite calls this when it loads this library as an extension, with its function table: so they are found even if
// Python hides its SQLite.
extern "C" __attribute__((visibility("default"))) int headrace_sqlite_init(void*, char**, void* const* table) {
#define FUNCTION(result, name, arguments, place) \
  headrace::api.name = reinterpret_cast<decltype(headrace::api.name)>(table[place]);
  SQLITE_FUNCTIONS(FUNCTION)
#undef FUNCTION
  return headrace::kOk;
}
