#include "neap/core/run/session.h"

#include <cassert>
#include <utility>

#include "neap/core/base/status_macros.h"
#include "neap/core/run/session/session_impl.h"

namespace neap {

Session::Session(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;
Session::~Session() = default;
Session::Impl& Session::impl() const {
  assert(impl_ != nullptr);
  return *impl_;
}

absl::StatusOr<Session> Session::Create(const Graph& graph, Device& device,
                                        std::shared_ptr<const Planner> planner,
                                        TrainingOptions training) {
  if (planner == nullptr) return absl::InvalidArgumentError("a session needs a planner");
  auto impl = std::make_unique<Impl>(device, std::move(planner), training);
  RETURN_IF_ERROR(impl->Create(graph));
  return Session(std::move(impl));
}

const Plan& Session::plan() const { return impl().planned().plan; }
const PlanningStats& Session::planning() const { return impl().planned().stats; }
Timeline Session::predicted() const {
  const PlanResult& planned = impl().planned();
  return PredictTimeline(planned.plan, planned.costs);
}
MemoryUse Session::memory() const { return impl().memory(); }
absl::Status Session::recording() const { return impl().recording(); }
int64_t Session::step() const { return impl().step(); }
uint64_t Session::seed() const { return impl().seed(); }
LearningRate Session::learning_rate() const { return impl().learning_rate(); }
absl::Status Session::SetLearningRate(const LearningRate& rate) {
  return impl().SetLearningRate(rate);
}
PlanCacheStats Session::plan_cache() const { return impl().plan_cache(); }
ExecutableStats Session::executables() const { return impl().executables(); }
const std::vector<GraphSize>& Session::sizes() const { return impl().sizes(); }

absl::StatusOr<float> Session::TrainStep(const Batch& batch) {
  ASSIGN_OR_RETURN(const StepResult result, Step(batch));
  return result.loss;
}
absl::StatusOr<StepResult> Session::Step(const Batch& batch) {
  RETURN_IF_ERROR(impl().CheckSteps());
  return impl().BeginAndFinish(batch);
}
absl::StatusOr<StepResult> Session::Step(const Feeds& feeds) {
  RETURN_IF_ERROR(impl().CheckSteps());
  return impl().BeginAndFinish(feeds);
}
absl::StatusOr<StepResult> Session::Accumulate(const Feeds& feeds) {
  RETURN_IF_ERROR(impl().CheckAccumulates());
  return impl().BeginAndFinish(feeds);
}
absl::StatusOr<StepResult> Session::Accumulate(const Batch& batch) {
  RETURN_IF_ERROR(impl().CheckAccumulates());
  return impl().BeginAndFinish(batch);
}
absl::StatusOr<std::vector<NamedTensor>> Session::Forward(const Feeds& feeds) {
  return impl().Forward(feeds);
}
absl::StatusOr<StepResult> Session::Backward(const Feeds& gradients) {
  return impl().Backward(gradients);
}
absl::Status Session::SkipBackward() { return impl().SkipBackward(); }
absl::Status Session::Discard() { return impl().Discard(); }
int64_t Session::accumulated() const { return impl().accumulated(); }
absl::StatusOr<StepResult> Session::Update() { return impl().Update(); }
absl::StatusOr<TimedStep> Session::TimeStep(const Batch& batch) { return impl().Time(batch); }
absl::StatusOr<TimedStep> Session::TimeStep(const Feeds& feeds) { return impl().Time(feeds); }
absl::Status Session::Begin(const Batch& batch) { return impl().Begin(batch); }
absl::Status Session::Begin(const Feeds& feeds) { return impl().Begin(feeds); }
absl::StatusOr<StepResult> Session::Finish() { return impl().Finish(); }
absl::StatusOr<StepResult> Session::Evaluate(const Batch& batch, Prediction* prediction) {
  return impl().Evaluate(batch, prediction);
}
absl::StatusOr<StepResult> Session::Evaluate(const Feeds& feeds) { return impl().Evaluate(feeds); }
absl::StatusOr<Prediction> Session::Predict(absl::Span<const float> images) {
  return impl().Predict(images);
}

absl::Status Session::Save(const std::string& path) {
  return impl().Save(path, CheckpointContents::kEverything);
}
absl::Status Session::SaveWeights(const std::string& path, DType dtype) {
  return impl().Save(path, CheckpointContents::kWeights, dtype);
}
void Session::SetMetadata(FileMetadata metadata) { impl().SetMetadata(std::move(metadata)); }
bool Session::is_sharded() const { return impl().is_sharded(); }
absl::Status Session::Gather() { return impl().Gather(); }
absl::Status Session::Load(const std::string& path) {
  return impl().Load([&](const Program& program) { return LoadCheckpoint(path, program); });
}
absl::Status Session::LoadWeights(const NamedValues& weights) {
  return impl().Load([&](const Program& program) { return CheckpointOf(weights, program); });
}
absl::Status Session::Refresh() { return impl().Refresh(); }
absl::Status Session::ExchangeAverages() { return impl().ExchangeAverages(); }
bool Session::keeps_averages() const { return impl().keeps_averages(); }
absl::StatusOr<std::vector<float>> Session::Values(std::string_view tensor) {
  return impl().Values(tensor);
}
absl::StatusOr<std::vector<NamedTensor>> Session::Weights() { return impl().Weights(); }
absl::Status Session::SetBudget(int64_t budget_bytes) { return impl().SetBudget(budget_bytes); }
absl::Status Session::SetBudgetAsync(int64_t budget_bytes) {
  return impl().SetBudgetAsync(budget_bytes);
}
bool Session::budget_pending() const { return impl().budget_pending(); }
absl::Status Session::AwaitBudget() { return impl().AwaitBudget(); }
absl::Status Session::SetTrainingGraph(const Graph& graph) {
  return impl().SetTrainingGraph(graph);
}

}  // namespace neap
