// A program, its plan, and the executor that replays the plan in a session's arena. Private to the
// session.
//
//   RETURN_IF_ERROR(runtime.Bind(device, arena.data(), arena.host_residents()));
//   RETURN_IF_ERROR(staging.Send(feeds, scalars, runtime.program, *runtime.executor));
//   RETURN_IF_ERROR(runtime.Iterate(staging));  // then staging.Await()
#pragma once

#include <cstddef>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "neap/core/device/device.h"
#include "neap/core/plan/planner.h"
#include "neap/core/plan/timeline.h"
#include "neap/core/program/program.h"
#include "neap/core/run/executor.h"
#include "neap/core/run/staging.h"

namespace neap {

struct Runtime {
  Program program;
  PlanResult planned;
  std::optional<Executor> executor;
  bool records = true;                   // see core/run/executor.h
  Communicator* communicator = nullptr;  // of the program's rank

  // Destroys the old executor first, since its pinned memory counts against the host budget.
  absl::Status Bind(Device& device, std::byte* arena, std::byte* host_residents);
  // Session::recording().
  absl::Status recording() const {
    return executor.has_value() ? executor->recording_status()
                                : absl::FailedPreconditionError("nothing has run yet");
  }
  // Enqueues the part of an iteration that follows the copy of the batch.
  absl::Status Iterate(Staging& staging);
  // Like Iterate(), but waits for the end and returns when each action ran.
  absl::StatusOr<Timeline> IterateTimed(Staging& staging);
};

}  // namespace neap
