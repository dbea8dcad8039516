#include "team.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <new>
#include <thread>
#include <utility>
#include <vector>

namespace headrace {
namespace {

constexpr int64_t kPieceBytes = 256 << 10;  // about as long on one core as it takes to wake another one

std::atomic<int> threads{1};

struct Job {
  // More pieces than threads, because some threads are slower; none smaller than the grain.
  Job(const std::function<void(int64_t, int64_t)>& work, int64_t count, int64_t grain)
      : work(&work),
        count(count),
        piece(std::max<int64_t>({1, grain, (count + 4 * threads - 1) / (4 * threads)})),
        pieces((count + piece - 1) / piece) {}

  const std::function<void(int64_t, int64_t)>* const work;
  const int64_t count, piece, pieces;
  std::atomic<int64_t> next{0};
  std::atomic<int64_t> done{0};
  int helpers = 0;
};

// Run pieces until none are left to begin; return true if the last one to end was among them.
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
  // Wake up to this many helpers.
  void begin(const std::shared_ptr<Job>& job, int helpers) {
    const int wanted = int(std::min<int64_t>(helpers, job->pieces));
    if (wanted < 1) return;
    {
      std::lock_guard<std::mutex> held(lock_);
      while (int(helpers_) < helpers) {
        std::thread([this] { serve(); }).detach();  // they sleep until the process ends
        ++helpers_;
      }
      job->helpers = wanted;
      waiting_.push_back(job);
    }
    wanted_.notify_one();
  }

  // Run pieces that no helper has begun, and wait for the rest.
  void end(const std::shared_ptr<Job>& job) {
    help(*job);
    std::unique_lock<std::mutex> held(lock_);
    forget(job);
    over_.wait(held, [&] { return job->done.load(std::memory_order_acquire) == job->pieces; });
  }

  void before_fork() { lock_.lock(); }
  void after_fork(bool child) {
    if (child) {  // which has no helpers, although the conditions count them as waiting
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
      const int others = --job->helpers;
      if (others <= 0) waiting_.pop_front();
      held.unlock();
      // Waking a thread takes as long as many a piece: each woken helper wakes two more.
      for (int i = 0; i < std::min(others, 2); ++i) wanted_.notify_one();
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
    Team* fresh = new Team();  // never destroyed: its threads may outlive everything else
    pthread_atfork([] { the_team().before_fork(); }, [] { the_team().after_fork(false); },
                   [] { the_team().after_fork(true); });
    return fresh;
  }();
  return *made;
}

}  // namespace

void set_team(int wanted) { threads = std::max(1, wanted); }
int team() { return threads; }

int64_t grain_of(int64_t count, int64_t bytes) {
  return bytes < 2 * kPieceBytes ? count : std::max<int64_t>(1, count * kPieceBytes / bytes);
}

void in_pieces(int64_t count, int64_t grain, const std::function<void(int64_t, int64_t)>& work) {
  if (count <= 0) return;
  if (team() < 2 || count < 2 * grain) return work(0, count);
  const auto job = std::make_shared<Job>(work, count, grain);
  the_team().begin(job, int(std::min<int64_t>(team() - 1, job->pieces - 1)));
  the_team().end(job);
}

struct Errand::Begun {
  Begun(int64_t count, int64_t grain, Work given)
      : work(std::move(given)), job(std::make_shared<Job>(work, count, grain)), process(getpid()) {}

  const Work work;
  const std::shared_ptr<Job> job;
  const pid_t process;
};

Errand::Errand(int64_t count, int64_t grain, Work work)
    : begun_(std::make_shared<Begun>(count, grain, std::move(work))) {
  the_team().begin(begun_->job, team() - 1);
}

bool Errand::wait() {
  if (begun_->process != getpid()) return false;
  the_team().end(begun_->job);
  return true;
}

}  // namespace headrace
