// The alternatives for a tensor that backward reads, and their prices.
//
// A plan keeps such a tensor from forward until backward, moves it out and back, or makes it again.
// The history that it chose (core/plan/tensor_history.h) can be judged only beside the others:
// keeping costs the tensor's bytes, and the other two cost time.
//
//   forward  [write x]                                   backward  [read x]
//   keep     ==========================================================     bytes of x
//   move              (out)                               (back)            both copies
//   rebuild                                            (step that makes x)  one rerun
//
// The prices are those that the planner sees: of a copy over the link to the host, whether or not
// computation hides it, and of one rerun alone, as if its inputs were there, with the time that the
// first run loses.
//
//   ASSIGN_OR_RETURN(EngineTable engines,
//                    EngineTable::List(program, kernels, /*strict=*/false, device, catalog));
//   ASSIGN_OR_RETURN(const RebuildPrices prices, engines.PriceReruns(program, catalog));
//   FindAlternatives(program, result.costs, prices, /*may_move=*/true).front().move_us;
#pragma once

#include <optional>
#include <vector>

#include "neap/core/base/ids.h"
#include "neap/core/plan/timeline.h"
#include "neap/core/program/program.h"
#include "neap/recompute/rebuild_prices.h"

namespace neap::apps {

struct TensorAlternatives {
  TensorId tensor;
  std::optional<double> move_us = {};  // to the host and back; nullopt: nothing moves there
  // nullopt: no step that can be run again writes it, or none that gives the same bits again.
  std::optional<double> rebuild_us = {};
};

// For the tensors that backward steps read and that do not persist: the batch, and what forward
// steps write; by TensorId. `may_move` as PlannerOptions::has_room_outside().
std::vector<TensorAlternatives> FindAlternatives(const Program& program, const TimelineCosts& costs,
                                                 const RebuildPrices& prices, bool may_move);

}  // namespace neap::apps
