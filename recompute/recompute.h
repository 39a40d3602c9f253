// Recomputation: the orders of runs that SuperNeurons 3.4 describes, by their names.
//
//   ProgramOrder    every step once
//   speed-centric   every segment is rerun once, and kept until used      recompute/rerun_order.h
//   memory-centric  every backward step reruns what it reads              recompute/rerun_order.h
//   cost-aware      the first where memory allows it, else the second     recompute/cost_aware.h
//
// All three keep the same checkpoints: those of recompute/segments.h, and those that
// recompute/cost_aware.h adds.
//
//   const RunOrder order = CostAware(program);
//   ExtraForwards(order.runs);
#pragma once

#include <vector>

#include "neap/core/program/lifetimes.h"
#include "neap/core/program/program.h"

namespace neap {

struct RunOrder {
  ComputeSequence runs;
  std::vector<bool> checkpoints = {};  // by TensorId; none if empty: then nothing is recomputed
  std::vector<bool> moved = {};  // by TensorId; none if empty: offloaded as soon as forward is done
                                 // with them, and prefetched for backward
};

RunOrder WithoutReruns(const Program& program);
// These rerun nothing in inference.
RunOrder SpeedCentric(const Program& program);
RunOrder MemoryCentric(const Program& program);
RunOrder CostAware(const Program& program);

}  // namespace neap
