#include <cstring>

#include "kernels.h"
#include "team.h"

namespace headrace {

void gather(const uint8_t* rows, size_t row_bytes, const int64_t* indices, int64_t count, uint8_t* out) {
  in_pieces(count, grain_of(count, count * int64_t(row_bytes)), [=](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      std::memcpy(out + size_t(i) * row_bytes, rows + size_t(indices[i]) * row_bytes, row_bytes);
    }
  });
}

}  // namespace headrace
