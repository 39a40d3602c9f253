#include "neap/core/run/session/session_impl.h"

#include <iterator>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/base/without_throwing.h"
#include "neap/core/run/evaluation.h"

namespace neap {
namespace {

constexpr int kMaxInFlight = 2;

}  // namespace

absl::Status Session::Impl::Create(const Graph& graph) {
  ASSIGN_OR_RETURN(const RankShare share, ShareOf(graph.options().batch, options_.communicator));
  const absl::Status prepared =
      WithoutThrowing("the session", [&] { return Prepare(graph, share); });
  RETURN_IF_ERROR(Agree(prepared, Terms(executables_.whole()), options_.communicator));
  const bool loads = options_.inference_only || options_.loads_values;
  return values_.Initialise(options_.seed, /*at_once=*/!loads);
}

absl::Status Session::Impl::Prepare(const Graph& graph, const RankShare& share) {
  RETURN_IF_ERROR(CheckLearningRate(options_.learning_rate));
  if (options_.inference_only && options_.training_only) {
    return absl::InvalidArgumentError(
        "a session cannot be both for inference only and for training only");
  }
  RETURN_IF_ERROR(executables_.Create(graph, share));
  values_.Adopt();
  for (int i = 0; i < kMaxInFlight; ++i) {
    Staging& staging = staging_.emplace_back(device_);
    for (const Program* program : executables_.Programs())
      RETURN_IF_ERROR(staging.Reserve(*program));
  }
  if (accumulates())
    RETURN_IF_ERROR(of_update_.emplace(device_).Reserve(*executables_.Programs().back()));
  return absl::OkStatus();
}

absl::Status Session::Impl::SetLearningRate(const LearningRate& rate) {
  RETURN_IF_ERROR(
      Agree(CheckLearningRate(rate), {{"learning rate", ToString(rate)}}, options_.communicator));
  rate_ = rate;
  return absl::OkStatus();
}

absl::StatusOr<BatchFeeds> Session::Impl::FeedsOf(const Batch& batch) const {
  RETURN_IF_ERROR(CheckTrains());
  ASSIGN_OR_RETURN(const Executable* const usual, executables_.Sized({}));
  ASSIGN_OR_RETURN(const ImagePorts ports, ImagePortsOf(usual->program));
  ASSIGN_OR_RETURN(const Executable* const sized,
                   executables_.Sized({{.name = ports.images->name,
                                        .shape = StatedShape(batch, usual->program, ports)}}));
  return BatchFeeds::Of(batch, sized->program);
}

absl::Status Session::Impl::Begin(const Batch& batch) {
  ASSIGN_OR_RETURN(const BatchFeeds given, FeedsOf(batch));
  return Begin(given.feeds());
}

absl::Status Session::Impl::Begin(const Feeds& feeds) {
  return Begin(
      feeds, [](Executable& executable, Staging& staging) { return executable.Iterate(staging); });
}

absl::StatusOr<TimedStep> Session::Impl::Time(const Batch& batch) {
  ASSIGN_OR_RETURN(const BatchFeeds given, FeedsOf(batch));
  return Time(given.feeds());
}

absl::StatusOr<TimedStep> Session::Impl::Time(const Feeds& feeds) {
  RETURN_IF_ERROR(CheckSteps());
  TimedStep timed;
  const auto iterate = [&](Executable& executable, Staging& staging) -> absl::Status {
    ASSIGN_OR_RETURN(timed.timeline, executable.IterateTimed(staging));
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(Begin(feeds, iterate));
  ASSIGN_OR_RETURN(timed.result, Finish());
  return timed;
}

absl::Status Session::Impl::Begin(const Feeds& feeds, Iterate iterate) {
  if (std::ssize(in_flight_) == kMaxInFlight)
    return absl::FailedPreconditionError("two steps are in flight; Finish() one");
  ASSIGN_OR_RETURN(Executable* const executable, Next(feeds));
  if (executable->program.Pauses()) {
    return absl::FailedPreconditionError(
        absl::StrCat(executable->program.net.name,
                     " has outputs whose gradients the caller gives; Forward() and Backward() "
                     "train it"));
  }
  RETURN_IF_ERROR(
      Start(feeds, *executable, staging_[static_cast<size_t>(begun_ % kMaxInFlight)], iterate));
  ++begun_;
  in_flight_.push_back({.step = step_, .loss_scale = loss_scale_});
  CountBatch();
  return absl::OkStatus();
}

void Session::Impl::CountBatch() {
  if (accumulates()) {
    ++accumulated_;
  } else {
    ++step_;
  }
}

absl::StatusOr<Executable*> Session::Impl::Next(const Feeds& feeds) {
  RETURN_IF_ERROR(CheckTrains());
  RETURN_IF_ERROR(CheckNotPaused());
  if (accumulates() && accumulated_ == options_.accumulate) {
    return absl::FailedPreconditionError(
        absl::StrCat("the gradients of ", accumulated_, " batches are summed; Update() first"));
  }
  executables_.TakeBudgetIfReady();
  RETURN_IF_ERROR(CheckUsable());
  RETURN_IF_ERROR(CheckNotExchanged());
  ASSIGN_OR_RETURN(const Executable* const sized, executables_.Sized(feeds));
  RETURN_IF_ERROR(accumulates() ? executables_.SetStage(accumulated_)
                                : executables_.Resume(*sized));
  RETURN_IF_ERROR(values_.Draw());
  return &executables_.training();
}

absl::Status Session::Impl::Start(const Feeds& feeds, Executable& executable, Staging& staging,
                                  Iterate iterate) {
  const absl::Status sent = WithoutThrowing("the batch's copy", [&] {
    return staging.Send(feeds, Scalars(), executable.program, *executable.executor);
  });
  RETURN_IF_ERROR(Settle(sent));
  values_.StepBegun();
  const absl::Status enqueued =
      WithoutThrowing("the step", [&] { return iterate(executable, staging); });
  return Damages("step", Settle(enqueued));
}

IterationScalars Session::Impl::Scalars() const {
  return {.learning_rate = rate_.At(step_),
          .step = static_cast<uint32_t>(step_),
          .seed = options_.seed};
}

absl::StatusOr<StepResult> Session::Impl::Update() {
  if (!accumulates() || accumulated_ < options_.accumulate) {
    return absl::FailedPreconditionError(
        absl::StrCat("an update needs the gradients of ", options_.accumulate,
                     " batches, of TrainingOptions::accumulate; there are ", accumulated_));
  }
  RETURN_IF_ERROR(CheckNotPaused());
  RETURN_IF_ERROR(CheckUsable());
  RETURN_IF_ERROR(CheckNotExchanged());
  RETURN_IF_ERROR(executables_.SetStage(accumulated_));
  Executable& executable = executables_.training();
  RETURN_IF_ERROR(Settle(WithoutThrowing("the update", [&] {
    return of_update_->SendScalars(Scalars(), executable.program, *executable.executor);
  })));
  const absl::Status enqueued =
      WithoutThrowing("the update", [&] { return executable.Iterate(*of_update_); });
  RETURN_IF_ERROR(Damages("update", Settle(enqueued)));
  StepResult result = {.step = step_};
  accumulated_ = 0;
  ++step_;
  if (!executable.program.loss_scale.has_value()) return result;
  absl::StatusOr<Staging::Received> received = of_update_->Await();
  RETURN_IF_ERROR(Damages("update", received.status()));
  FillLossScale(*received->loss_scale, result);
  return result;
}

absl::Status Session::Impl::Discard() {
  RETURN_IF_ERROR(CheckIdle());
  if (accumulated_ == 0) return absl::OkStatus();
  RETURN_IF_ERROR(CheckUsable());
  RETURN_IF_ERROR(values_.BackUpStates());
  accumulated_ = 0;
  return absl::OkStatus();
}

absl::StatusOr<StepResult> Session::Impl::Finish() {
  if (in_flight_.empty()) return absl::FailedPreconditionError("no step is in flight");
  const int64_t iteration = begun_ - std::ssize(in_flight_);
  const InFlight begun = in_flight_.front();
  in_flight_.pop_front();
  absl::StatusOr<Staging::Received> received =
      staging_[static_cast<size_t>(iteration % kMaxInFlight)].Await();
  RETURN_IF_ERROR(Damages("step", received.status()));
  return Finished(begun, *std::move(received));
}

StepResult Session::Impl::Finished(const InFlight& begun, Staging::Received received) {
  const std::optional<LossScale> loss_scale = received.loss_scale;
  // The kernels compute means over the images of all batches.
  for (LossResult& loss : received.losses) loss.loss *= static_cast<float>(options_.accumulate);
  StepResult result = ResultOf(std::move(received));
  result.step = begun.step;
  if (!loss_scale.has_value()) return result;
  if (accumulates()) {  // the update says whether the step is skipped
    result.used_loss_scale = result.loss_scale = begun.loss_scale.scale;
    result.skipped_steps = static_cast<int64_t>(begun.loss_scale.skipped);
  } else {
    FillLossScale(*loss_scale, result);
  }
  return result;
}

// Steps finish in order, so a count that has risen since the last one says that this was skipped.
void Session::Impl::FillLossScale(const LossScale& after, StepResult& result) {
  result.used_loss_scale = loss_scale_.scale;
  result.loss_scale = after.scale;
  result.skipped = after.skipped > loss_scale_.skipped;
  result.skipped_steps = static_cast<int64_t>(after.skipped);
  loss_scale_ = after;
}

absl::StatusOr<StepResult> Session::Impl::Evaluate(const Feeds& given) {
  RETURN_IF_ERROR(PrepareToEvaluate());
  Feeds feeds = given;
  std::erase_if(feeds, [this](const FeedValue& value) {
    return executables_.whole().FeedCalled(value.name) != nullptr &&
           inference_program().FeedCalled(value.name) == nullptr;
  });
  absl::StatusOr<StepResult> result = WithoutThrowing(
      "evaluation", [&] { return EvaluateFeeds(executables_.inference(), staging_[0], feeds); });
  RETURN_IF_ERROR(Settle(result.status()));
  return result;
}

absl::StatusOr<StepResult> Session::Impl::Evaluate(const BatchFeeds& given, int64_t values,
                                                   Prediction* prediction) {
  ASSIGN_OR_RETURN(StepResult result, Evaluate(given.feeds()));
  if (prediction == nullptr) return result;
  ASSIGN_OR_RETURN(const ImagePorts ports, ImagePortsOf(inference_program()));
  ASSIGN_OR_RETURN(*prediction,
                   ReadPrediction(executables_.inference(), values / ports.values, device_));
  return result;
}

absl::StatusOr<StepResult> Session::Impl::Evaluate(const Batch& batch, Prediction* prediction) {
  RETURN_IF_ERROR(PrepareToEvaluate());
  ASSIGN_OR_RETURN(const BatchFeeds given, BatchFeeds::Of(batch, inference_program()));
  ASSIGN_OR_RETURN(StepResult result, Evaluate(given, InputsIn(batch), prediction));
  // Labels count as such, also where targets stand for them.
  result.labels = result.losses[0].labels = LabelledIn(batch);
  return result;
}

absl::StatusOr<Prediction> Session::Impl::Predict(absl::Span<const float> images) {
  RETURN_IF_ERROR(PrepareToEvaluate());
  ASSIGN_OR_RETURN(const BatchFeeds given, BatchFeeds::OfImages(images, inference_program()));
  Prediction prediction;
  RETURN_IF_ERROR(Evaluate(given, std::ssize(images), &prediction).status());
  return prediction;
}

absl::Status Session::Impl::Refresh() {
  RETURN_IF_ERROR(Ready());
  return Damages("Refresh()", values_.Refresh());
}

absl::Status Session::Impl::ExchangeAverages() {
  RETURN_IF_ERROR(Ready());
  if (!keeps_averages())
    return absl::FailedPreconditionError("the session keeps no averages of its parameters");
  RETURN_IF_ERROR(Damages("ExchangeAverages()", values_.ExchangeAverages()));
  has_exchanged_ = !has_exchanged_;
  return absl::OkStatus();
}

absl::StatusOr<std::vector<float>> Session::Impl::Values(std::string_view name) {
  RETURN_IF_ERROR(values_.Gather(Ready()));
  return values_.Read(name);
}

absl::StatusOr<std::vector<NamedTensor>> Session::Impl::Weights() {
  RETURN_IF_ERROR(values_.Gather(Ready()));
  return values_.ReadWeights();
}

absl::Status Session::Impl::SetBudget(int64_t budget_bytes) {
  RETURN_IF_ERROR(CheckIdle());
  return executables_.SetBudget(budget_bytes);
}

absl::Status Session::Impl::SetTrainingGraph(const Graph& graph) {
  absl::Status ready = CheckNotPaused();
  if (ready.ok()) AwaitBudget().IgnoreError();  // a refusal is reported by the next AwaitBudget()
  if (ready.ok()) ready = CheckUsable();
  if (ready.ok()) ready = CheckNotExchanged();
  return executables_.SetTrainingGraph(
      graph, ready, [this](const Program& program) { return Terms(program); },
      [this] { return values_.Gather(absl::OkStatus()); });
}

absl::Status Session::Impl::CheckIdle() const {
  RETURN_IF_ERROR(CheckNotPaused());
  if (in_flight_.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError("a step is in flight; Finish() it first");
}

absl::Status Session::Impl::CheckSteps() const {
  RETURN_IF_ERROR(CheckIdle());
  if (!accumulates()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "the session sums the gradients of several batches; Accumulate() adds those of one");
}

absl::Status Session::Impl::CheckAccumulates() const {
  RETURN_IF_ERROR(CheckIdle());
  if (accumulates()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "each step updates the parameters, unless TrainingOptions::accumulate is set");
}

absl::Status Session::Impl::CheckTrains() const {
  if (!options_.inference_only) return absl::OkStatus();
  return absl::FailedPreconditionError("the session was created for inference only");
}

absl::Status Session::Impl::CheckUsable() const {
  RETURN_IF_ERROR(executables_.memory().Check());
  return damage_;
}

absl::Status Session::Impl::CheckNotExchanged() const {
  if (!has_exchanged_) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "the parameters are exchanged with their averages; ExchangeAverages() exchanges them back");
}

absl::Status Session::Impl::Ready() {
  RETURN_IF_ERROR(CheckIdle());
  RETURN_IF_ERROR(CheckUsable());
  return values_.Draw();
}

absl::Status Session::Impl::PrepareToEvaluate() {
  RETURN_IF_ERROR(CheckIdle());
  executables_.TakeBudgetIfReady();
  RETURN_IF_ERROR(Ready());
  RETURN_IF_ERROR(values_.CheckGathered());
  if (!options_.training_only) return absl::OkStatus();
  return absl::FailedPreconditionError("the session was created for training only");
}

absl::Status Session::Impl::Settle(absl::Status status) {
  if (!status.ok()) device_.Synchronize().IgnoreError();  // the first error is the one to return
  return status;
}

absl::Status Session::Impl::Damages(std::string_view what, absl::Status status) {
  if (status.ok()) return status;
  damage_ = absl::FailedPreconditionError(
      absl::StrCat("a ", std::string(what),
                   " has failed half way and left some parameters changed and others not; "
                   "Load() a checkpoint: ",
                   status.message()));
  return status;
}

}  // namespace neap
