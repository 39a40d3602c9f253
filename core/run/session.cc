#include "neap/core/run/session.h"

#include <algorithm>
#include <cassert>
#include <iterator>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/base/without_throwing.h"
#include "neap/core/checkpoint/checkpoint.h"
#include "neap/core/program/feeds.h"
#include "neap/core/program/passes.h"
#include "neap/core/program/program.h"
#include "neap/core/run/budget_change.h"
#include "neap/core/run/evaluation.h"
#include "neap/core/run/lower_session.h"
#include "neap/core/run/persistent_values.h"
#include "neap/core/run/ranks.h"
#include "neap/core/run/session_memory.h"
#include "neap/core/run/session_planner.h"
#include "neap/core/run/staging.h"
#include "neap/core/step/loss_scale.h"
#include "neap/core/vision/batch_feeds.h"

namespace neap {
namespace {

constexpr int kMaxInFlight = 2;

// That of a new session if the file has none.
LossScale LossScaleOf(const LoadedCheckpoint& loaded, const Program& program) {
  LossScale loss_scale;
  for (const auto& [id, values] : loaded.tensors) {
    if (id == program.loss_scale) loss_scale = LossScaleFrom(values);
  }
  return loss_scale;
}

}  // namespace

class Session::Impl {
 public:
  Impl(Device& device, std::shared_ptr<const Planner> planner, TrainingOptions options)
      : device_(device),
        options_(options),
        rate_(options.learning_rate),
        budget_bytes_(planner->budget_bytes()),
        planner_(std::move(planner), device),
        memory_(device, planner_, !options.training_only, options.records_iterations,
                options.inference_only ? nullptr : options.communicator),
        values_(device, memory_.training(), options.communicator),
        change_(planner_) {}
  ~Impl() { device_.Synchronize().IgnoreError(); }  // kernels may still be using the arena

  absl::Status Create(const Graph& graph) {
    ASSIGN_OR_RETURN(share_, ShareOf(graph.options().batch, options_.communicator));
    const absl::Status prepared = WithoutThrowing("the session", [&] { return Prepare(graph); });
    RETURN_IF_ERROR(Agree(prepared, Terms(whole_), options_.communicator));
    const bool loads = options_.inference_only || options_.loads_values;
    return values_.Initialise(options_.seed, /*at_once=*/!loads);
  }

  absl::Status Prepare(const Graph& graph) {
    RETURN_IF_ERROR(CheckLearningRate(options_.learning_rate));
    if (options_.inference_only && options_.training_only) {
      return absl::InvalidArgumentError(
          "a session cannot be both for inference only and for training only");
    }
    ASSIGN_OR_RETURN(
        LoweredSession lowered,
        LowerSession(graph, options_, share_, device_.description(), budget_bytes_, planner_));
    memory_.training().program = std::move(lowered.training);
    memory_.inference().program = std::move(lowered.inference);
    whole_ = program();
    values_.Adopt(lowered.alone.has_value() ? *lowered.alone : whole_);
    for (int i = 0; i < kMaxInFlight; ++i) {
      ASSIGN_OR_RETURN(Staging staging, Staging::Create(whole_, device_));
      staging_.push_back(std::move(staging));
    }
    return PlanAndReserve();
  }

  const PlanResult& planned() const { return memory_.training().planned; }
  int64_t step() const { return step_; }
  uint64_t seed() const { return options_.seed; }
  MemoryUse memory() const { return memory_.Use(); }
  absl::Status recording() const { return memory_.training().recording(); }
  LearningRate learning_rate() const { return rate_; }

  absl::Status SetLearningRate(const LearningRate& rate) {
    RETURN_IF_ERROR(
        Agree(CheckLearningRate(rate), {{"learning rate", ToString(rate)}}, options_.communicator));
    rate_ = rate;
    return absl::OkStatus();
  }

  PlanCacheStats plan_cache() const { return planner_.cache_stats(); }

  absl::Status Begin(const Batch& batch) {
    RETURN_IF_ERROR(CheckTrains());
    ASSIGN_OR_RETURN(const BatchFeeds given, BatchFeeds::Of(batch, program()));
    return Begin(given.feeds());
  }
  absl::Status Begin(const Feeds& feeds) {
    return Begin(feeds, [this](Staging& staging) { return memory_.training().Iterate(staging); });
  }

