// What a session writes to files, and reads from them.
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/run/session/session_impl.h"

namespace neap {
namespace {

// That of a new session if the file has none.
LossScale LossScaleOf(const LoadedCheckpoint& loaded, const Program& program) {
  LossScale loss_scale;
  for (const auto& [id, values] : loaded.tensors) {
    if (id == program.loss_scale) loss_scale = LossScaleFrom(values);
  }
  return loss_scale;
}

}  // namespace

absl::Status Session::Impl::ReadyToSave(CheckpointContents contents) {
  RETURN_IF_ERROR(Ready());
  if (contents == CheckpointContents::kEverything) {
    RETURN_IF_ERROR(CheckNotExchanged());
    if (accumulated_ > 0)
      return absl::FailedPreconditionError(absl::StrCat(
          "a file has no gradients, and those of ", accumulated_, " batches wait for an Update()"));
  }
  if (!options_.inference_only || contents != CheckpointContents::kEverything)
    return absl::OkStatus();
  return absl::FailedPreconditionError(
      "the session was created for inference only and has no optimizer; SaveWeights() writes "
      "the parameters");
}

absl::Status Session::Impl::Save(const std::string& path, CheckpointContents contents,
                                 DType weights) {
  RETURN_IF_ERROR(values_.Gather(ReadyToSave(contents)));
  const std::string set_rate = rate_ == options_.learning_rate ? "" : ToString(rate_);
  return values_.Save(path, contents,
                      {.step = step_, .seed = options_.seed, .learning_rate = set_rate}, weights,
                      metadata_);
}

absl::Status Session::Impl::Load(ReadValuesFor read) {
  neap::Terms loaded;
  const absl::Status own = Load(read, loaded);
  return Agree(own, loaded, options_.communicator);
}

absl::Status Session::Impl::Load(ReadValuesFor read, neap::Terms& what) {
  RETURN_IF_ERROR(CheckIdle());
  RETURN_IF_ERROR(executables_.memory().Check());
  ASSIGN_OR_RETURN(LoadedCheckpoint loaded, read(values_.stored()));
  ASSIGN_OR_RETURN(const LearningRate rate, RateAfter(loaded));
  // Of all tensors, before any is overwritten.
  ASSIGN_OR_RETURN(const std::vector<TensorImage> images, values_.Images(loaded));
  RETURN_IF_ERROR(device_.Synchronize());  // a failed step may have left work in the streams
  RETURN_IF_ERROR(Damages("Load()", values_.Load(images)));
  damage_ = absl::OkStatus();
  has_exchanged_ = false;
  if (options_.communicator != nullptr) what = TermsOf(loaded);
  loss_scale_ = LossScaleOf(loaded, values_.stored());
  step_ = loaded.position.has_value() ? loaded.position->step : 0;
  accumulated_ = 0;
  if (loaded.position.has_value()) options_.seed = loaded.position->seed;
  rate_ = rate;
  return absl::OkStatus();
}

absl::StatusOr<LearningRate> Session::Impl::RateAfter(const LoadedCheckpoint& loaded) const {
  if (!loaded.position.has_value()) return rate_;
  if (loaded.position->learning_rate.empty()) return options_.learning_rate;
  const absl::StatusOr<LearningRate> rate = ParseLearningRate(loaded.position->learning_rate);
  if (rate.ok()) return rate;
  return absl::DataLossError(absl::StrCat("the checkpoint's metadata: ", rate.status().message()));
}

}  // namespace neap
