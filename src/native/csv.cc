// CSV by the rules of tf.data's CsvDataset: a quote opens a field only at its beginning, and closes it only before a
// delimiter or the end of the record; anything else makes its record bad, and reading continues.
#include <cstring>
#include <limits>
#include <string>

#include "kernels.h"
#include "parse_number.h"

namespace headrace {
namespace {

constexpr int kIgnored = -1, kBeyond = -2;

class Splitter {
 public:
  Splitter(const uint8_t* data, size_t size, size_t start, bool final, const CsvLayout& layout, CsvRecords& out)
      : data_(data), size_(size), at_(start), final_(final), layout_(layout), out_(out) {
    for (int c : {int(layout.delimiter), int('\n'), int('\r'), layout.quote}) {
      if (c >= 0) special_[c] = true;
    }
  }

  void run(int64_t max_rows) {
    for (int64_t row = 0; row < max_rows && at_ < size_; ++row) {
      const size_t begin = at_;
      const size_t fields = out_.fields.size(), problems = out_.problems.size();
      out_.fields.resize(fields + layout_.columns);
      if (!record(row, &out_.fields[fields])) {  // it continues beyond these bytes
        out_.fields.resize(fields);
        out_.problems.resize(problems);
        at_ = begin;
        break;
      }
      if (bad_) {
        out_.fields.resize(fields);  // many short records must not allocate room for many columns
      } else {
        out_.good.push_back(row);
      }
      out_.starts.push_back(int64_t(begin));
    }
    out_.starts.push_back(int64_t(at_));
  }

 private:
  enum class End { kField, kRecord, kMore };

  bool record(int64_t row, CsvField* fields) {
    bad_ = false;
    size_t found = 0;
    for (size_t number = 0;; ++number) {
      CsvField field;
      const End end = next(row, int64_t(number), field);
      if (end == End::kMore) return false;
      const int slot = number < layout_.slots.size() ? layout_.slots[number] : layout_.exact ? kBeyond : kIgnored;
      if (slot >= 0) {
        fields[slot] = field;
        ++found;
      } else if (slot == kBeyond) {
        report(row, CsvError::kTooMany, int64_t(number));
      }
      if (end == End::kRecord) {
        if (found < layout_.columns) report(row, CsvError::kTooFew, int64_t(number));
        return true;
      }
    }
  }

  End next(int64_t row, int64_t number, CsvField& field) {
    if (at_ < size_ && data_[at_] == layout_.quote) return quoted(row, number, field);
    field.start = at_;
    while (true) {
      while (at_ < size_ && !special_[data_[at_]]) ++at_;
      if (at_ == size_ || data_[at_] != layout_.quote || data_[at_] == layout_.delimiter) break;
      report(row, CsvError::kQuoteInside, number);
      ++at_;
    }
    field.stop = at_;
    return close();
  }

  End quoted(int64_t row, int64_t number, CsvField& field) {
    field.start = ++at_;
    while (true) {
      const void* quote = at_ < size_ ? std::memchr(data_ + at_, layout_.quote, size_ - at_) : nullptr;
      if (!quote) {
        if (!final_) return End::kMore;
        field.stop = at_ = size_;
        report(row, CsvError::kUnclosed, number);
        return End::kRecord;
      }
      at_ = size_t(static_cast<const uint8_t*>(quote) - data_) + 1;
      if (at_ == size_) {
        if (!final_) return End::kMore;
        field.stop = at_ - 1;
        return End::kRecord;
      }
      const uint8_t after = data_[at_];
      if (after == layout_.quote) {
        ++at_;
      } else if (after == layout_.delimiter || after == '\n' || after == '\r') {
        field.stop = at_ - 1;
        return close();
      } else {
        report(row, CsvError::kUnescaped, number);
      }
    }
  }

  // After a field: the delimiter, the end of the record, or the end of the bytes.
  End close() {
    if (at_ == size_) return final_ ? End::kRecord : End::kMore;
    const uint8_t c = data_[at_++];
    if (c == layout_.delimiter) {
      return at_ == size_ && !final_ ? End::kMore : End::kField;
    }
    if (c == '\r') {
      if (at_ == size_) return final_ ? End::kRecord : End::kMore;
      if (data_[at_] == '\n') ++at_;
    }
    return End::kRecord;
  }

  void report(int64_t row, CsvError error, int64_t field) {
    if (!bad_) out_.problems.push_back({row, error, field});
    bad_ = true;
  }