  absl::StatusOr<TimedStep> Time(const Batch& batch) {
    RETURN_IF_ERROR(CheckTrains());
    ASSIGN_OR_RETURN(const BatchFeeds given, BatchFeeds::Of(batch, program()));
    return Time(given.feeds());
  }
  absl::StatusOr<TimedStep> Time(const Feeds& feeds) {
    RETURN_IF_ERROR(CheckIdle());
    TimedStep timed;
    RETURN_IF_ERROR(Begin(feeds, [&](Staging& staging) -> absl::Status {
      ASSIGN_OR_RETURN(timed.timeline, memory_.training().IterateTimed(staging));
      return absl::OkStatus();
    }));
    ASSIGN_OR_RETURN(timed.result, Finish());
    return timed;
  }

  absl::StatusOr<StepResult> Finish() {
    if (in_flight_ == 0) return absl::FailedPreconditionError("no step is in flight");
    const int64_t step = step_ - in_flight_;
    --in_flight_;
    absl::StatusOr<Staging::Received> received =
        staging_[static_cast<size_t>(step % kMaxInFlight)].Await();
    RETURN_IF_ERROR(Damages("step", received.status()));
    const std::optional<LossScale> loss_scale = received->loss_scale;
    StepResult result = ResultOf(*std::move(received));
    result.step = step;
    if (loss_scale.has_value()) FillLossScale(*loss_scale, result);
    return result;
  }

  // Feeds that only training reads may be given, too.
  absl::StatusOr<StepResult> Evaluate(const Feeds& given) {
    RETURN_IF_ERROR(PrepareToEvaluate());
    Feeds feeds = given;
    std::erase_if(feeds, [this](const FeedValue& value) {
      return whole_.FeedCalled(value.name) != nullptr &&
             inference_program().FeedCalled(value.name) == nullptr;
    });
    absl::StatusOr<StepResult> result = WithoutThrowing(
        "evaluation", [&] { return EvaluateFeeds(memory_.inference(), staging_[0], feeds); });
    RETURN_IF_ERROR(Settle(result.status()));
    return result;
  }

  absl::StatusOr<StepResult> Evaluate(const Batch& batch, Prediction* prediction) {
    RETURN_IF_ERROR(PrepareToEvaluate());
    ASSIGN_OR_RETURN(const BatchFeeds given, BatchFeeds::Of(batch, inference_program()));
    ASSIGN_OR_RETURN(StepResult result, Evaluate(given, std::ssize(ImagesOf(batch)), prediction));
    // Labels count as such, also where targets stand for them.
    result.labels = result.losses[0].labels = LabelledIn(batch);
    return result;
  }

  absl::StatusOr<Prediction> Predict(absl::Span<const float> images) {
    RETURN_IF_ERROR(PrepareToEvaluate());
    ASSIGN_OR_RETURN(const BatchFeeds given, BatchFeeds::OfImages(images, inference_program()));
    Prediction prediction;
    RETURN_IF_ERROR(Evaluate(given, std::ssize(images), &prediction).status());
    return prediction;
  }

  absl::Status Save(const std::string& path, CheckpointContents contents,
                    DType weights = DType::kFp32) {
    RETURN_IF_ERROR(values_.Gather(ReadyToSave(contents)));
    const std::string set_rate = rate_ == options_.learning_rate ? "" : ToString(rate_);
    return values_.Save(path, contents,
                        {.step = step_, .seed = options_.seed, .learning_rate = set_rate}, weights,
                        metadata_);
  }
  void SetMetadata(FileMetadata metadata) { metadata_ = std::move(metadata); }

  // `read` returns what to load into the tensors of a program.
  template <typename Read>
  absl::Status Load(const Read& read) {
    neap::Terms loaded;
    const absl::Status own = Load(read, loaded);
    return Agree(own, loaded, options_.communicator);
  }
  // Says what was loaded.
  template <typename Read>
  absl::Status Load(const Read& read, neap::Terms& what) {
    RETURN_IF_ERROR(CheckIdle());
    RETURN_IF_ERROR(memory_.Check());
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
    if (loaded.position.has_value()) options_.seed = loaded.position->seed;
    rate_ = rate;
    return absl::OkStatus();
  }

