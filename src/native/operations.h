// Python operators on bytes.
#pragma once

#include <vector>

#include "image.h"
#include "python.h"

namespace headrace::python {

inline std::vector<headrace::Operation> operations_of(const ConstInts& what, const ConstFloats& numbers) {
  require(what.shape(0) >= 1 && what.shape(0) == numbers.shape(0), "as many numbers as operations");
  std::vector<headrace::Operation> operations;
  for (size_t i = 0; i < what.shape(0); ++i) {
    require(what.data()[i] >= headrace::kAdd && what.data()[i] <= headrace::kDivide, "no such operation");
    operations.push_back({headrace::Arithmetic(what.data()[i]), numbers.data()[i]});
  }
  return operations;
}

}  // namespace headrace::python