  const uint8_t* data_;
  size_t size_, at_;
  bool final_;
  const CsvLayout& layout_;
  CsvRecords& out_;
  bool bad_ = false;
  bool special_[256] = {};
};

bool missing(const char* begin, const char* end, const std::string& na) {
  const size_t length = size_t(end - begin);
  return length == 0 || (length == na.size() && std::memcmp(begin, na.data(), length) == 0);
}

template <typename T, typename Parse>
void convert(const uint8_t* data, const CsvLayout& layout, size_t column, T fallback, Parse parse, const CsvRecords& records,
             std::vector<CsvProblem>& problems, T* out) {
  const size_t rows = records.good.size();
  const bool required = layout.required[column];
  for (size_t row = 0; row < rows; ++row) {
    const CsvField field = records.fields[row * layout.columns + column];
    const char* begin = reinterpret_cast<const char*>(data) + field.start;
    const char* end = reinterpret_cast<const char*>(data) + field.stop;
    out[row] = fallback;
    if (missing(begin, end, layout.na)) {
      if (required) problems.push_back({records.good[row], CsvError::kMissing, int64_t(column)});
    } else if (!parse(begin, end, out[row])) {
      problems.push_back({records.good[row], CsvError::kNoNumber, int64_t(column)});
    }
  }
}

}  // namespace

void csv_split(const uint8_t* data, size_t size, size_t start, int64_t max_rows, bool final, const CsvLayout& layout,
               CsvRecords& out) {
  Splitter(data, size, start, final, layout, out).run(max_rows);
}

int64_t count_line_ends(const uint8_t* data, size_t size) {
  constexpr size_t kStretch = 128;  // counts of this many bytes fit into one byte: the loop becomes vector instructions
  int64_t ends = 0;
  for (size_t start = 0; start < size; start += kStretch) {
    const size_t stop = std::min(size, start + kStretch), last = std::min(stop, size - 1);
    uint8_t count = 0;
    for (size_t i = start; i < last; ++i) count += (data[i] == '\n') + ((data[i] == '\r') & (data[i + 1] != '\n'));
    ends += count;
  }
  return ends + (size && (data[size - 1] == '\n' || data[size - 1] == '\r'));
}

void csv_convert(const uint8_t* data, const CsvLayout& layout, size_t column, CsvNumber fallback, const CsvRecords& records,
                 std::vector<CsvProblem>& problems, void* out) {
  const auto run = [&](auto value, auto parse) {
    convert(data, layout, column, value, parse, records, problems, static_cast<decltype(value)*>(out));
  };
  switch (layout.kinds[column]) {
    case CsvKind::kInt32: return run(int32_t(fallback.integer), parsed_integer<int32_t>);
    case CsvKind::kInt64: return run(int64_t(fallback.integer), parsed_integer<int64_t>);
    case CsvKind::kFloat32: return run(float(fallback.real), parsed_float<float>);
    case CsvKind::kFloat64: return run(double(fallback.real), parsed_float<double>);
    case CsvKind::kText: return;
  }
}

size_t csv_text_bytes(const CsvLayout& layout, size_t column, const std::string& fallback, const CsvRecords& records) {
  size_t bytes = 0;
  for (size_t at = column; at < records.fields.size(); at += layout.columns) {
    bytes += std::max(records.fields[at].stop - records.fields[at].start, fallback.size());
  }
  return bytes;
}

size_t csv_text(const uint8_t* data, const CsvLayout& layout, size_t column, const std::string& fallback,
                const CsvRecords& records, std::vector<CsvProblem>& problems, int64_t* offsets, uint8_t* out) {
  const size_t rows = records.good.size();
  size_t used = 0;
  offsets[0] = 0;
  for (size_t row = 0; row < rows; ++row) {
    const CsvField field = records.fields[row * layout.columns + column];
    const uint8_t* begin = data + field.start;
    const uint8_t* end = data + field.stop;
    if (missing(reinterpret_cast<const char*>(begin), reinterpret_cast<const char*>(end), layout.na)) {
      if (layout.required[column]) problems.push_back({records.good[row], CsvError::kMissing, int64_t(column)});
      std::memcpy(out + used, fallback.data(), fallback.size());
      used += fallback.size();
    } else if (layout.quote < 0 || !std::memchr(begin, layout.quote, size_t(end - begin))) {
      std::memcpy(out + used, begin, size_t(end - begin));
      used += size_t(end - begin);
    } else {
      for (; begin < end; ++begin) {
        out[used++] = *begin;
        if (*begin == layout.quote && begin + 1 < end && begin[1] == layout.quote) ++begin;
      }
    }
    offsets[row + 1] = int64_t(used);
  }
  return used;
}

}  // namespace headrace
