// A program, its plan, and the executor that replays the plan in a session's arena. Private to the
// session.
//
//   RETURN_IF_ERROR(executable.Bind(device, arena.memory(), /*communicator=*/nullptr,
//                                   /*records=*/true));
//   RETURN_IF_ERROR(staging.Send(feeds, scalars, executable.program, *executable.executor));
//   RETURN_IF_ERROR(executable.Iterate(staging));  // then staging.Await()
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "neap/core/device/communicator.h"
#include "neap/core/device/device.h"
#include "neap/core/graph/graph.h"
#include "neap/core/plan/planner.h"
#include "neap/core/plan/timeline.h"
#include "neap/core/program/feeds.h"
#include "neap/core/program/program.h"
#include "neap/core/run/executor.h"
#include "neap/core/run/staging.h"

namespace neap {

struct Executable {
  std::shared_ptr<const Graph> graph;  // of which the program was made
  int64_t stage = 0;                   // of several programs of one graph: Accumulation::index
  Program program;
  PlanResult planned = {};
  // One of several sizes that the session is to train (Graph::Sizes()), or of several stages, all
  // of which are planned for every budget. Others are planned when they are trained.
  bool is_of_family = false;
  std::optional<Executor> executor = {};  // once it is bound

  // `communicator` is that of the program's rank, null if it is alone; `records` says whether the
  // executor may record kernels.
  absl::Status Bind(Device& device, const PlanMemory& memory, Communicator* communicator,
                    bool records);
  // Session::recording().
  absl::Status recording() const {
    return executor.has_value() ? executor->recording_status()
                                : absl::FailedPreconditionError("nothing has run yet");
  }
  // Enqueues the part of an iteration that follows the copy of the batch.
  absl::Status Iterate(Staging& staging);
  // The same in two halves for a program that pauses: the first receives the outputs, and the
  // second continues with gradients of them (Staging::Resume()).
  absl::Status IterateToPause(Staging& staging);
  absl::Status IterateFromPause(const Feeds& gradients, float loss_scale, Staging& staging);
  // Like Iterate(), but waits for the end and returns when each action ran.
  absl::StatusOr<Timeline> IterateTimed(Staging& staging);
};

}  // namespace neap
