// CSV: any bytes, cut into records and converted.
#include <vector>

#include "../../src/native/kernels.h"
#include "check.h"

using namespace headrace;

namespace {

CsvLayout layout(uint8_t mode) {
  CsvLayout made;
  made.delimiter = mode & 1 ? ',' : ';';
  made.quote = mode & 2 ? '"' : -1;
  made.na = mode & 4 ? "NA" : "";
  made.exact = mode & 8;
  made.kinds = {CsvKind::kInt32, CsvKind::kFloat64, CsvKind::kText, CsvKind::kInt64, CsvKind::kFloat32};
  made.columns = made.kinds.size();
  made.slots = mode & 16 ? std::vector<int>{0, 1, 2, 3, 4} : std::vector<int>{-1, 0, 1, -1, 2, 3, 4};
  made.required.assign(made.columns, mode & 32);
  return made;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (!size) return 0;
  const CsvLayout form = layout(data[0]);
  for (const bool final : {false, true}) {
    CsvRecords records;
    csv_split(data + 1, size - 1, 0, data[0] & 64 ? 3 : INT64_MAX, final, form, records);
    const size_t rows = records.good.size();
    CHECK(records.fields.size() == rows * form.columns);
    for (const CsvField& field : records.fields) CHECK(field.start <= field.stop && field.stop <= size - 1);
    for (size_t i = 1; i < records.starts.size(); ++i) CHECK(records.starts[i - 1] <= records.starts[i]);
    CHECK(records.starts.empty() || size_t(records.starts.back()) <= size - 1);
    std::vector<CsvProblem> problems;
    for (size_t column = 0; column < form.columns; ++column) {
      if (form.kinds[column] == CsvKind::kText) {
        const std::string fallback = "none";
        std::vector<uint8_t> text(csv_text_bytes(form, column, fallback, records));
        std::vector<int64_t> offsets(rows + 1);
        CHECK(text.size() <= size + rows * fallback.size());
        CHECK(csv_text(data + 1, form, column, fallback, records, problems, offsets.data(), text.data()) <= text.size());
      } else {
        std::vector<int64_t> numbers(rows);
        csv_convert(data + 1, form, column, CsvNumber{}, records, problems, numbers.data());
      }
    }
  }
  return 0;
}