  absl::Status ExchangeAverages() {
    RETURN_IF_ERROR(Ready());
    if (!keeps_averages())
      return absl::FailedPreconditionError("the session keeps no averages of its parameters");
    RETURN_IF_ERROR(Damages("ExchangeAverages()", values_.ExchangeAverages()));
    has_exchanged_ = !has_exchanged_;
    return absl::OkStatus();
  }

  bool keeps_averages() const {
    return !options_.inference_only && options_.optimizer.keeps_average();
  }

  absl::StatusOr<std::vector<float>> Values(std::string_view name) {
    RETURN_IF_ERROR(values_.Gather(Ready()));
    return values_.Read(name);
  }

  absl::StatusOr<std::vector<NamedTensor>> Weights() {
    RETURN_IF_ERROR(values_.Gather(Ready()));
    return values_.ReadWeights();
  }

  bool is_sharded() const { return values_.is_sharded(); }
  absl::Status Gather() { return values_.Gather(Ready()); }

  absl::Status SetBudget(int64_t budget_bytes) {
    RETURN_IF_ERROR(CheckIdle());
    change_.Drop();
    budget_outcome_ = absl::OkStatus();
    ASSIGN_OR_RETURN(SessionPlans plans, planner_.PlanAll(Programs(), budget_bytes));
    const absl::Status refused = SwitchBudget(budget_bytes, std::move(plans));
    return absl::IsAborted(refused) ? SetBudget(budget_bytes) : refused;
  }

  absl::Status SetBudgetAsync(int64_t budget_bytes) {
    RETURN_IF_ERROR(change_.Start(budget_bytes, Programs()));
    budget_outcome_ = absl::OkStatus();
    return absl::OkStatus();
  }
  bool budget_pending() const { return change_.is_pending(); }
  absl::Status AwaitBudget() {
    while (std::optional<BudgetChange::Planned> planned = change_.Await())
      TakeBudget(*std::move(planned));
    return budget_outcome_;
  }

  // Plans for the graph in the budget that the session will have, again as long as an engine of one
  // rank turns out not to build.
  absl::Status SetTrainingGraph(const Graph& graph) {
    absl::Status agreed;
    do {
      Setup next;
      const absl::Status prepared = PreparePart(graph, next);
      RETURN_IF_ERROR(Agree(prepared, Terms(next.training), options_.communicator));
      // Those that the next graph leaves out, too.
      RETURN_IF_ERROR(values_.Gather(absl::OkStatus()));
      const bool fits = next.plans.training.plan.arena_bytes <= memory_.arena_bytes();
      agreed = Agree(memory_.Switch(next, fits), {}, options_.communicator);
    } while (absl::IsAborted(agreed));
    return agreed;
  }

  absl::Status CheckIdle() const {
    if (in_flight_ == 0) return absl::OkStatus();
    return absl::FailedPreconditionError("a step is in flight; Finish() it first");
  }

 private:
  // Of so many values of images.
  absl::StatusOr<StepResult> Evaluate(const BatchFeeds& given, int64_t values,
                                      Prediction* prediction) {
    ASSIGN_OR_RETURN(StepResult result, Evaluate(given.feeds()));
    if (prediction == nullptr) return result;
    ASSIGN_OR_RETURN(const ImagePorts ports, ImagePortsOf(inference_program()));
    ASSIGN_OR_RETURN(*prediction,
                     ReadPrediction(memory_.inference(), values / ports.values, device_));
    return result;
  }

  absl::Status CheckTrains() const {
    if (!options_.inference_only) return absl::OkStatus();
    return absl::FailedPreconditionError("the session was created for inference only");
  }

