#include "example.h"

namespace headrace {
namespace {

// The values `first` to `last` of a column, and what they take on the wire at each level of nesting.
struct Cell {
  int64_t first, last;
  size_t values, list, feature, entry;
};

size_t delimited(size_t length) { return 1 + varint_size(length) + length; }

size_t values_size(const Written& column, int64_t first, int64_t last) {
  size_t size = 0;
  switch (column.kind) {
    case Kind::kInt64:
      for (int64_t i = first; i < last; ++i) size += varint_size(uint64_t(static_cast<const int64_t*>(column.values)[i]));
      return size;
    case Kind::kFloat:
      return size_t(last - first) * 4;
    default:
      for (int64_t i = first; i < last; ++i) size += delimited(size_t(column.byte_ends[i + 1] - column.byte_ends[i]));
      return size;
  }
}

Cell measure(const Written& column, int64_t row) {
  Cell cell;
  cell.first = column.splits ? column.splits[row] : row * column.size;
  cell.last = column.splits ? column.splits[row + 1] : (row + 1) * column.size;
  cell.values = values_size(column, cell.first, cell.last);
  const bool packed = column.kind != Kind::kBytes && cell.first < cell.last;
  cell.list = packed ? delimited(cell.values) : cell.values;
  cell.feature = delimited(cell.list);
  cell.entry = delimited(column.name.size()) + delimited(cell.feature);
  return cell;
}

uint8_t* put_values(const Written& column, const Cell& cell, uint8_t* out) {
  if (column.kind == Kind::kBytes) {
    for (int64_t i = cell.first; i < cell.last; ++i) {
      const size_t size = size_t(column.byte_ends[i + 1] - column.byte_ends[i]);
      out = put_header(1, size, out);
      out = put_bytes(static_cast<const uint8_t*>(column.values) + column.byte_ends[i], size, out);
    }
    return out;
  }
  if (cell.first == cell.last) return out;
  out = put_header(1, cell.values, out);
  if (column.kind == Kind::kFloat) return put_bytes(static_cast<const float*>(column.values) + cell.first, cell.values, out);
  for (int64_t i = cell.first; i < cell.last; ++i) {
    out = put_varint(uint64_t(static_cast<const int64_t*>(column.values)[i]), out);
  }
  return out;
}

}  // namespace

void encode_examples(const std::vector<Written>& columns, int64_t rows, Growing<uint8_t>& out, int64_t* offsets) {
  std::vector<Cell> cells(columns.size());
  offsets[0] = 0;
  for (int64_t row = 0; row < rows; ++row) {
    size_t features = 0;
    for (size_t i = 0; i < columns.size(); ++i) {
      cells[i] = measure(columns[i], row);
      features += delimited(cells[i].entry);
    }
    uint8_t* at = out.extend(delimited(features));
    at = put_header(1, features, at);
    for (size_t i = 0; i < columns.size(); ++i) {
      const Written& column = columns[i];
      at = put_header(1, cells[i].entry, at);
      at = put_header(1, column.name.size(), at);
      at = put_bytes(column.name.data(), column.name.size(), at);
      at = put_header(2, cells[i].feature, at);
      at = put_header(uint32_t(column.kind), cells[i].list, at);
      at = put_values(column, cells[i], at);
    }
    offsets[row + 1] = int64_t(out.size());
  }
}

}  // namespace headrace
