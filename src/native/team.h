// Threads that help a kernel with its wide loops, and know nothing of Python.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

namespace headrace {

// Has `work(begin, end)` called on pieces of [0, count), each of at least `grain`, by the caller and by as many helpers as
// there are pieces for, and returns when all are done. `work` must not throw. Calls from several threads share the
// helpers; the caller alone does the work where there are none.
void in_pieces(int64_t count, int64_t grain, const std::function<void(int64_t, int64_t)>& work);

// The same, while the caller does something else. Whoever waits for it does what nobody has begun, and whoever drops it
// waits. In a process that was forked meanwhile it is never done: those who had begun with it are not there.
class Errand {
 public:
  using Work = std::function<void(int64_t, int64_t)>;
  Errand(int64_t count, int64_t grain, Work work);
  Errand(const Errand&) = delete;
  Errand& operator=(const Errand&) = delete;
  ~Errand() { wait(); }
  bool wait();  // whether it is done

 private:
  struct Begun;
  std::shared_ptr<Begun> begun_;
};

// How many threads, the caller's included, work on one call at most. They start when they are first needed.
void set_team(int threads);
int team();

// How many pieces a loop over so many bytes is worth, as a grain for `in_pieces`.
int64_t grain_of(int64_t count, int64_t bytes);

}  // namespace headrace