  // `iterate` enqueues the work that follows the copy of the feeds.
  template <typename Iterate>
  absl::Status Begin(const Feeds& feeds, const Iterate& iterate) {
    RETURN_IF_ERROR(CheckTrains());
    if (in_flight_ == kMaxInFlight)
      return absl::FailedPreconditionError("two steps are in flight; Finish() one");
    TakeBudgetIfReady();
    RETURN_IF_ERROR(memory_.Check());
    RETURN_IF_ERROR(damage_);
    RETURN_IF_ERROR(CheckNotExchanged());
    RETURN_IF_ERROR(values_.Draw());
    const IterationScalars scalars = {.learning_rate = rate_.At(step_),
                                      .step = static_cast<uint32_t>(step_),
                                      .seed = options_.seed};
    Staging& staging = staging_[static_cast<size_t>(step_ % kMaxInFlight)];
    const absl::Status sent = WithoutThrowing(
        "the batch's copy", [&] { return staging.Send(feeds, scalars, program(), executor()); });
    RETURN_IF_ERROR(Settle(sent));
    values_.StepBegun();
    const absl::Status enqueued = WithoutThrowing("the step", [&] { return iterate(staging); });
    RETURN_IF_ERROR(Damages("step", Settle(enqueued)));
    ++step_;
    ++in_flight_;
    return absl::OkStatus();
  }

  neap::Terms Terms(const Program& program) const { return TermsOf(program, rate_, options_.seed); }
  // Weights leave the rate as it is.
  absl::StatusOr<LearningRate> RateAfter(const LoadedCheckpoint& loaded) const {
    if (!loaded.position.has_value()) return rate_;
    if (loaded.position->learning_rate.empty()) return options_.learning_rate;
    const absl::StatusOr<LearningRate> rate = ParseLearningRate(loaded.position->learning_rate);
    if (rate.ok()) return rate;
    return absl::DataLossError(
        absl::StrCat("the checkpoint's metadata: ", rate.status().message()));
  }
  const Program& program() const { return memory_.training().program; }
  const Program& inference_program() const { return memory_.inference().program; }
  Executor& executor() { return *memory_.training().executor; }
  SessionPrograms Programs() const {
    SessionPrograms programs = {.training = program(), .inference = std::nullopt};
    if (!options_.training_only) programs.inference = memory_.inference().program;
    return programs;
  }

  void TakeBudgetIfReady() {
    if (std::optional<BudgetChange::Planned> planned = change_.Take())
      TakeBudget(*std::move(planned));
  }
  void TakeBudget(BudgetChange::Planned planned) {
    budget_outcome_ = planned.plans.status();
    if (!budget_outcome_.ok()) return;
    budget_outcome_ = SwitchBudget(planned.budget_bytes, *std::move(planned.plans));
    if (absl::IsAborted(budget_outcome_)) budget_outcome_ = SetBudgetAsync(planned.budget_bytes);
  }
  absl::Status SwitchBudget(int64_t budget_bytes, SessionPlans plans) {
    Setup next = {program(), std::move(plans)};
    RETURN_IF_ERROR(memory_.Switch(next, /*keep_arena=*/false));
    budget_bytes_ = budget_bytes;
    return absl::OkStatus();
  }

  // Steps finish in order, so a count that has risen since the last one says that this was skipped.
  void FillLossScale(const LossScale& after, StepResult& result) {
    result.used_loss_scale = loss_scale_.scale;
    result.loss_scale = after.scale;
    result.skipped = after.skipped > loss_scale_.skipped;
    result.skipped_steps = static_cast<int64_t>(after.skipped);
    loss_scale_ = after;
  }

