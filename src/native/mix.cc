#include <algorithm>
#include <utility>

#include "kernels.h"
#include "philox.h"

namespace headrace {
namespace {

constexpr int kBits = 30;  // of a share

// How many of the first n belong to the part with this share; grows by 0 or 1 with n.
int64_t part_of(int64_t n, int64_t share) {
  const int64_t mask = (int64_t(1) << kBits) - 1;
  return (n >> kBits) * share + (((n & mask) * share + (int64_t(1) << (kBits - 1))) >> kBits);
}

// Of n rows that the branches first to stop - 1 share, how many belong to each.
void count(const MixLaw& law, int64_t first, int64_t stop, int64_t n, int64_t* counts) {
  while (stop - first > 1) {
    const int64_t middle = first + (stop - first) / 2, left = part_of(n, law.shares[middle]);
    count(law, middle, stop, n - left, counts);
    stop = middle;
    n = left;
  }
  counts[first] = n;
}

// The branch of the n-th row, before rows are permuted.
int64_t branch_of(const MixLaw& law, int64_t n) {
  int64_t first = 0, stop = law.branches;
  while (stop - first > 1) {
    const int64_t middle = first + (stop - first) / 2;
    const int64_t left = part_of(n, law.shares[middle]);
    if (part_of(n + 1, law.shares[middle]) > left) {
      stop = middle;
      n = left;
    } else {
      first = middle;
      n -= left;
    }
  }
  return first;
}

}  // namespace

MixBlock::MixBlock(const MixLaw& law) : law_(law), before_(size_t(law.branches)) {}

void MixBlock::enter(int64_t number) {
  if (number == number_) return;
  number_ = number;
  const int64_t first = number * kRows;
  count(law_, 0, law_.branches, first, before_.data());
  for (int64_t i = 0; i < kRows; ++i) branches_[i] = branch_of(law_, first + i);
  Draws draw(law_.key);
  for (int64_t i = kRows - 1; i > 0; --i) std::swap(branches_[i], branches_[draw(first + i, i + 1)]);
  std::vector<int64_t> next = before_;
  for (int64_t i = 0; i < kRows; ++i) rows_[i] = next[size_t(branches_[i])]++;
}

void mix_rows(const MixLaw& law, const int64_t* indices, int64_t count, int64_t* branches, int64_t* rows) {
  MixBlock block(law);
  for (int64_t i = 0; i < count; ++i) {
    block.enter(indices[i] / MixBlock::kRows);
    const int64_t place = indices[i] % MixBlock::kRows;
    branches[i] = block.branch(place);
    rows[i] = block.row(place);
  }
}

void mix_counts(const MixLaw& law, int64_t n, int64_t* counts) {
  MixBlock block(law);
  block.enter(n / MixBlock::kRows);
  std::copy(block.before().begin(), block.before().end(), counts);
  for (int64_t i = 0; i < n % MixBlock::kRows; ++i) ++counts[block.branch(i)];
}

}  // namespace headrace
