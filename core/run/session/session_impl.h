// What a session does between the calls of its user: steps, evaluation, files. Private to the
// session.
//
// The public class is only a facade, so that programs that include it need none of this. A function
// here that has the name of one of Session does what core/run/session.h says.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/checkpoint/checkpoint.h"
#include "neap/core/device/device.h"
#include "neap/core/graph/graph.h"
#include "neap/core/plan/planner.h"
#include "neap/core/program/feeds.h"
#include "neap/core/program/program.h"
#include "neap/core/run/learning_rate.h"
#include "neap/core/run/persistent_values.h"
#include "neap/core/run/ranks.h"
#include "neap/core/run/session.h"
#include "neap/core/run/session/session_executables.h"
#include "neap/core/run/session_results.h"
#include "neap/core/run/staging.h"
#include "neap/core/step/loss_scale.h"
#include "neap/core/vision/batch.h"
#include "neap/core/vision/batch_feeds.h"

namespace neap {

class Session::Impl {
 public:
  Impl(Device& device, std::shared_ptr<const Planner> planner, TrainingOptions options)
      : device_(device),
        options_(options),
        rate_(options.learning_rate),
        executables_(device, std::move(planner), options_),
        values_(device, executables_, options.communicator) {}
  ~Impl() { device_.Synchronize().IgnoreError(); }  // kernels may still be using the arena

  absl::Status Create(const Graph& graph);

  const PlanResult& planned() const { return executables_.first_stage().planned; }
  int64_t step() const { return step_; }
  int64_t accumulated() const { return accumulated_; }
  uint64_t seed() const { return options_.seed; }
  MemoryUse memory() const { return executables_.memory().Use(); }
  absl::Status recording() const { return executables_.recording(); }
  LearningRate learning_rate() const { return rate_; }
  PlanCacheStats plan_cache() const { return executables_.plan_cache(); }
  ExecutableStats executables() const { return executables_.memory().stats(); }
  const std::vector<GraphSize>& sizes() const { return executables_.sizes(); }
  bool is_sharded() const { return values_.is_sharded(); }
  bool keeps_averages() const {
    return !options_.inference_only && options_.optimizer.keeps_average();
  }
  // Whether nothing is in flight, and each step updates the parameters, or each batch adds to
  // their gradients.
  absl::Status CheckSteps() const;
  absl::Status CheckAccumulates() const;

  absl::Status SetLearningRate(const LearningRate& rate);
  absl::Status Begin(const Batch& batch);
  absl::Status Begin(const Feeds& feeds);
  absl::StatusOr<TimedStep> Time(const Batch& batch);
  absl::StatusOr<TimedStep> Time(const Feeds& feeds);
  absl::StatusOr<StepResult> Finish();
  template <typename Given>
  absl::StatusOr<StepResult> BeginAndFinish(const Given& given) {
    RETURN_IF_ERROR(Begin(given));
    return Finish();
  }
  absl::StatusOr<std::vector<NamedTensor>> Forward(const Feeds& feeds);
  absl::StatusOr<StepResult> Backward(const Feeds& gradients);
  absl::Status SkipBackward();
  absl::StatusOr<StepResult> Update();
  absl::Status Discard();
  // Feeds that only training reads may be given, too.
  absl::StatusOr<StepResult> Evaluate(const Feeds& given);
  absl::StatusOr<StepResult> Evaluate(const Batch& batch, Prediction* prediction);
  absl::StatusOr<Prediction> Predict(absl::Span<const float> images);

  absl::Status Save(const std::string& path, CheckpointContents contents,
                    DType weights = DType::kFp32);
  void SetMetadata(FileMetadata metadata) { metadata_ = std::move(metadata); }
  // What to load into the tensors of a program.
  using ReadValuesFor = absl::FunctionRef<absl::StatusOr<LoadedCheckpoint>(const Program& program)>;
  absl::Status Load(ReadValuesFor read);
  absl::Status Refresh();
  absl::Status ExchangeAverages();
  absl::StatusOr<std::vector<float>> Values(std::string_view name);
  absl::StatusOr<std::vector<NamedTensor>> Weights();
  absl::Status Gather() { return values_.Gather(Ready()); }

