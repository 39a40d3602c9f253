// Steps that pause between forward and backward, because the caller gives gradients of outputs.
#include <utility>

#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/base/without_throwing.h"
#include "neap/core/run/session/session_impl.h"

namespace neap {

absl::StatusOr<std::vector<NamedTensor>> Session::Impl::Forward(const Feeds& feeds) {
  RETURN_IF_ERROR(CheckIdle());
  ASSIGN_OR_RETURN(Executable* const executable, Next(feeds));
  if (!executable->program.Pauses()) {
    return absl::FailedPreconditionError(
        absl::StrCat(executable->program.net.name,
                     " has no output whose gradient the caller gives "
                     "(Graph::OutputWithGradient()), so there is no Forward() without the rest"));
  }
  Staging& staging = staging_.front();
  RETURN_IF_ERROR(Start(feeds, *executable, staging, [](Executable& running, Staging& place) {
    return running.IterateToPause(place);
  }));
  absl::StatusOr<std::vector<NamedTensor>> outputs = staging.AwaitOutputs();
  RETURN_IF_ERROR(Damages("step", Settle(outputs.status())));
  paused_ = {.step = step_, .loss_scale = loss_scale_};
  return outputs;
}

absl::StatusOr<StepResult> Session::Impl::Backward(const Feeds& gradients) {
  if (!paused_.has_value())
    return absl::FailedPreconditionError("Backward() continues after Forward(), which comes first");
  Executable& executable = executables_.training();
  RETURN_IF_ERROR(CheckGivenGradients(gradients, executable.program));
  const InFlight begun = *std::exchange(paused_, std::nullopt);
  const float scale = executable.program.loss_scale.has_value() ? begun.loss_scale.scale : 1.0F;
  Staging& staging = staging_.front();
  const absl::Status enqueued = WithoutThrowing(
      "the step", [&] { return executable.IterateFromPause(gradients, scale, staging); });
  RETURN_IF_ERROR(Damages("step", Settle(enqueued)));
  absl::StatusOr<Staging::Received> received = staging.Await();
  RETURN_IF_ERROR(Damages("step", received.status()));
  CountBatch();
  return Finished(begun, *std::move(received));
}

// Copies that were in flight over the pause must not meet the next iteration.
absl::Status Session::Impl::SkipBackward() {
  if (!paused_.has_value())
    return absl::FailedPreconditionError("there is no Forward() whose Backward() could be skipped");
  paused_.reset();
  RETURN_IF_ERROR(Damages("step", device_.Synchronize()));
  return accumulated_ > 0 ? absl::OkStatus() : values_.BackUpStates();
}

absl::Status Session::Impl::AwaitBudget() {
  RETURN_IF_ERROR(CheckNotPaused());
  return executables_.AwaitBudget();
}

absl::Status Session::Impl::CheckNotPaused() const {
  if (!paused_.has_value()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "a step is paused after Forward(); Backward() or SkipBackward() comes next");
}

}  // namespace neap
