// Files as memory. If one has been truncated, or cannot be read, there are zeros instead of a signal that ends the
// process, and `intact` reports it: readers of the memory check it before they trust what they read.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>

namespace headrace {

// The stat of a file: another one, or one that was changed, differs in some field.
struct FileStamp {
  uint64_t device;
  uint64_t inode;
  uint64_t size;
  int64_t changed;  // in nanoseconds
};

// Memory that the handler of SIGBUS knows.
struct GuardedRange {
  std::atomic<uintptr_t> start{0};
  std::atomic<uintptr_t> stop{0};  // 0: not in use
  std::atomic<bool> hit{false};
};

// Install our SIGBUS handler again, if another was installed since: before mapped memory is read.
void guard_mapped();

class MappedFile {
 public:
  // The first `size` bytes of an open file. Throws std::system_error.
  MappedFile(int descriptor, size_t size);
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  const uint8_t* data() const { return data_; }
  size_t size() const { return size_; }

  // Whether all that was read so far were bytes of the file, and it has its old length, as far as can be determined.
  bool intact() const;

  // Closes the file; the memory stays. From here on it is unknown whether the file has become shorter within a page.
  void close_file();

  // Map the pages between two offsets in one call, if the system can: faster than a fault for every few of them.
  void load(size_t start, size_t stop) const;

  // Unmap the pages between two offsets from this process; they are read again on access.
  void release(size_t start, size_t stop) const;

 private:
  int descriptor_;
  size_t size_;
  const uint8_t* data_;
  GuardedRange* range_;
};

// The bytes of one object whose parts are in different files, or come from elsewhere: each part is mapped at its
// offset. Parts that are not mapped, or were removed, must not be read.
class MappedParts {
 public:
  explicit MappedParts(size_t size);
  MappedParts(const MappedParts&) = delete;
  MappedParts& operator=(const MappedParts&) = delete;
  ~MappedParts();

  const uint8_t* data() const { return data_; }
  size_t size() const { return size_; }

  // Whether a part can begin here.
  static bool is_aligned(size_t start);

  // The first `count` bytes of an open file. Throws std::system_error.
  void put_file(int descriptor, size_t start, size_t count);

  // Map the first `count` bytes of the file of this name, updating its access time, if it is unchanged. Throws
  // std::system_error.
  bool put_known(const char* path, const FileStamp& was, size_t start, size_t count);

  // These bytes, copied. Throws std::system_error.
  void put_copy(const uint8_t* bytes, size_t start, size_t count);

  // Remove the part that begins here.
  void take_away(size_t start);

  // Whether all that was read so far were mapped bytes, of files that have their old length.
  bool intact() const;

 private:
  struct Part {
    int descriptor;  // -1: a copy
    size_t count;
  };

  void put_and_keep(int descriptor, size_t start, size_t count);
  void put(int descriptor, size_t start, size_t count, int protection, int flags);

  size_t size_;
  GuardedRange* range_;
  uint8_t* data_;
  std::map<size_t, Part> parts_;
};

}  // namespace headrace
