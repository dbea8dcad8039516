// The merge of interleaved lanes: which row comes next, computed from how many rows each lane has ready.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "growing.h"

namespace headrace {

struct Turns {
  std::vector<int64_t> slots;  // the lane in each slot, -1 for none
  std::vector<int64_t> used;   // rows taken of each lane
  int64_t turn;                // the current slot
  int64_t given;               // rows that it has given in this turn
  int64_t next;                // the first lane that has no slot yet
  int64_t wanted;              // the lane of which more rows are needed, -1 for another lane, -2 for none
};

// Take turns until `most` rows are found, a lane runs out of rows, or a slot is empty and no lane is left for it.
// `ready` says how many rows each lane has, `ended`, whether these are all its rows; `over`, that no lanes follow
// these. The resulting order numbers the taken rows, lane after lane.
void take_turns(const int64_t* ready, const uint8_t* ended, size_t lanes, bool over, int64_t block, int64_t most,
                Turns& turns, Growing<int64_t>& order);

}  // namespace headrace
