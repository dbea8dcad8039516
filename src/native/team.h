// Helper threads for wide loops of kernels, independent of Python.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

namespace headrace {

// Call `work(begin, end)` on pieces of [0, count), each of at least `grain`, on the caller and on as many helpers as
// there are pieces for, and return when all are done. `work` must not throw. Calls from several threads share the
// helpers; without helpers, the caller does all the work.
void in_pieces(int64_t count, int64_t grain, const std::function<void(int64_t, int64_t)>& work);

// The same in the background. Waiting for it runs pieces that no helper has begun, and destroying it waits. In a child
// that was forked meanwhile it never finishes, because its helpers do not exist there.
class Errand {
 public:
  using Work = std::function<void(int64_t, int64_t)>;
  Errand(int64_t count, int64_t grain, Work work);
  Errand(const Errand&) = delete;
  Errand& operator=(const Errand&) = delete;
  ~Errand() { wait(); }
  bool wait();  // return whether it is done

 private:
  struct Begun;
  std::shared_ptr<Begun> begun_;
};

// How many threads, including the caller's, work on one call at most. They start when they are first needed.
void set_team(int threads);
int team();

// The grain for `in_pieces` of a loop over this many bytes.
int64_t grain_of(int64_t count, int64_t bytes);

}  // namespace headrace
