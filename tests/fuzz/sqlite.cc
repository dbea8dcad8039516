// SQLite: files of any bytes are read as rows or refused; values of any bytes that are written come back as they were.
#include "../../src/native/sqlite.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "check.h"

using namespace headrace;

namespace {

constexpr int64_t kMemory = 32 << 20;  // so that SQLite itself says what is too large in a broken file
constexpr int kFetches = 40;           // trees that go in circles have no end

void find_library() {
  const char* library = std::getenv("SQLITE_LIBRARY");
  void* handle = dlopen(library && *library ? library : "libsqlite3.so.0", RTLD_LAZY);
  CHECK(handle);
  // The library itself stands for the extension module that calls it: it is found from either.
  CHECK(sqlite_find("", dlsym(handle, "sqlite3_open_v2")));
  using Limit = int64_t (*)(int64_t);
  const auto limit = reinterpret_cast<Limit>(dlsym(handle, "sqlite3_hard_heap_limit64"));
  if (limit) limit(kMemory);
}

void check_column(SqlColumn& column, SqlKind kind, size_t rows) {
  CHECK(column.integers.size() == (kind == SqlKind::kInteger ? rows : 0));
  CHECK(column.reals.size() == (kind == SqlKind::kReal ? rows : 0));
  CHECK(!column.nulls || column.valid.size() >= (rows + 7) / 8);
  if (kind < SqlKind::kText) return;
  CHECK(column.offsets.size() == rows + 1 && column.offsets[0] == 0);
  for (size_t i = 0; i < rows; ++i) CHECK(column.offsets[i + 1] >= column.offsets[i]);
  CHECK(column.bytes.size() == size_t(column.offsets[rows]));
}

bool is_missing(SqlColumn& column, size_t row) { return column.nulls && !(column.valid[row / 8] >> (row % 8) & 1); }

void read_file(const uint8_t* data, size_t size, uint8_t option) {
  const std::string path = "/tmp/headrace-fuzz-" + std::to_string(getpid()) + ".db";
  FILE* file = std::fopen(path.c_str(), "wb");
  CHECK(file && std::fwrite(data, 1, size, file) == size && std::fclose(file) == 0);
  try {
    Sqlite query(path.c_str(), false);
    query.prepare("PRAGMA query_only = on");
    while (query.step()) {
    }
    query.prepare(option & 1 ? "SELECT * FROM t" : "SELECT a, b, c, d FROM t ORDER BY d");
    const bool convert = option & 2;
    std::vector<SqlKind> kinds = query.guess(1 + option % 5);
    CHECK(kinds.size() == query.names().size());
    for (SqlKind& kind : kinds) kind = option & 4 ? SqlKind(option / 8 % 4) : kind;
    for (int i = 0; i < kFetches; ++i) {
      SqlRows found = query.fetch(kinds, 1 + option % 7, 300, convert);
      CHECK(found.columns.size() == kinds.size() && found.rows <= 1 + option % 7);
      for (size_t c = 0; c < kinds.size(); ++c) check_column(found.columns[c], kinds[c], size_t(found.rows));
      CHECK(found.misfit < int(kinds.size()) && (found.misfit < 0 || !convert));
      if (!found.more()) break;
      CHECK(found.rows > 0);
      if (i == option % 11) query.interrupt();
    }
  } catch (const SqliteError&) {  // as broken files should be
  }
  std::remove(path.c_str());
}

void write_values(const uint8_t* data, size_t size, uint8_t option) {
  const size_t first = option % 9, rows = size / 9, end = first + rows;
  std::vector<int64_t> integers(end);
  std::vector<double> reals(end);
  std::vector<uint8_t> valid(end / 8 + 1), bytes(data, data + size);
  std::vector<int32_t> offsets(end + 1);
  for (size_t i = first; i < end; ++i) {
    const uint8_t* at = data + 9 * (i - first);
    std::memcpy(&integers[i], at, 8);
    std::memcpy(&reals[i], at, 8);
    valid[i / 8] |= uint8_t((at[8] & 1) << (i % 8));
    offsets[i + 1] = int32_t(std::min(size, size_t(offsets[i]) + at[8] / 2 % 19));
  }
  bytes.resize(size_t(offsets[end]));
  bytes.shrink_to_fit();
  const auto input = [&](SqlKind kind, bool whole) {
    return SqlInput{kind, int64_t(first), whole ? nullptr : valid.data(), integers.data(), reals.data(), offsets.data(), bytes.data()};
  };
  const std::vector<SqlKind> kinds{SqlKind::kInteger, SqlKind::kReal, SqlKind::kText, SqlKind::kBlob, SqlKind::kText};
  std::vector<SqlInput> columns;
  for (size_t c = 0; c < kinds.size(); ++c) columns.push_back(input(kinds[c], c == 4));

  Sqlite database(":memory:", true);
  database.prepare("CREATE TABLE t (a INTEGER, b REAL, c TEXT, d BLOB, e TEXT NOT NULL)");
  CHECK(!database.step());
  database.insert("INSERT INTO t VALUES (?, ?, ?, ?, ?)", columns, int64_t(rows));
  database.prepare("SELECT a, b, c, d, e FROM t ORDER BY rowid");
  size_t row = first;
  for (bool more = true; more;) {
    SqlRows found = database.fetch(kinds, 1 + option % 13, 1 << 20, false);
    CHECK(found.misfit < 0);
    more = found.more();
    for (size_t i = 0; i < size_t(found.rows); ++i, ++row) {
      CHECK(row < end);
      const bool there = valid[row / 8] >> (row % 8) & 1;
      const bool number = there && !std::isnan(reals[row]);
      CHECK(is_missing(found.columns[0], i) == !there && (!there || found.columns[0].integers[i] == integers[row]));
      CHECK(is_missing(found.columns[1], i) == !number && (!number || found.columns[1].reals[i] == reals[row]));
      for (size_t c = 2; c < kinds.size(); ++c) {
        SqlColumn& column = found.columns[c];
        CHECK(is_missing(column, i) == (c != 4 && !there));
        const std::string got(column.bytes.data() + column.offsets[i], column.bytes.data() + column.offsets[i + 1]);
        const std::string want(bytes.begin() + offsets[row], bytes.begin() + offsets[row + 1]);
        CHECK(got == (is_missing(column, i) ? "" : want));
      }
    }
  }
  CHECK(row == end);
  columns[4].valid = valid.data();
  bool refused = false;
  try {
    database.insert("INSERT INTO t VALUES (?, ?, ?, ?, ?)", columns, int64_t(rows));
  } catch (const SqliteRefusal&) {
    refused = true;
  }
  bool missing = false;
  for (size_t i = first; i < end; ++i) missing |= !(valid[i / 8] >> (i % 8) & 1);
  CHECK(refused == missing);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const bool found = (find_library(), true);
  if (!found || size < 2) return 0;
  if (data[0] & 1) {
    read_file(data + 2, size - 2, data[1]);
  } else {
    write_values(data + 2, size - 2, data[1]);
  }
  return 0;
}
