// A file as memory. Where it has been cut short, or cannot be read, there are zeros instead of a signal that ends the
// process, and `intact` says so: who has looked at the memory asks before it believes what it saw.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace headrace {

// Memory that the handler of SIGBUS knows.
struct GuardedRange {
  std::atomic<uintptr_t> start{0};
  std::atomic<uintptr_t> stop{0};  // 0: not in use
  std::atomic<bool> hit{false};
};

class MappedFile {
 public:
  // The first `size` bytes of an open file. Throws std::system_error.
  MappedFile(int descriptor, size_t size);
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  const uint8_t* data() const { return data_; }
  size_t size() const { return size_; }

  // Whether all that was read so far were bytes of the file, which is as long as it was.
  bool intact() const;

  // Takes the pages from one place to before another out of this process's own view; they are read again if need be.
  void release(size_t start, size_t stop) const;

 private:
  int descriptor_;
  size_t size_;
  const uint8_t* data_;
  GuardedRange* range_;
};

}  // namespace headrace