  // The work that a failed iteration has enqueued must not overlap with the next iteration.
  absl::Status Settle(absl::Status status) {
    if (!status.ok()) device_.Synchronize().IgnoreError();  // the first error is the one to return
    return status;
  }
  absl::Status CheckReady() const {
    RETURN_IF_ERROR(CheckIdle());
    RETURN_IF_ERROR(memory_.Check());
    return damage_;
  }
  // Whether the values of persistent tensors can be read and changed between steps.
  absl::Status Ready() {
    RETURN_IF_ERROR(CheckReady());
    return values_.Draw();
  }
  absl::Status CheckNotExchanged() const {
    if (!has_exchanged_) return absl::OkStatus();
    return absl::FailedPreconditionError(
        "the parameters are exchanged with their averages; ExchangeAverages() exchanges them back");
  }
  absl::Status ReadyToSave(CheckpointContents contents) {
    RETURN_IF_ERROR(Ready());
    if (contents == CheckpointContents::kEverything) RETURN_IF_ERROR(CheckNotExchanged());
    if (!options_.inference_only || contents != CheckpointContents::kEverything)
      return absl::OkStatus();
    return absl::FailedPreconditionError(
        "the session was created for inference only and has no optimizer; SaveWeights() writes "
        "the parameters");
  }
  absl::Status PrepareToEvaluate() {
    RETURN_IF_ERROR(CheckIdle());
    TakeBudgetIfReady();
    RETURN_IF_ERROR(Ready());
    RETURN_IF_ERROR(values_.CheckGathered());
    if (!options_.training_only) return absl::OkStatus();
    return absl::FailedPreconditionError("the session was created for training only");
  }

  // A failure after some persistent tensors were changed makes all of them unusable.
  absl::Status Damages(std::string_view what, absl::Status status) {
    if (status.ok()) return status;
    damage_ = absl::FailedPreconditionError(
        absl::StrCat("a ", std::string(what),
                     " has failed half way and left some parameters changed and others not; "
                     "Load() a checkpoint: ",
                     status.message()));
    return status;
  }

  absl::Status PreparePart(const Graph& graph, Setup& next) {
    RETURN_IF_ERROR(CheckIdle());
    AwaitBudget().IgnoreError();  // a refusal is reported by the next AwaitBudget()
    RETURN_IF_ERROR(CheckReady());
    RETURN_IF_ERROR(CheckNotExchanged());
    ASSIGN_OR_RETURN(next.training, LowerPart(graph, whole_, device_.description()));
    ASSIGN_OR_RETURN(PlanResult planned, planner_.Plan(next.training, budget_bytes_));
    int64_t& minimum = planned.stats.minimum_budget_bytes;
    minimum = std::max(minimum, memory_.inference().planned.stats.minimum_budget_bytes);
    next.plans = {std::move(planned), memory_.inference().planned};
    return absl::OkStatus();
  }

  // Plans again as long as an engine turns out not to build, which is no longer listed then.
  absl::Status PlanAndReserve() {
    for (;;) {
      ASSIGN_OR_RETURN(SessionPlans plans, planner_.PlanAll(Programs(), budget_bytes_));
      memory_.training().planned = std::move(plans.training);
      memory_.inference().planned = std::move(plans.inference);
      const absl::Status reserved = memory_.Reserve();
      if (!absl::IsAborted(reserved)) return reserved;
      planner_.Forget();
    }
  }

  Device& device_;
  TrainingOptions options_;
  LearningRate rate_;
  int64_t budget_bytes_;
  SessionPlanner planner_;
  RankShare share_;
  Program whole_;  // the training program of the graph given to Create()
  SessionMemory memory_;
  PersistentValues values_;
  BudgetChange change_;           // of SetBudgetAsync()
  absl::Status budget_outcome_;   // of the last change that is no longer pending
  std::vector<Staging> staging_;  // one for each step that may be in flight
  int64_t step_ = 0;              // the next step to begin
  int64_t in_flight_ = 0;
  FileMetadata metadata_;       // of SetMetadata()
  LossScale loss_scale_;        // after the last step that was finished; unused if it is not scaled
  bool has_exchanged_ = false;  // the parameters and their averages
  absl::Status damage_;         // not OK if persistent tensors are unusable until a Load()
};

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

absl::StatusOr<float> Session::TrainStep(const Batch& batch) {
  RETURN_IF_ERROR(impl().CheckIdle());
  RETURN_IF_ERROR(impl().Begin(batch));
  ASSIGN_OR_RETURN(const StepResult result, impl().Finish());
  return result.loss;
}
absl::StatusOr<StepResult> Session::Step(const Feeds& feeds) {
  RETURN_IF_ERROR(impl().CheckIdle());
  RETURN_IF_ERROR(impl().Begin(feeds));
  return impl().Finish();
}
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
