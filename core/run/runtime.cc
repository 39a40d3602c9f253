#include "neap/core/run/runtime.h"

#include <vector>

#include "neap/core/base/status_macros.h"

namespace neap {

absl::Status Runtime::Bind(Device& device, std::byte* arena, std::byte* host_residents) {
  executor.reset();
  ASSIGN_OR_RETURN(executor, Executor::Create(program, planned.plan, device, arena, host_residents,
                                              communicator));
  if (!records) executor->DisableRecording();
  return absl::OkStatus();
}

absl::Status Runtime::Iterate(Staging& staging) {
  RETURN_IF_ERROR(executor->Run());
  return staging.Receive(program, *executor);
}

absl::StatusOr<Timeline> Runtime::IterateTimed(Staging& staging) {
  ASSIGN_OR_RETURN(const std::vector<ActionTime> ran, executor->RunTimed());
  RETURN_IF_ERROR(staging.Receive(program, *executor));
  return MeasuredTimeline(planned.plan, ran);
}

}  // namespace neap
