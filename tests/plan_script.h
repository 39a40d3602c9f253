// Hand-written plans, one line per tensor, step and action. A block has 1 KiB.
//
//   batch 4 budget 9 arena 9 peak 8 activations 3000 host 2  # in blocks; activations in bytes
//   batch 4 peer 2 host_pool 3 peer_pool 5 resident 1        # more totals, if they are not 0
//   batch 4 incoming 5 2          # bytes for the incoming batch: 2 blocks at block 5
//   tensor y activation 1500      # name, role, bytes (a multiple of 4)
//   tensor w param 1024 on_host 0 # on the host between iterations, at block 0 of the pool
//   tensor u param 1024 external  # in memory of the caller's
//   tensor v param 1024 own 0 128 # the rank updates 128 elements from 0 on
//   step conv forward reads x w writes y accumulates m rerun x s in_place y/x
//   step conv update reads g accumulates v slices g:0:128 v:0:128
//
//   alloc y 4                     # at block 4; as many blocks as it needs, or: alloc y 4 3
//   first: run conv forward workspace 6 2 engines a:3 b:1   # "first" names it for a wait
//   rerun conv
//   sum conv                      # the collective "conv all_reduce"
//   scatter conv                  # "conv reduce_scatter"; also: gather conv, for "conv all_gather"
//   wait d2h first
//   offload y 2                   # to block 2 of the host's pool, or: offload y peer 3
#pragma once

#include <string>
#include <string_view>

#include "neap/core/plan/plan.h"

namespace neap {

// An invalid script is a mistake in the test and throws std::runtime_error.
Plan PlanFromScript(std::string_view script);

// `script` with its only occurrence of `from` replaced.
std::string Edited(std::string_view script, std::string_view from, std::string_view to);

// Valid hand-written plans.
extern const char* const kPlainPlan;      // four steps, a workspace, two engines
extern const char* const kIncomingPlan;   // the plain plan with bytes for the incoming batch
extern const char* const kInPlacePlan;    // c over b over a
extern const char* const kTransferPlan;   // a is offloaded, and prefetched for f2's backward step
extern const char* const kRecomputePlan;  // y is dropped and recomputed from x and saved tensors
// The weight w is offloaded, its bytes are reused, and it is back at the end.
extern const char* const kPersistentTransferPlan;
extern const char* const kPoolsPlan;     // x reuses y's bytes of the host's pool; l is on the peer
extern const char* const kResidentPlan;  // the weight w is on the host between iterations
// The gradients g and h are summed over the ranks beside the second backward step; f's update needs
// both sums.
extern const char* const kSumPlan;
// The ranks sum s, which f reads in forward. It is offloaded and back for backward; f runs again.
extern const char* const kForwardSumPlan;
// The rank updates the first half of v, which is gathered; the gradient g is summed in halves.
extern const char* const kShardPlan;
// The iteration pauses, and the caller gives the gradient dy of y.
extern const char* const kPausePlan;
// The same with a state m, which forward changes, on the host between iterations.
extern const char* const kResidentPausePlan;

// TimelineCosts::compute_seconds with the same time for each step, and for each recomputation.
std::vector<double> SecondsEach(const Plan& plan, double step, double recomputation);

}  // namespace neap
