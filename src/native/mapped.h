// Files as memory. Where one has been cut short, or cannot be read, there are zeros instead of a signal that ends the
// process, and `intact` says so: who has looked at the memory asks before it believes what it saw.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>

namespace headrace {

// What a file was when somebody looked at it: another one, or one that was changed, differs in some of it.
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

// Have the handler of SIGBUS be ours, whoever has set one since: before mapped memory is looked at.
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

  // Whether all that was read so far were bytes of the file, which is as long as it was, as far as that can be told.
  bool intact() const;

  // Closes the file; the memory stays. From here on nobody can tell whether the file has become shorter within a page.
  void close_file();

  // Takes the pages from one place to before another out of this process's own view; they are read again if need be.
  void release(size_t start, size_t stop) const;

 private:
  int descriptor_;
  size_t size_;
  const uint8_t* data_;
  GuardedRange* range_;
};

// The bytes of one object whose parts lie in different files, or come from elsewhere: each part is put where it belongs.
// What was not put there, or was taken away, must not be looked at.
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

  // The first `count` bytes of the file of this name, which counts as a use of it, if it is what it was. Throws
  // std::system_error.
  bool put_known(const char* path, const FileStamp& was, size_t start, size_t count);

  // These bytes, copied. Throws std::system_error.
  void put_copy(const uint8_t* bytes, size_t start, size_t count);

  // Takes the part that begins here away.
  void take_away(size_t start);

  // Whether all that was read so far were bytes that were put there, of files that are as long as they were.
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
