#include "batches_ahead.h"

#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <system_error>
#include <thread>

namespace headrace {

namespace {

constexpr size_t kAhead = 2;  // batches that are queued: with two, the reading thread need not be woken for each

void drop(ArrowArray& batch) {
  if (batch.release) batch.release(&batch);
  batch.release = nullptr;
}

}  // namespace

// A thread that reads batches, and the queue of those that were not taken.
struct BatchesAhead::Ahead {
  std::mutex lock;
  std::condition_variable changed;
  std::deque<ArrowArray> ready;
  bool unwanted = false;
  std::thread thread;
};

BatchesAhead::BatchesAhead(ArrowArrayStream& stream) : process_(getpid()), stream_(stream) { stream.release = nullptr; }

BatchesAhead::~BatchesAhead() { close(); }

BatchesAhead::Found BatchesAhead::read(ArrowArray& batch) {
  batch.release = nullptr;
  if (stream_.get_next(&stream_, &batch) == 0) return batch.release ? Found::kBatch : Found::kEnd;
  const char* said = stream_.get_last_error(&stream_);
  error_ = said ? said : "";
  return Found::kError;
}

BatchesAhead::Found BatchesAhead::next(double seconds) {
  drop(batch_);
  if (!stream_.release || process_ != getpid()) return Found::kEnd;
  if (!ahead_) {
    if (last_ != Found::kBatch) return Found::kEnd;
    if (!begun_ || !begin_ahead()) {  // a consumer of only the first batch reads no more
      begun_ = true;
      return last_ = read(batch_);
    }
  }
  std::unique_lock<std::mutex> waiting(ahead_->lock);
  const auto is_known = [&] { return !ahead_->ready.empty() || last_ != Found::kBatch; };
  if (!ahead_->changed.wait_for(waiting, std::chrono::duration<double>(seconds), is_known)) return Found::kNothing;
  if (ahead_->ready.empty()) return last_;
  batch_ = ahead_->ready.front();
  ahead_->ready.pop_front();
  ahead_->changed.notify_all();
  return Found::kBatch;
}

bool BatchesAhead::begin_ahead() {
  try {
    ahead_ = std::make_unique<Ahead>();
    ahead_->thread = std::thread([this] { read_ahead(); });
  } catch (const std::system_error&) {  // no thread can be started: batches are read on demand
    ahead_ = nullptr;
  }
  return ahead_ != nullptr;
}

void BatchesAhead::read_ahead() {
  Ahead& ahead = *ahead_;
  for (bool more = true; more;) {
    ArrowArray batch;
    const Found found = read(batch);
    more = found == Found::kBatch;
    std::unique_lock<std::mutex> waiting(ahead.lock);
    if (more) ahead.ready.push_back(batch);
    last_ = found;
    ahead.changed.notify_all();
    ahead.changed.wait(waiting, [&] { return !more || ahead.unwanted || ahead.ready.size() < kAhead; });
    more &= !ahead.unwanted;
  }
}

void BatchesAhead::close() {
  if (process_ != getpid()) {  // a forked child has no such thread, and the lock may be held
    ahead_.release();
    return;
  }
  if (ahead_) {
    {
      const std::lock_guard<std::mutex> held(ahead_->lock);
      ahead_->unwanted = true;
      ahead_->changed.notify_all();
    }
    ahead_->thread.join();
    for (ArrowArray& batch : ahead_->ready) drop(batch);
    ahead_ = nullptr;
  }
  drop(batch_);
  if (stream_.release) stream_.release(&stream_);
  stream_.release = nullptr;
}

}  // namespace headrace
