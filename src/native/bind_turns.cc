#include <nanobind/stl/pair.h>

#include "python.h"
#include "turns.h"

namespace headrace::python {
namespace {

nb::tuple take_turns(nb::list slots, ConstInts ready, ConstBytes ended, bool over, std::pair<int64_t, int64_t> from,
                     int64_t block, int64_t most) {
  const size_t lanes = ended.shape(0);
  require(slots.size() > 0 && from.first >= 0 && size_t(from.first) < slots.size(), "no such slot");
  require(block > 0 && from.second >= 0 && from.second < block, "no such row in a turn");
  require(ready.shape(0) == lanes && most >= 0, "a number of rows for each lane");
  int64_t rows = 0;
  for (size_t lane = 0; lane < lanes; ++lane) {
    require(ready.data()[lane] >= 0 && ready.data()[lane] <= (INT64_MAX >> 8) - rows, "a number of rows for each lane");
    rows += ready.data()[lane];
  }
  headrace::Turns turns{{}, std::vector<int64_t>(lanes, 0), from.first, from.second, 0, 0};
  for (nb::handle slot : slots) {
    const int64_t lane = nb::cast<int64_t>(slot);
    require(lane == -1 || lane == turns.next, "lanes with a slot come first, in the order of their slots");
    turns.next += lane >= 0;
    turns.slots.push_back(lane);
  }
  require(size_t(turns.next) <= lanes, "no such lane");
  headrace::Growing<int64_t> order;
  headrace::take_turns(ready.data(), ended.data(), lanes, over, block, most, turns, order);
  nb::list seated, used;
  for (int64_t lane : turns.slots) seated.append(lane);
  for (int64_t rows : turns.used) used.append(rows);
  return nb::make_tuple(numpy(order), seated, used, nb::make_tuple(turns.turn, turns.given), turns.next, turns.wanted);
}

}  // namespace

void bind_turns(nb::module_& m) {
  m.def("take_turns", &take_turns, "slots"_a, "ready"_a, "ended"_a, "over"_a, "start"_a, "block"_a, "most"_a);
}

}  // namespace headrace::python