  absl::Status SetBudget(int64_t budget_bytes);
  absl::Status SetBudgetAsync(int64_t bytes) { return executables_.SetBudgetAsync(bytes); }
  bool budget_pending() const { return executables_.budget_pending(); }
  absl::Status AwaitBudget();
  absl::Status SetTrainingGraph(const Graph& graph);

 private:
  const Program& program() const { return executables_.training().program; }
  const Program& inference_program() const { return executables_.inference().program; }

  absl::Status Prepare(const Graph& graph, const RankShare& share);
  // Enqueues the work that follows the copy of the feeds.
  using Iterate = absl::FunctionRef<absl::Status(Executable& executable, Staging& staging)>;
  absl::Status Begin(const Feeds& feeds, Iterate iterate);
  // The executable of the next batch, with the size of these values, once it can run.
  absl::StatusOr<Executable*> Next(const Feeds& feeds);
  absl::Status Start(const Feeds& feeds, Executable& executable, Staging& staging, Iterate iterate);
  void CountBatch();
  // The batch as feeds of the size that it has.
  absl::StatusOr<BatchFeeds> FeedsOf(const Batch& batch) const;
  // Of so many values of images.
  absl::StatusOr<StepResult> Evaluate(const BatchFeeds& given, int64_t values,
                                      Prediction* prediction);
  // Says what was loaded.
  absl::Status Load(ReadValuesFor read, neap::Terms& what);
  // Weights leave the rate as it is.
  absl::StatusOr<LearningRate> RateAfter(const LoadedCheckpoint& loaded) const;
  neap::Terms Terms(const Program& program) const { return TermsOf(program, rate_, options_.seed); }
  // An iteration with a batch that is not finished.
  struct InFlight {
    int64_t step = 0;
    LossScale loss_scale;  // when it began, after the last known update
  };
  // The result of such an iteration when it has ended.
  StepResult Finished(const InFlight& begun, Staging::Received received);
  void FillLossScale(const LossScale& after, StepResult& result);

  // Of the step that is next.
  IterationScalars Scalars() const;

  bool accumulates() const { return options_.accumulate > 1; }
  // Whether no iteration is paused; CheckIdle() says whether none is in flight, either.
  absl::Status CheckNotPaused() const;
  absl::Status CheckIdle() const;
  absl::Status CheckTrains() const;
  absl::Status CheckUsable() const;
  absl::Status CheckNotExchanged() const;
  // Whether the values of persistent tensors can be read and changed between steps.
  absl::Status Ready();
  absl::Status ReadyToSave(CheckpointContents contents);
  absl::Status PrepareToEvaluate();
  // The work that a failed iteration has enqueued must not overlap with the next iteration.
  absl::Status Settle(absl::Status status);
  // A failure after some persistent tensors were changed makes all of them unusable.
  absl::Status Damages(std::string_view what, absl::Status status);

  Device& device_;
  TrainingOptions options_;
  LearningRate rate_;
  SessionExecutables executables_;
  PersistentValues values_;
  std::vector<Staging> staging_;      // one for each iteration that may be in flight
  std::optional<Staging> of_update_;  // if gradients are summed
  int64_t step_ = 0;                  // the next step to begin
  int64_t accumulated_ = 0;           // batches that have begun since the last update
  int64_t begun_ = 0;                 // iterations with a batch
  std::deque<InFlight> in_flight_;
  std::optional<InFlight> paused_;  // after Forward()
  FileMetadata metadata_;           // of SetMetadata()
  LossScale loss_scale_;        // after the last step that was finished; unused if it is not scaled
  bool has_exchanged_ = false;  // the parameters and their averages
  absl::Status damage_;         // not OK if persistent tensors are unusable until a Load()
};

}  // namespace neap
