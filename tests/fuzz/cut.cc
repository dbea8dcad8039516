// Cutters: with any bytes each cut is where the parser, or a scan byte by byte, has a record begin, and counts what it does.
#include <algorithm>
#include <vector>

#include "../../src/native/cut.h"
#include "../../src/native/kernels.h"
#include "../../src/native/tar.h"
#include "check.h"

using namespace headrace;

namespace {

bool is_line_end(const uint8_t* data, size_t size, size_t i, bool returns) {
  return data[i] == '\n' || (returns && data[i] == '\r' && (i + 1 == size || data[i + 1] != '\n'));
}

// What a cutter should find, of where records begin: after each cut, of the records from `target` to twice as many bytes
// behind it the first whose number is a multiple of `group`, else the first behind them.
CutPoints expected(const CutInput& input, const std::vector<size_t>& starts, bool count_lines, bool returns) {
  CutPoints made;
  int64_t lines = input.lines;
  const size_t target = size_t(input.target);
  size_t counted = input.start, last = 0;
  const auto is_cut = [&](size_t i) {
    const int64_t row = input.rows + int64_t(i);
    const bool preferred = (input.before + row) % input.group == 0;
    return row >= 1 && starts[i] >= last + (preferred ? target : 2 * target);
  };
  for (size_t i = 0; i < starts.size(); ++i) {
    for (; counted < starts[i]; ++counted) lines += count_lines && is_line_end(input.data, input.size, counted, returns);
    if (!is_cut(i)) continue;
    made.offsets.push(int64_t(starts[i]));
    made.rows.push(input.rows + int64_t(i));
    made.lines.push(lines);
    last = starts[i];
  }
  return made;
}

bool same(const Growing<int64_t>& one, const Growing<int64_t>& other) {
  return one.size() == other.size() && std::equal(one.data(), one.data() + one.size(), other.data());
}

template <typename Cut>
void compare(CutInput input, const CutPoints& expected, Cut cut) {
  for (const bool portable : {false, true}) {
    CutPoints found;
    input.portable = portable;
    cut(input, found);
    CHECK(same(found.offsets, expected.offsets) && same(found.rows, expected.rows) && same(found.lines, expected.lines));
  }
}

// The first bytes of lines in which there is another byte than those of `blank` (of text, that are not the last).
std::vector<size_t> line_starts(const CutInput& input, bool json) {
  std::vector<size_t> starts;
  for (size_t at = input.start; at < input.size;) {
    const size_t end = size_t(std::find(input.data + at, input.data + input.size, uint8_t('\n')) - input.data);
    const bool text = std::any_of(input.data + at, input.data + end, [&](uint8_t c) {
      return json ? c != ' ' && c != '\t' && c != '\v' && c != '\f' && c != '\r' : c != '\r';
    });
    if (text || (!json && end < input.size)) starts.push_back(at);
    at = end + 1;
  }
  return starts;
}

void csv(CutInput input, uint8_t mode) {
  CsvLayout form;
  form.delimiter = mode & 1 ? ',' : ';';
  form.quote = mode & 2 ? '"' : -1;
  form.exact = false;
  form.kinds = {CsvKind::kText};
  form.columns = 1;
  form.slots = {0};
  form.required = {false};
  input.rows = mode & 4 ? 1 : 0;
  input.lines = mode & 8 ? 3 : 0;
  for (const bool final : {false, true}) {
    CsvRecords records;
    csv_split(input.data, input.size, input.start, INT64_MAX, final, form, records);
    std::vector<size_t> starts;
    for (const int64_t start : records.starts) {
      if (size_t(start) < input.size) starts.push_back(size_t(start));
    }
    compare(input, expected(input, starts, true, true), [&](const CutInput& given, CutPoints& out) {
      cut_csv(given, form.delimiter, form.quote, out);
    });
  }
}

void check_tar(const std::vector<uint8_t>& data, uint8_t mode) {
  const TarInput input{data.data(), data.size(), mode & 1 ? 2 : INT64_MAX, bool(mode & 2), bool(mode & 4), {"x", "y"}};
  TarSamples found;
  tar_samples(input, found);
  const size_t count = found.begins.size();
  CHECK(found.ends.size() == count && found.key_offsets.size() == count + 1 && int64_t(count) <= input.most);
  CHECK(found.end == TarEnd::kForeign || found.contents.size() == 4 * count);
  CHECK(size_t(found.key_offsets[count]) == found.keys.size());
  CHECK(found.stopped >= 0 && size_t(found.stopped) <= data.size());
  for (size_t i = 0; i < count; ++i) {
    CHECK(found.begins[i] < found.ends[i] && (i == 0 || found.ends[i - 1] <= found.begins[i]));
    CHECK(size_t(found.ends[i]) < data.size() + 512);
    for (size_t f = 4 * i; f < 4 * i + 4; f += 2) {
      const int64_t start = found.contents[f], stop = found.contents[f + 1];
      CHECK((start == -1 && stop == -1) || (found.begins[i] < start && start <= stop && stop <= found.ends[i]));
      CHECK(stop <= int64_t(data.size()));
    }
  }
}

// Sets the checksums of headers right, as far as sizes lead.
void repair(std::vector<uint8_t>& data) {
  for (size_t at = 0; at < data.size() && data.size() - at >= 512;) {
    uint8_t* const header = data.data() + at;
    std::fill(header + 148, header + 156, ' ');
    unsigned sum = 0;
    for (size_t i = 0; i < 512; ++i) sum += header[i];
    for (size_t i = 0; i < 6; ++i) header[153 - i] = uint8_t('0' + (sum >> (3 * i) & 7));
    header[154] = 0;
    size_t size = 0;
    for (size_t i = 124; i < 136 && header[i] >= '0' && header[i] <= '7'; ++i) size = size << 3 | size_t(header[i] - '0');
    at += 512 + (size + 511) / 512 * 512;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 4) return 0;
  const uint8_t mode = data[0], target = data[1], start = data[2], groups = data[3];
  data += 4;
  size -= 4;
  CutInput input{data, size, 0, 1 + target * (target & 1)};
  input.start = std::min(size_t(start & 3), input.size);
  input.group = 1 + (groups & 7);
  input.before = groups >> 3;
  compare(input, expected(input, line_starts(input, false), false, false), cut_text);
  compare(input, expected(input, line_starts(input, true), true, false), cut_json_lines);
  csv(input, mode);
  std::vector<uint8_t> archive(data, data + size);
  check_tar(archive, mode);
  repair(archive);
  check_tar(archive, mode);
  return 0;
}
