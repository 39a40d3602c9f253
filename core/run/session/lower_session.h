// The programs of a session. Private to the session and to what measures kernels for it
// (memory/measuring/measured_session.h).
//
// The planner chooses options of the programs. What must be the same on all ranks, the size of
// buckets, is that of rank 0.
//
//   ASSIGN_OR_RETURN(LoweredSession lowered,
//                    LowerSession(graph, options, share, device, budget_bytes, planner));
#pragma once

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "neap/core/device/device.h"
#include "neap/core/graph/graph.h"
#include "neap/core/plan/planner.h"
#include "neap/core/program/program.h"
#include "neap/core/run/session.h"
#include "neap/core/run/session/session_planner.h"

namespace neap {

// A session for inference only has one program, without an optimizer, in both roles.
struct LoweredSession {
  Program training, inference;
  // If the optimizer is sharded: the training program of a rank alone, for its persistent tensors,
  // which are whole.
  std::optional<Program> alone;
};

// The program that the planner's choice is for: that of training, or of a session for inference
// only. Errors: those of Lower().
absl::StatusOr<Program> LowerChosen(const Graph& graph, const TrainingOptions& options,
                                    const RankShare& share, const DeviceDescription& device,
                                    const ProgramChoice& choice);

// To be called by all ranks. The plan that was made to choose is kept by the planner. Errors: those
// of Lower(), the planner and Agree().
absl::StatusOr<LoweredSession> LowerSession(const Graph& graph, const TrainingOptions& options,
                                            const RankShare& share, const DeviceDescription& device,
                                            int64_t budget_bytes, SessionPlanner& planner);

}  // namespace neap
