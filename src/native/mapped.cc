#include "mapped.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

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
std::atomic<pthread_t> passing_on{};  // the thread that is in a handler of others
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

// What is none of our business goes to the handler that was there before. It may put ours back and send the signal once
// more, as Python's faulthandler does: then the process ends as it would have done without us.
void pass_on(int signal, siginfo_t* info, void* context) {
  pthread_t nobody{}, here = pthread_self();
  const bool again = pthread_equal(passing_on.load(), here);
  if (!again && previous.sa_flags & SA_SIGINFO) {
    passing_on.compare_exchange_strong(nobody, here);
    previous.sa_sigaction(signal, info, context);
  } else if (!again && previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN) {
    passing_on.compare_exchange_strong(nobody, here);
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
  const bool fault = info->si_code > 0;  // else somebody sent it
  if (!fault || !replaced_by_zeros(reinterpret_cast<uintptr_t>(info->si_addr))) pass_on(signal, info, context);
  errno = error;
}

// Others may set handlers of their own at any time: ours comes first from the next file on, and calls theirs.
void be_the_handler() {
  struct sigaction ours = {}, there;
  ours.sa_sigaction = on_bus_error;
  ours.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
  sigemptyset(&ours.sa_mask);
  if (sigaction(SIGBUS, &ours, &there)) throw std::system_error(errno, std::generic_category());
  if (!(there.sa_flags & SA_SIGINFO) || there.sa_sigaction != on_bus_error) previous = there;
}

// No lock: a process that is forked while another thread held one would wait for it for ever.
GuardedRange* free_range() {
  for (Ranges* some = &first_ranges;; some = some->next.load()) {
    for (GuardedRange& range : some->ranges) {
      uintptr_t nobody = 0;
      if (range.start.compare_exchange_strong(nobody, UINTPTR_MAX)) return &range;
    }
    if (some->next.load()) continue;
    Ranges *const more = new Ranges, *none = nullptr;
    if (!some->next.compare_exchange_strong(none, more)) delete more;
  }
}

}  // namespace

MappedFile::MappedFile(int descriptor, size_t size) : size_(size) {
  page_bytes = size_t(sysconf(_SC_PAGESIZE));
  be_the_handler();
  descriptor_ = fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
  if (descriptor_ < 0) throw std::system_error(errno, std::generic_category());
  void* const memory = mmap(nullptr, size, PROT_READ, MAP_SHARED, descriptor_, 0);
  if (memory == MAP_FAILED) {
    const int error = errno;
    close(descriptor_);
    throw std::system_error(error, std::generic_category());
  }
  data_ = static_cast<const uint8_t*>(memory);
  range_ = free_range();
  range_->hit = false;
  range_->start = reinterpret_cast<uintptr_t>(memory);
  range_->stop = reinterpret_cast<uintptr_t>(memory) + (size + page_bytes - 1) / page_bytes * page_bytes;
}

MappedFile::~MappedFile() {
  range_->stop = 0;
  munmap(const_cast<uint8_t*>(data_), size_);
  close(descriptor_);
  range_->start = 0;
}

bool MappedFile::intact() const {
  struct stat found;
  return !range_->hit && !fstat(descriptor_, &found) && size_t(found.st_size) >= size_;
}

void MappedFile::release(size_t start, size_t stop) const {
  const size_t from = start / page_bytes * page_bytes, until = stop / page_bytes * page_bytes;
  if (from < until) madvise(const_cast<uint8_t*>(data_) + from, until - from, MADV_DONTNEED);
}

}  // namespace headrace
