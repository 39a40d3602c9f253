#include "neap/core/run/executable.h"

#include <vector>

#include "neap/core/base/status_macros.h"

namespace neap {

absl::Status Executable::Bind(Device& device, const PlanMemory& memory, Communicator* communicator,
                              bool records) {
  ASSIGN_OR_RETURN(executor, Executor::Create(program, planned.plan, device, memory, communicator));
  if (!records) executor->DisableRecording();
  return absl::OkStatus();
}

absl::Status Executable::Iterate(Staging& staging) {
  RETURN_IF_ERROR(executor->Run());
  return staging.Receive(program, *executor);
}

absl::Status Executable::IterateToPause(Staging& staging) {
  RETURN_IF_ERROR(executor->Run());
  return staging.ReceiveOutputs(program, *executor);
}

absl::Status Executable::IterateFromPause(const Feeds& gradients, float loss_scale,
                                          Staging& staging) {
  RETURN_IF_ERROR(staging.Resume(gradients, loss_scale, program, *executor));
  return staging.Receive(program, *executor);
}

absl::StatusOr<Timeline> Executable::IterateTimed(Staging& staging) {
  ASSIGN_OR_RETURN(const std::vector<ActionTime> ran, executor->RunTimed());
  RETURN_IF_ERROR(staging.Receive(program, *executor));
  return MeasuredTimeline(planned.plan, ran);
}

}  // namespace neap
