// Copies of a few bytes, many times over.
#pragma once

#include <cstddef>
#include <type_traits>

namespace headrace {

// Call `work` with a number of bytes: as a constant if it is a common one, because a call to copy a few bytes takes
// longer than the copy.
template <typename Work>
auto with_bytes(size_t bytes, Work work) {
  switch (bytes) {
    case 1: return work(std::integral_constant<size_t, 1>());
    case 2: return work(std::integral_constant<size_t, 2>());
    case 4: return work(std::integral_constant<size_t, 4>());
    case 8: return work(std::integral_constant<size_t, 8>());
    case 16: return work(std::integral_constant<size_t, 16>());
    case 32: return work(std::integral_constant<size_t, 32>());
    default: return work(bytes);
  }
}

}  // namespace headrace
