// The verifier: proves, from a plan alone, that executing it gives every step the right bytes.
//
// It does not trust the planner: it reads only the plain data of core/plan/plan.h, shares no code
// with memory/, and derives from the actions which tensor owns which bytes of the arena and of the
// pools at any time, which version of which tensor they hold, and which accesses of the
// streams are ordered. A plan that passes cannot read a stale value, overwrite a live one, race,
// leak or exceed its arena or its pools. The difficulty is that "live" has three meanings, all of
// which are checked:
//
//   ^ offset              places:  alloc .. free: no two regions overlap, unless one replaces the
//   | +--y---------+                 other in place
//   | +---+  +-z---+        values:  written .. overwritten or freed: every read gets the version
//   | | x |..|                       that the program means
//   +-+---+--+-----+-->     streams: an offload still reads, or a prefetch still writes, after its
//                  actions           place in the list: a reuse of bytes (z for x) must wait for it
//
//   ASSIGN_OR_RETURN(Plan plan, Plan::FromJson(text));
//   RETURN_IF_ERROR(Verify(plan));                   // "plan fault [stale-read]: action 17 ..."
//   RETURN_IF_ERROR(MatchesProgram(plan, program));  // the plan is one of this program
#pragma once

#include <cstdint>
#include <string_view>

#include "absl/status/status.h"
#include "neap/core/plan/plan.h"
#include "neap/core/program/program.h"

namespace neap {

// Why a plan is refused; docs/plan-format.md lists them with their rules.
enum class PlanFault : uint8_t {
  kHeader,        // a negative total, an empty batch
  kId,            // misnumbered or unknown tensor or step
  kTensor,        // bytes are not shape x dtype
  kStep,          // a step's own record contradicts itself
  kOverBudget,    // the arena is larger than the budget
  kMisaligned,    // an offset or size is not a multiple of kBlockBytes
  kOutOfArena,    // a region outside the arena
  kOutOfPool,     // a copy outside its pool, or among the host's residents
  kTooSmall,      // a region smaller than its tensor, or than the incoming batch
  kOverlap,       // a region or copy overlaps bytes in use, or those of the incoming batch
  kDoubleAlloc,   // a tensor is allocated twice
  kNotAllocated,  // a tensor is touched or freed without a region
  kInPlace,       // bytes used by the wrong one of the tensors that share them
  kGiven,         // a given tensor is allocated where or when it cannot hold its value
  kNoValue,       // a read before anything was written, or after the value was lost
  kStaleRead,     // a read of another version than the program means
  kCopy,          // a prefetch without a copy of the current version; a resident is offloaded to
                  // another place than its own
  kStepOrder,     // a step out of order, or run twice
  kMissingStep,   // a step that never runs
  kRecompute,     // a recomputation of a step that is not a forward step, or has not run
  kEngines,       // micro-batches that do not sum to the batch
  kWait,          // a wait for an action that is not earlier, or runs on no stream
  kRace,          // two streams access the same bytes, one writes, and no wait orders them
  kLeak,          // a tensor is still allocated at the end
  kEndState,      // a persistent tensor ends elsewhere or with another value
  kTotals,        // stated peaks differ from those of the actions
  kCollective,  // a step of all ranks that is computed, or another that is not; an activation that
                // is read before its sum, or rebuilt without it
  kShard,       // a parameter that is read before its slices are gathered, or a gradient before its
                // sum; a slice that is another rank's
  kExternal,    // a tensor in memory of the caller's is allocated, freed or moved
  kPause,    // a pause that does more than hand out outputs and take their gradients, or at which
             // the iteration cannot be given up
  kProgram,  // the plan of another program
};
// The name of a fault in the messages, such as "stale-read".
std::string_view Name(PlanFault fault);

// Errors: INVALID_ARGUMENT "plan fault [NAME]: action INDEX (WHAT): WHY" for the first fault in
// issue order. *Complexity*: O(actions x log(live tensors)), where operands and transfers count as
// actions.
absl::Status Verify(const Plan& plan);

// Whether the plan's tensors and steps are exactly the program's. Errors: INVALID_ARGUMENT "plan
// fault [wrong-program]: ...".
absl::Status MatchesProgram(const Plan& plan, const Program& program);

}  // namespace neap
