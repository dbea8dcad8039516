// Rows of SQLite as columns, by the functions of Python's SQLite: a second copy of it would lose its locks.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

#include "growing.h"

struct sqlite3;
struct sqlite3_stmt;
struct sqlite3_value;

namespace headrace {

// Find the functions of the SQLite that Python's module calls; false if they cannot be found. `module` is the file of
// that module; empty if it is built into Python itself, of which `python` is a function.
bool sqlite_find(const char* module, const void* python);

enum class SqlKind : int { kInteger, kReal, kText, kBlob };

struct SqlColumn {
  Growing<int64_t> integers;
  Growing<double> reals;
  Growing<int32_t> offsets;
  Growing<uint8_t> bytes;
  Growing<uint8_t> valid;  // a bit per row, once something is missing
  int64_t nulls = 0;
};

struct SqlRows {
  std::vector<SqlColumn> columns;
  int64_t rows = 0;
  bool done = false;
  int misfit = -1;  // the column whose value in the next row has the wrong type,
  SqlKind found{};  // and the type of that value

  bool more() const { return !done && misfit < 0; }
};

struct SqliteError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// A value that violates a table's constraints.
struct SqliteRefusal : SqliteError {
  using SqliteError::SqliteError;
};

// A column in Arrow's layout, from the row `first` on.
struct SqlInput {
  SqlKind kind;
  int64_t first;
  const uint8_t* valid;  // nullptr if nothing is missing
  const int64_t* integers;
  const double* reals;
  const int32_t* offsets;
  const uint8_t* bytes;
};

// A connection with one query; used by one thread at a time, except `interrupt`. A forked child does not use it.
class Sqlite {
 public:
  Sqlite(const char* path, bool create);
  Sqlite(const Sqlite&) = delete;
  Sqlite& operator=(const Sqlite&) = delete;
  ~Sqlite();

  void prepare(const std::string& query);
  int parameters();
  void bind(int number);
  void bind(int number, int64_t value);
  void bind(int number, double value);
  void bind(int number, const char* data, size_t size, bool text);

  std::vector<std::string> names();
  // Return the type that fits all values of each column in the first rows; the query is then reset.
  std::vector<SqlKind> guess(int64_t rows);
  // Return the next rows, at most `rows` of about `bytes` bytes. With `convert`, values are converted as SQLite does,
  // and missing ones become 0 or empty; else a misfit ends the rows before it. From the second call on, the following
  // rows are read on a thread: until the next `prepare`, the arguments must stay the same.
  SqlRows fetch(const std::vector<SqlKind>& kinds, int64_t rows, size_t bytes, bool convert);
  // Whether there is one more row, whose values are then accessible.
  bool step();
  sqlite3_value* value(int column);

  // Run a statement once for each row, with its values as parameters.
  void insert(const std::string& statement, const std::vector<SqlInput>& columns, int64_t rows);

  void interrupt();  // from any thread
  void close();

 private:
  struct Asked {
    std::vector<SqlKind> kinds;
    int64_t rows;
    size_t bytes;
    bool convert;
  };

  sqlite3_stmt* ready();
  [[noreturn]] void fail();
  void compile(const std::string& query);
  void finalize();
  void bind_row(const std::vector<SqlInput>& columns, int64_t row);
  SqlRows take(const Asked& asked);
  void begin_ahead(const Asked& asked);
  void read_ahead(const Asked& asked);
  void end_ahead();

  const pid_t process_;
  std::mutex using_, living_;
  std::atomic<bool> unwanted_{false};
  struct Ahead;
  std::unique_ptr<Ahead> ahead_;
  int64_t fetches_ = 0;
  sqlite3* connection_ = nullptr;
  sqlite3_stmt* query_ = nullptr;
};

// The type of a value; false if it is NULL.
bool sqlite_kind(sqlite3_value* value, SqlKind& kind);
int64_t sqlite_integer(sqlite3_value* value);
double sqlite_real(sqlite3_value* value);
// The bytes of a text, or of a blob, until the next row is read.
std::pair<const uint8_t*, size_t> sqlite_bytes(sqlite3_value* value, SqlKind kind);

}  // namespace headrace
