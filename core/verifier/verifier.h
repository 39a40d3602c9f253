// The verifier: proves from a plan alone that carrying it out gives every step the right bytes.
//
// It is written as by somebody who distrusts the planner: it reads the plain data of
// core/plan/plan.h and nothing else, shares no code with memory/, and derives again, from the
// actions, who owns which bytes of the arena and of the pools when, which version of which tensor
// lies in them, and which accesses of the three streams are ordered. A plan that passes cannot read
// a stale value, overwrite a live one, race, leak or exceed its arena or its pools. What is hard is
// that "live" has three readings, all checked:
//
//   ^ offset              places:  alloc .. free: no two regions overlap, unless one replaces the
//   | +--y---------+                 other in place
//   | +---+  +-z---+        values:  written .. overwritten or freed: what is read is the version
//   | | x |..|                       that the program means
//   +-+---+--+-----+-->     streams: an offload still reads, a prefetch still writes after the
//                  actions           action that says so: whoever reuses bytes (z for x) has waited
//
//   ASSIGN_OR_RETURN(Plan plan, Plan::FromJson(text));
//   RETURN_IF_ERROR(Verify(plan));                   // "plan fault [stale-read]: action 17 ..."
//   RETURN_IF_ERROR(MatchesProgram(plan, program));  // and it is a plan of this program
#pragma once

#include <cstdint>
#include <string_view>

#include "absl/status/status.h"
#include "neap/core/plan/plan.h"
#include "neap/core/program/program.h"

namespace neap {

// Why a plan is refused; docs/plan-format.md lists them with their rules.
enum class PlanFault : uint8_t {
  kHeader,        // a negative total, no batch
  kId,            // misnumbered or unknown tensor or step
  kTensor,        // bytes are not shape x dtype
  kStep,          // a step's own record contradicts itself
  kOverBudget,    // the arena is larger than the budget
  kMisaligned,    // offset or size is no multiple of kBlockBytes
  kOutOfArena,    //
  kOutOfPool,     // a copy outside its pool, or among the host's residents
  kTooSmall,      // a region smaller than its tensor
  kOverlap,       // bytes that are in use, of the arena or of a pool
  kDoubleAlloc,   //
  kNotAllocated,  // touched or freed without a region
  kInPlace,       // bytes used by the wrong one of the tensors that share them
  kGiven,      // a tensor with a value from outside is allocated where or when that value cannot be
  kNoValue,    // read before anything was written, or after its value was lost
  kStaleRead,  // read with another version than the program means
  kHostCopy,   // prefetched without a copy of the current version; a resident that leaves for
               // another place than its own
  kStepOrder,  // out of order, or twice
  kMissingStep,  //
  kRecompute,    // a recomputation of what is no forward step, or has not run
  kEngines,      // micro-batches that are not the batch
  kWait,         // on an action that is not earlier or runs on no stream
  kRace,         // two streams, the same bytes, a write, and no wait that orders them
  kLeak,         // still allocated at the end
  kEndState,     // a persistent tensor that ends elsewhere or with another value
  kTotals,       // peaks that the actions do not have
  kProgram,      // another program's plan
};
// "stale-read": as in the messages.
std::string_view Name(PlanFault fault);

// Errors: INVALID_ARGUMENT "plan fault [NAME]: action INDEX (WHAT): WHY" for the first fault in
// issue order. *Complexity*: O(actions x log(live tensors)); operands and transfers count as
// actions.
absl::Status Verify(const Plan& plan);

// Whether the plan's tensors and steps are exactly the program's. Errors: INVALID_ARGUMENT "plan
// fault [program]: ...".
absl::Status MatchesProgram(const Plan& plan, const Program& program);

}  // namespace neap
