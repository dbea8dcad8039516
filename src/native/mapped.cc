#include "mapped.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

namespace headrace {
namespace {

constexpr size_t kRanges = 256;

// Ranges are added and never freed, so that the handler can walk them at any time.
struct Ranges {
  GuardedRange ranges[kRanges];
  std::atomic<Ranges*> next{nullptr};
};

Ranges first_ranges;
struct sigaction previous;
std::atomic<pthread_t> passing_on{};  // the thread that is in a handler of another library
std::atomic<size_t> page_bytes;

bool replaced_by_zeros(uintptr_t at) {
  for (Ranges* some = &first_ranges; some; some = some->next.load()) {
    for (GuardedRange& range : some->ranges) {
      const uintptr_t stop = range.stop.load();
      if (!stop || at >= stop || at < range.start.load()) continue;
      const uintptr_t page = at - at % page_bytes.load();
      void* const put = mmap(reinterpret_cast<void*>(page), stop - page, PROT_READ, MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS,
                             -1, 0);
      if (put == MAP_FAILED) return false;
      range.hit = true;
      return true;
    }
  }
  return false;
}

// Other signals go to the handler that was installed before. It may restore ours and raise the signal again, as
// Python's faulthandler does: then the process ends as it would without us.
void pass_on(int signal, siginfo_t* info, void* context) {
  pthread_t none{}, here = pthread_self();
  const bool again = pthread_equal(passing_on.load(), here);
  if (!again && previous.sa_flags & SA_SIGINFO) {
    passing_on.compare_exchange_strong(none, here);
    previous.sa_sigaction(signal, info, context);
  } else if (!again && previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN) {
    passing_on.compare_exchange_strong(none, here);
    previous.sa_handler(signal);
  } else {
    struct sigaction end = {};
    end.sa_handler = SIG_DFL;
    sigaction(signal, &end, nullptr);
    if (info->si_code <= 0) raise(signal);  // what faulted does so again
  }
  passing_on.compare_exchange_strong(here, pthread_t{});
}

void on_bus_error(int signal, siginfo_t* info, void* context) {
  const int error = errno;
  const bool fault = info->si_code > 0;  // else it was sent by a process
  if (!fault || !replaced_by_zeros(reinterpret_cast<uintptr_t>(info->si_addr))) pass_on(signal, info, context);
  errno = error;
}

// Other code may install handlers at any time: the next check puts ours first, and it calls theirs.
void be_the_handler() {
  struct sigaction ours = {}, there;
  ours.sa_sigaction = on_bus_error;
  ours.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
  sigemptyset(&ours.sa_mask);
  if (sigaction(SIGBUS, &ours, &there)) throw std::system_error(errno, std::generic_category());
  if (!(there.sa_flags & SA_SIGINFO) || there.sa_sigaction != on_bus_error) previous = there;
}

// No lock: a child that is forked while another thread holds it would wait forever.
GuardedRange* free_range() {
  for (Ranges* some = &first_ranges;; some = some->next.load()) {
    for (GuardedRange& range : some->ranges) {
      uintptr_t none = 0;
      if (range.start.compare_exchange_strong(none, UINTPTR_MAX)) return &range;
    }
    if (some->next.load()) continue;
    Ranges *const more = new Ranges, *none = nullptr;
    if (!some->next.compare_exchange_strong(none, more)) delete more;
  }
}

[[noreturn]] void fail(int error) { throw std::system_error(error, std::generic_category()); }

int duplicate(int descriptor) {
  const int made = fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
  if (made < 0) fail(errno);
  return made;
}

// Guard memory from now on; -1 for the descriptor if there is no file yet.
void* guarded(size_t size, int protection, int flags, int descriptor, GuardedRange*& range) {
  page_bytes = size_t(sysconf(_SC_PAGESIZE));
  be_the_handler();
  void* const memory = mmap(nullptr, size, protection, flags, descriptor, 0);
  if (memory == MAP_FAILED) fail(errno);
  range = free_range();
  range->hit = false;
  range->start = reinterpret_cast<uintptr_t>(memory);
  range->stop = reinterpret_cast<uintptr_t>(memory) + (size + page_bytes - 1) / page_bytes * page_bytes;
  return memory;
}

void let_go(const void* memory, size_t size, GuardedRange* range) {
  range->stop = 0;
  munmap(const_cast<void*>(memory), size);
  range->start = 0;
}

// Opening a file does not change its access time, if possible.
int open_unused(const char* path) {
  constexpr int flags = O_RDONLY | O_CLOEXEC;
#ifdef O_NOATIME
  const int descriptor = open(path, flags | O_NOATIME);
  if (descriptor >= 0 || errno != EPERM) return descriptor;  // else the file belongs to another user
#endif
  return open(path, flags);
}

bool is_same(int descriptor, const FileStamp& was) {
  struct stat found;
  if (fstat(descriptor, &found)) return false;
#ifdef __APPLE__
  const struct timespec changed = found.st_mtimespec;
#else
  const struct timespec changed = found.st_mtim;
#endif
  return uint64_t(found.st_dev) == was.device && uint64_t(found.st_ino) == was.inode &&
         uint64_t(found.st_size) == was.size && int64_t(changed.tv_sec) * 1000000000 + changed.tv_nsec == was.changed;
}

bool has_bytes(int descriptor, size_t size) {
  struct stat found;
  return !fstat(descriptor, &found) && size_t(found.st_size) >= size;
}

}  // namespace

void guard_mapped() { be_the_handler(); }

MappedFile::MappedFile(int descriptor, size_t size) : descriptor_(duplicate(descriptor)), size_(size) {
  try {
    data_ = static_cast<const uint8_t*>(guarded(size, PROT_READ, MAP_SHARED, descriptor_, range_));
  } catch (...) {
    close(descriptor_);
    throw;
  }
}

MappedFile::~MappedFile() {
  let_go(data_, size_, range_);
  close_file();
}

bool MappedFile::intact() const { return !range_->hit && (descriptor_ < 0 || has_bytes(descriptor_, size_)); }

void MappedFile::close_file() {
  const int descriptor = std::exchange(descriptor_, -1);
  if (descriptor >= 0) close(descriptor);
}

void MappedFile::release(size_t start, size_t stop) const {
  const size_t from = start / page_bytes * page_bytes, until = stop / page_bytes * page_bytes;
  if (from < until) madvise(const_cast<uint8_t*>(data_) + from, until - from, MADV_DONTNEED);
}

void MappedFile::load([[maybe_unused]] size_t start, [[maybe_unused]] size_t stop) const {
#ifdef MADV_POPULATE_READ  // an error is met again, and handled, where the bytes are read
  const size_t from = start / page_bytes * page_bytes;
  if (from < stop) madvise(const_cast<uint8_t*>(data_) + from, stop - from, MADV_POPULATE_READ);
#endif
}

constexpr int kNothing = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;

MappedParts::MappedParts(size_t size)
    : size_(size), data_(static_cast<uint8_t*>(guarded(size, PROT_NONE, kNothing, -1, range_))) {}

MappedParts::~MappedParts() {
  let_go(data_, size_, range_);
  for (const auto& [start, part] : parts_) {
    if (part.descriptor >= 0) close(part.descriptor);
  }
}

bool MappedParts::is_aligned(size_t start) { return start % size_t(sysconf(_SC_PAGESIZE)) == 0; }

void MappedParts::put(int descriptor, size_t start, size_t count, int protection, int flags) {
  if (mmap(data_ + start, count, protection, flags | MAP_FIXED, descriptor, 0) == MAP_FAILED) fail(errno);
}

void MappedParts::put_and_keep(int descriptor, size_t start, size_t count) {
  try {
    take_away(start);
    put(descriptor, start, count, PROT_READ, MAP_SHARED);
    parts_[start] = {descriptor, count};
  } catch (...) {
    close(descriptor);
    throw;
  }
}

void MappedParts::put_file(int descriptor, size_t start, size_t count) {
  put_and_keep(duplicate(descriptor), start, count);
}

bool MappedParts::put_known(const char* path, const FileStamp& was, size_t start, size_t count) {
  const int descriptor = open_unused(path);
  if (descriptor < 0) return false;
  if (!is_same(descriptor, was)) {
    close(descriptor);
    return false;
  }
  struct timespec times[2] = {};
  clock_gettime(CLOCK_REALTIME, &times[0]);
  times[1].tv_nsec = UTIME_OMIT;
  futimens(descriptor, times);  // which may be denied: a file of another user, a read-only disk
  put_and_keep(descriptor, start, count);
  return true;
}

void MappedParts::put_copy(const uint8_t* bytes, size_t start, size_t count) {
  take_away(start);
  put(-1, start, count, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS);
  std::memcpy(data_ + start, bytes, count);
  parts_[start] = {-1, count};
}

void MappedParts::take_away(size_t start) {
  const auto found = parts_.find(start);
  if (found == parts_.end()) return;
  put(-1, start, found->second.count, PROT_NONE, kNothing);
  if (found->second.descriptor >= 0) close(found->second.descriptor);
  parts_.erase(found);
}

bool MappedParts::intact() const {
  if (range_->hit) return false;
  for (const auto& [start, part] : parts_) {
    if (part.descriptor >= 0 && !has_bytes(part.descriptor, part.count)) return false;
  }
  return true;
}

}  // namespace headrace
