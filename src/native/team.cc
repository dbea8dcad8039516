#include "team.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <new>
#include <thread>
#include <vector>

namespace headrace {
namespace {

constexpr int64_t kPieceBytes = 256 << 10;  // what takes a core about as long as it takes to wake another one

struct Job {
  const std::function<void(int64_t, int64_t)>* work;
  int64_t count, piece, pieces;
  std::atomic<int64_t> next{0};
  std::atomic<int64_t> done{0};
  int helpers = 0;
};

// Does pieces until none are left to begin; true if the last one to end was among them.
bool help(Job& job) {
  int64_t mine = 0;
  for (int64_t i; (i = job.next.fetch_add(1, std::memory_order_relaxed)) < job.pieces; ++mine) {
    const int64_t begin = i * job.piece;
    (*job.work)(begin, std::min(job.count, begin + job.piece));
  }
  return mine && job.done.fetch_add(mine, std::memory_order_acq_rel) + mine == job.pieces;
}

class Team {
 public:
  void run(const std::shared_ptr<Job>& job, int threads) {
    {
      std::lock_guard<std::mutex> held(lock_);
      while (int(helpers_) < threads - 1) {
        std::thread([this] { serve(); }).detach();  // they sleep until the process ends
        ++helpers_;
      }
      job->helpers = int(std::min<int64_t>(threads - 1, job->pieces - 1));
      waiting_.push_back(job);
    }
    job->helpers == 1 ? wanted_.notify_one() : wanted_.notify_all();
    help(*job);
    std::unique_lock<std::mutex> held(lock_);
    forget(job);
    over_.wait(held, [&] { return job->done.load(std::memory_order_acquire) == job->pieces; });
  }

  void before_fork() { lock_.lock(); }
  void after_fork(bool child) {
    if (child) {  // whose copies of the helpers do not exist, though the conditions count them as waiting
      helpers_ = 0;
      waiting_.clear();
      new (&wanted_) std::condition_variable();
      new (&over_) std::condition_variable();
    }
    lock_.unlock();
  }

 private:
  void serve() {
    std::unique_lock<std::mutex> held(lock_);
    for (;;) {
      wanted_.wait(held, [&] { return !waiting_.empty(); });
      const std::shared_ptr<Job> job = waiting_.front();
      if (--job->helpers <= 0) waiting_.pop_front();
      held.unlock();
      const bool last = help(*job);
      held.lock();
      if (last) over_.notify_all();
    }
  }

  void forget(const std::shared_ptr<Job>& job) {
    const auto found = std::find(waiting_.begin(), waiting_.end(), job);
    if (found != waiting_.end()) waiting_.erase(found);
  }

  std::mutex lock_;
  std::condition_variable wanted_, over_;
  std::deque<std::shared_ptr<Job>> waiting_;
  size_t helpers_ = 0;
};

Team& the_team() {
  static Team* made = [] {
    Team* fresh = new Team();  // never ended: its threads may outlive everything else
    pthread_atfork([] { the_team().before_fork(); }, [] { the_team().after_fork(false); },
                   [] { the_team().after_fork(true); });
    return fresh;
  }();
  return *made;
}

std::atomic<int> threads{1};

}  // namespace

void set_team(int wanted) { threads = std::max(1, wanted); }
int team() { return threads; }

int64_t grain_of(int64_t count, int64_t bytes) {
  return bytes < 2 * kPieceBytes ? count : std::max<int64_t>(1, count * kPieceBytes / bytes);
}

void in_pieces(int64_t count, int64_t grain, const std::function<void(int64_t, int64_t)>& work) {
  const int most = team();
  if (count <= 0) return;
  if (most < 2 || count < 2 * grain) return work(0, count);
  auto job = std::make_shared<Job>();
  job->work = &work;
  job->count = count;
  // more pieces than threads, since some threads are slower; none smaller than the grain
  job->piece = std::max(grain, (count + 4 * most - 1) / (4 * most));
  job->pieces = (count + job->piece - 1) / job->piece;
  the_team().run(job, most);
}

}  // namespace headrace
