#include "turns.h"

#include <algorithm>

namespace headrace {

namespace {

constexpr int64_t kAnother = -1, kNone = -2;

struct Run {
  int64_t lane, start, count;
};

}  // namespace

void take_turns(const int64_t* ready, const uint8_t* ended, size_t lanes, bool over, int64_t block, int64_t most,
                Turns& turns, Growing<int64_t>& order) {
  const size_t slots = turns.slots.size();
  std::vector<Run> runs;
  int64_t rows = 0;
  size_t idle = 0;  // consecutive slots that are empty and stay so
  auto advance = [&] {
    turns.turn = size_t(turns.turn) + 1 == slots ? 0 : turns.turn + 1;
    turns.given = 0;
  };
  turns.wanted = kNone;
  while (rows < most) {
    int64_t& lane = turns.slots[size_t(turns.turn)];
    if (lane < 0) {
      if (size_t(turns.next) < lanes) {
        lane = turns.next++;
      } else if (!over) {
        turns.wanted = kAnother;
        break;
      } else if (++idle > slots) {
        break;
      } else {
        advance();
        continue;
      }
    }
    idle = 0;
    int64_t& used = turns.used[size_t(lane)];
    const int64_t count = std::min({ready[lane] - used, block - turns.given, most - rows});
    if (count > 0) {
      runs.push_back({lane, used, count});
      used += count;
      rows += count;
      turns.given += count;
      if (turns.given == block) advance();
    } else if (ended[lane]) {
      lane = -1;
      advance();
    } else {
      turns.wanted = lane;
      break;
    }
  }
  std::vector<int64_t> first(lanes, 0);
  for (size_t lane = 1; lane < lanes; ++lane) first[lane] = first[lane - 1] + turns.used[lane - 1];
  int64_t* out = order.extend(size_t(rows));
  for (const Run& run : runs) {
    for (int64_t i = 0; i < run.count; ++i) *out++ = first[size_t(run.lane)] + run.start + i;
  }
}

}  // namespace headrace
