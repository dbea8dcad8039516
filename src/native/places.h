// References to records in mapped files.
#pragma once

#include <vector>

#include "kernels.h"
#include "mapped.h"
#include "python.h"

namespace headrace::python {

// Either for each record the number of its file, its begin and end offsets, and its own number; or the offsets of
// consecutive records of one file, and the end of the last one.
using ConstWhere = nb::ndarray<const int64_t, nb::c_contig, nb::device::cpu>;

class Places {
 public:
  Places(nb::list files, ConstWhere where) : where_(where) {
    for (nb::handle each : files) {
      files_.push_back(nb::cast<const headrace::MappedFile*>(each));
      require(files_.back(), "a file that is mapped");
      parts_.push_back(files_.back()->data());
    }
    used_.resize(files_.size());
    const int64_t* data = where.data();
    if (where.ndim() == 1) {
      require(where.shape(0) > 0 && files_.size() == 1, "bounds of records in one file");
      count_ = int64_t(where.shape(0)) - 1;
      ranges_ = {parts_.data(), nullptr, 0, data, 1};
    } else {
      require(where.ndim() == 2 && where.shape(1) == 4, "four numbers a record");
      count_ = int64_t(where.shape(0));
      ranges_ = {parts_.data(), data, 4, data + 1, 4};
    }
    for (int64_t i = 0; i < count_; ++i) {
      const size_t file = ranges_.which ? size_t(data[4 * i]) : 0;
      require(file < files_.size(), "no such file");
      const int64_t begin = ranges_.begin(i), end = ranges_.end(i);
      require(0 <= begin && begin <= end && size_t(end) <= files_[file]->size(), "bounds out of range");
      used_[file] = true;
      bytes_ += size_t(end - begin);
    }
  }

  // Whether what was read were bytes of the files; checked with the GIL, because other threads may close them.
  bool intact() const {
    for (size_t i = 0; i < files_.size(); ++i) {
      if (used_[i] && !files_[i]->intact()) return false;
    }
    return true;
  }

  int64_t count() const { return count_; }
  size_t bytes() const { return bytes_; }

  // How many of the records from one on have, together, at least this many bytes, or are all that are left.
  int64_t some(int64_t first, size_t bytes) const {
    int64_t end = first;
    for (size_t seen = 0; end < count_ && seen < bytes; ++end) seen += size_t(ranges_.end(end) - ranges_.begin(end));
    return end - first;
  }

  bool verify(int64_t begin, int64_t end) const { return headrace::verify_at(ranges_.from(begin), end - begin, true); }

  // Copy the data of some records, as values and offsets; false if a checksum does not match the copy.
  bool copy(int64_t begin, int64_t end, headrace::Growing<uint8_t>& values, headrace::Growing<int64_t>& offsets) const {
    return headrace::copy_verified(ranges_.from(begin), end - begin, true, values, offsets);
  }

 private:
  ConstWhere where_;  // stays alive with it
  std::vector<const headrace::MappedFile*> files_;
  std::vector<const uint8_t*> parts_;
  headrace::RecordRanges ranges_;
  std::vector<bool> used_;
  int64_t count_ = 0;
  size_t bytes_ = 0;
};

}  // namespace headrace::python
