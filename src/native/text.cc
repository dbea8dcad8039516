#include <cstring>

#include "kernels.h"

namespace headrace {

void text_pick(const Spans* parts, const int64_t* which, const int64_t* rows, int64_t count, Growing<uint8_t>& out,
               int64_t* offsets) {
  offsets[0] = 0;
  for (int64_t i = 0; i < count; ++i) offsets[i + 1] = offsets[i] + parts[which[i]].size(rows[i]);
  uint8_t* to = out.extend(size_t(offsets[count]));
  for (int64_t i = 0; i < count; ++i) {
    const Spans& part = parts[which[i]];
    const size_t bytes = size_t(offsets[i + 1] - offsets[i]);
    if (bytes) std::memcpy(to + offsets[i], part.data + part.starts[rows[i]], bytes);
  }
}

void text_join(const Spans* parts, size_t count, Growing<uint8_t>& out, int64_t* offsets) {
  int64_t* at = offsets;
  *at = 0;
  for (size_t p = 0; p < count; ++p) {
    for (int64_t i = 0; i < parts[p].rows; ++i, ++at) at[1] = at[0] + parts[p].size(i);
  }
  uint8_t* to = out.extend(size_t(*at));
  for (size_t p = 0; p < count; ++p) {
    const Spans& part = parts[p];
    for (int64_t i = 0; i < part.rows;) {  // rows that lie one after another are copied in one go
      const int64_t first = i;
      while (++i < part.rows && part.starts[i] == part.stops[i - 1]) continue;
      const size_t bytes = size_t(part.stops[i - 1] - part.starts[first]);
      if (bytes) std::memcpy(to, part.data + part.starts[first], bytes);
      to += bytes;
    }
  }
}

}  // namespace headrace
