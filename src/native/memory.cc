#include "kernels.h"
#include "pool.h"

#include <pthread.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <system_error>
#include <thread>

#if defined(__GLIBC__)
#include <malloc.h>
#endif

namespace headrace {
namespace {

constexpr std::chrono::milliseconds kPause(200);  // the next epoch may begin at once, and reuses the memory
constexpr int64_t kWorth = 8 << 20;               // less idle memory than this may stay

// Returns idle memory to the system once no pass has run for a moment. A thread exists only to wait for that.
class Idle {
 public:
  void begin() {
    std::lock_guard<std::mutex> held(lock_);
    ++passes_;
  }

  void end(bool worth) {
    std::lock_guard<std::mutex> held(lock_);
    --passes_;
    wanted_ = wanted_ || worth;
    if (!passes_ && (wanted_ || pool_stats().idle > kWorth)) wait();
  }

  // Memory was freed, maybe after the last pass.
  void noted() {
    if (passes_.load(std::memory_order_relaxed)) return;
    std::lock_guard<std::mutex> held(lock_);
    if (!passes_) wait();
  }

  std::mutex& lock() { return lock_; }
  void forked() { waiting_ = false; }  // the thread does not exist in the child

 private:
  void wait() {
    due_ = std::chrono::steady_clock::now() + kPause;
    if (waiting_) return;
    try {
      std::thread([this] { give_back(); }).detach();
      waiting_ = true;
    } catch (const std::system_error&) {  // no more threads: idle memory stays until the next pass ends
    }
  }

  void give_back() {
    for (;;) {
      std::unique_lock<std::mutex> held(lock_);
      if (passes_) {
        waiting_ = false;
        return;
      }
      const auto due = due_;
      if (std::chrono::steady_clock::now() >= due) {
        waiting_ = wanted_ = false;
        break;
      }
      held.unlock();
      std::this_thread::sleep_until(due);
    }
    release_memory();
  }

  std::mutex lock_;
  std::atomic<int> passes_{0};
  bool waiting_ = false;
  bool wanted_ = false;  // a pass moved enough to trim the heap, whatever the pool holds
  std::chrono::steady_clock::time_point due_;
};

Idle& idle() {
  static Idle* made = [] {
    pool_stats();  // a fork takes the locks in the order of this function, if the pool is created first
    Idle* fresh = new Idle();  // never destroyed: its thread may outlive everything else
    pthread_atfork([] { idle().lock().lock(); }, [] { idle().lock().unlock(); },
                   [] {
                     idle().forked();
                     idle().lock().unlock();
                   });
    return fresh;
  }();
  return *made;
}

}  // namespace

void pass_begins() { idle().begin(); }
void pass_ends(bool worth) { idle().end(worth); }

void memory_comes_back(int64_t idle_bytes) {
  if (idle_bytes > kWorth) idle().noted();
}

bool keep_heap() {
#if defined(__GLIBC__)
  // By default allocations larger than 128 kB are mapped anew for each array, and every page of it costs a fault.
  return mallopt(M_MMAP_THRESHOLD, 32 << 20) == 1 && mallopt(M_TRIM_THRESHOLD, 64 << 20) == 1;
#else
  return false;
#endif
}

void release_memory() {
  pool_trim();
#if defined(__GLIBC__)
  malloc_trim(0);
#endif
}

}  // namespace headrace
