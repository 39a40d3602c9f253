#include "apps/train/training_loop.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "apps/cli/interrupt.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/run/ranks.h"
#include "neap/core/step/loss_scale.h"

namespace neap::apps {
namespace {

// For an even number of values, the mean of the two in the middle.
double Median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*std::max_element(values.begin(), middle) + *middle) / 2;
}

// A step that was skipped has changed nothing but the scale, which may have been too large, unless
// it was the smallest. After so many steps in a row that were skipped with that, another batch is
// not expected to do better.
constexpr int kMaxStuckSteps = 10;
bool IsStuck(const StepResult& result) {
  return result.skipped && result.used_loss_scale <= LossScale::kMin;
}

// Why training cannot go on after this step, the last of `stuck` that were stuck; empty if it can.
std::string ReasonToStop(const StepResult& result, int stuck) {
  const bool is_finite = std::isfinite(result.loss);
  if (is_finite ? stuck < kMaxStuckSteps : result.skipped && stuck == 0) return "";
  const std::string what =
      is_finite ? absl::StrCat("a gradient is not finite in ", stuck, " steps in a row")
                : absl::StrCat("the loss is ", std::isnan(result.loss) ? "nan" : "infinite");
  return absl::StrFormat(
      "%s at step %d%s: training has diverged; a lower --lr or a --warmup may help", what,
      result.step + 1, result.skipped ? ", with the smallest loss scale, 1" : "");
}

// Sums the losses of the batches of one step.
void AddTo(StepResult& sum, const StepResult& result) {
  for (size_t i = 0; i < sum.losses.size(); ++i) {
    sum.losses[i].loss += result.losses[i].loss;
    sum.losses[i].correct += result.losses[i].correct;
  }
  sum.loss += result.loss;
  sum.correct += result.correct;
}

class TrainingLoop {
 public:
  TrainingLoop(Session& session, BatchSource& batches, const TrainingLoopOptions& options,
               const OnStep& on_step)
      : session_(session),
        batches_(batches),
        options_(options),
        on_step_(on_step),
        warm_step_(session.step() + StepTimes::kWarmupSteps),
        known_step_(session.step()) {}

  absl::StatusOr<TrainingEnd> Run() {
    saved_at_ = StepTimes::Clock::now();
    end_.failure = TakeSteps();
    const bool fails_alone = !end_.failure.ok() && !failed_together_;
    end_.is_agreed = options_.communicator == nullptr || !fails_alone;
    if (!end_.failure.ok() && !has_diverged_) FinishBegunSteps();
    if (has_diverged_) return WithLastCheckpoint(end_.failure);
    const bool stopped = stops_ && session_.step() < options_.last_step;
    end_.interrupted = end_.failure.ok() && (stopped || epoch_end_interrupted_);
    if (end_.is_idle() || saved_step_ == session_.step()) return end_;
    // Drops the gradients of a step that has failed half way, as by a batch that cannot be read.
    if (session_.accumulated() > 0 && in_flight_ == 0) session_.Discard().IgnoreError();
    const absl::Status saved = Save();
    if (end_.failure.ok()) RETURN_IF_ERROR(saved);
    end_.is_whole = saved.ok() && (end_.is_agreed || !session_.is_sharded());
    if (!end_.is_whole) end_.failure = WithLastCheckpoint(end_.failure);
    return end_;
  }

 private:
  absl::Status TakeSteps() {
    // Other ranks may still be planning.
    RETURN_IF_ERROR(Poll(absl::OkStatus(), Communicator::Patience::kForFiles));
    while (session_.step() < options_.last_step && !stops_) {
      const int64_t save = NextSave();
      const int64_t epoch_end = NextEpochEnd();
      const bool is_timed = session_.step() == options_.timed_step;
      RETURN_IF_ERROR(is_timed ? TimeStep() : TrainUntil(NextPause(std::min(save, epoch_end))));
      if (session_.step() == save || saves_) RETURN_IF_ERROR(Save());
      if (session_.step() == epoch_end && !stops_) RETURN_IF_ERROR(EndEpoch());
      RETURN_IF_ERROR(Poll());
    }
    return absl::OkStatus();
  }

  // Steps that were in flight when another one failed count, too, unless they fail themselves.
  void FinishBegunSteps() {
    while (in_flight_ > 0) {
      if (!FinishBatch().ok()) return;
    }
  }

  absl::Status WithLastCheckpoint(const absl::Status& failure) const {
    if (options_.save.empty()) return failure;
    absl::Status said(
        failure.code(),
        absl::StrCat(failure.message(), "; ",
                     saved_step_ < 0 ? absl::StrCat("no checkpoint was written before")
                                     : absl::StrCat(options_.save, " is the checkpoint of step ",
                                                    saved_step_)));
    failure.ForEachPayload(
        [&](const auto& type, const absl::Cord& payload) { said.SetPayload(type, payload); });
    return said;
  }

  // Looks whether a rank is interrupted, has failed, or wants a checkpoint. All ranks call it
  // between the same steps. Errors: `own`, or that of another rank.
  absl::Status Poll(const absl::Status& own = absl::OkStatus(),
                    Communicator::Patience patience = Communicator::Patience::kUsual) {
    if (stops_) return own;
    Communicator* const communicator = options_.communicator;
    const bool is_late = !options_.save.empty() && session_.step() > known_step_ &&
                         StepTimes::Clock::now() - saved_at_ >= options_.save_after;
    if (communicator == nullptr) {
      stops_ = Interrupted();
      saves_ = is_late;
      return own;
    }
    const bool saves = is_late && communicator->rank() == 0;
    const char* const said = !own.ok() ? "fail" : Interrupted() ? "stop" : saves ? "save" : "";
    ASSIGN_OR_RETURN(const std::vector<std::string> ranks, communicator->Exchange(said, patience));
    const auto any = [&ranks](const char* text) {
      return std::count(ranks.begin(), ranks.end(), text) > 0;
    };
    stops_ = any("stop");
    saves_ = any("save");
    failed_together_ = any("fail");
    return failed_together_ ? Agree(own, {}, communicator) : absl::OkStatus();
  }

  // Takes the next batch, which stays the next one if there is no step now: a rank is interrupted,
  // or a checkpoint is due by the clock.
  absl::Status TakeBatch() {
    absl::StatusOr<const Batch*> batch = batch_;
    if (batch_ == nullptr) batch = batches_.Next();
    RETURN_IF_ERROR(Poll(batch.status()));
    batch_ = *batch;
    return absl::OkStatus();
  }
  bool pauses() const { return accumulated_ == 0 && (stops_ || saves_); }

  // The step count at which the next checkpoint is due.
  int64_t NextSave() const {
    const int64_t every = options_.save.empty() ? 0 : options_.save_every;
    if (every == 0) return options_.last_step;
    return std::min(options_.last_step, (session_.step() / every + 1) * every);
  }

  // The next step count at which an epoch or the training ends.
  int64_t NextEpochEnd() const {
    if (options_.epoch_images == 0 || options_.on_epoch_end == nullptr) return options_.last_step;
    const auto batch = static_cast<double>(options_.batch);
    const auto images = static_cast<double>(options_.epoch_images);
    const double epochs = std::ceil(static_cast<double>(session_.step() + 1) * batch / images);
    const double end = std::floor(epochs * images / batch);
    return std::min(options_.last_step, std::max(static_cast<int64_t>(end), session_.step() + 1));
  }

  // The next step count at which no step may be in flight.
  int64_t NextPause(int64_t stop) const {
    int64_t pause = stop;
    for (const int64_t step : {warm_step_, options_.timed_step.value_or(warm_step_)})
      if (step > session_.step()) pause = std::min(pause, step);
    return pause;
  }

  // Leaves no step in flight.
  absl::Status TrainUntil(int64_t pause) {
    constexpr int64_t kInFlight = 2;
    do {
      while (in_flight_ < kInFlight && session_.step() < pause && !pauses()) {
        RETURN_IF_ERROR(TakeBatch());
        if (pauses()) break;
        RETURN_IF_ERROR(session_.Begin(*std::exchange(batch_, nullptr)));
        ++in_flight_;
        RETURN_IF_ERROR(UpdateIfComplete());
      }
      if (in_flight_ > 0) RETURN_IF_ERROR(FinishBatch());
    } while (in_flight_ > 0);
    return absl::OkStatus();
  }

  absl::Status UpdateIfComplete() {
    if (options_.accumulate == 1 || ++accumulated_ < options_.accumulate) return absl::OkStatus();
    accumulated_ = 0;
    ASSIGN_OR_RETURN(updated_, session_.Update());
    return absl::OkStatus();
  }

  // A step ends with its last batch.
  absl::Status FinishBatch() {
    --in_flight_;
    ASSIGN_OR_RETURN(StepResult result, session_.Finish());
    if (finished_ == 0) {
      of_step_ = std::move(result);
    } else {
      AddTo(of_step_, result);
    }
    if (++finished_ < options_.accumulate) return absl::OkStatus();
    finished_ = 0;
    for (LossResult& loss : of_step_.losses) loss.loss /= static_cast<float>(options_.accumulate);
    of_step_.loss /= static_cast<float>(options_.accumulate);
    if (options_.accumulate > 1) {  // the next update comes after all batches of this step
      of_step_.used_loss_scale = updated_.used_loss_scale;
      of_step_.loss_scale = updated_.loss_scale;
      of_step_.skipped = updated_.skipped;
      of_step_.skipped_steps = updated_.skipped_steps;
    }
    return FinishStep(of_step_);
  }

  absl::Status FinishStep(const StepResult& result) {
    RETURN_IF_ERROR(Count(result));
    end_.times.Step();
    on_step_(end_.last, end_.times);
    return absl::OkStatus();
  }

  absl::Status TimeStep() {
    if (!pauses()) RETURN_IF_ERROR(TakeBatch());
    if (pauses()) return absl::OkStatus();
    ASSIGN_OR_RETURN(end_.timed, session_.TimeStep(*std::exchange(batch_, nullptr)));
    RETURN_IF_ERROR(Count(end_.timed->result));
    end_.times.Start();
    on_step_(end_.last, end_.times);
    return absl::OkStatus();
  }

  absl::Status Count(const StepResult& result) {
    end_.last = result;
    stuck_ = IsStuck(result) ? stuck_ + 1 : 0;
    if (const std::string reason = ReasonToStop(result, stuck_); !reason.empty()) {
      has_diverged_ = true;
      return absl::FailedPreconditionError(reason);
    }
    ++end_.steps;
    return absl::OkStatus();
  }

  absl::Status EndEpoch() {
    if (options_.on_epoch_end == nullptr) return absl::OkStatus();
    ASSIGN_OR_RETURN(const bool complete, options_.on_epoch_end());
    epoch_end_interrupted_ = !complete;
    end_.times.Start();
    return absl::OkStatus();
  }

  absl::Status Save() {
    if (options_.save.empty()) return absl::OkStatus();
    // The others are not there, if this rank has failed alone.
    Communicator* const communicator = end_.is_agreed ? options_.communicator : nullptr;
    if (session_.is_sharded() && !end_.is_agreed)
      return absl::UnavailableError("the other ranks' parts of the state cannot be saved");
    if (options_.communicator == nullptr || options_.communicator->rank() == 0 ||
        session_.is_sharded())
      RETURN_IF_ERROR(session_.Save(options_.save));
    saved_step_ = known_step_ = session_.step();
    saved_at_ = StepTimes::Clock::now();
    saves_ = false;
    if (communicator != nullptr) {  // the others must not take rank 0 for dead meanwhile
      RETURN_IF_ERROR(communicator->Exchange("saved", Communicator::Patience::kForFiles).status());
    }
    end_.times.Start();
    return absl::OkStatus();
  }

  Session& session_;
  BatchSource& batches_;
  const TrainingLoopOptions& options_;
  const OnStep& on_step_;
  const int64_t warm_step_;  // the first after the warm-up
  TrainingEnd end_;
  const Batch* batch_ = nullptr;  // taken, but not begun; null: none
  int64_t in_flight_ = 0;
  int64_t accumulated_ = 0;  // batches of the next step that have begun
  int64_t finished_ = 0;     // batches of the step whose results are in `of_step_`
  StepResult of_step_;
  StepResult updated_;  // the last update, for a scaled loss
  int stuck_ = 0;       // steps in a row until now that IsStuck()
  bool stops_ = false;  // this rank or another is interrupted
  bool saves_ = false;  // a checkpoint is due by the clock
  bool has_diverged_ = false;
  bool failed_together_ = false;  // all ranks, because one has said so
  bool epoch_end_interrupted_ = false;
  int64_t saved_step_ = -1;  // of the last checkpoint that this loop has written
  int64_t known_step_;       // up to which all is in a file, or was at the start
  StepTimes::Clock::time_point saved_at_;
};

}  // namespace

void StepTimes::Step(Clock::time_point now) {
  seconds_.push_back(std::chrono::duration<double>(now - last_).count());
  last_ = now;
}

std::vector<double> StepTimes::Settled() const {
  constexpr auto kSkipped = static_cast<size_t>(kWarmupSteps);
  const size_t skipped = seconds_.size() > kSkipped ? kSkipped : 0;
  return {seconds_.begin() + static_cast<std::ptrdiff_t>(skipped), seconds_.end()};
}

double StepTimes::MedianSeconds() const { return Median(Settled()); }

double StepTimes::RecentSeconds() const {
  constexpr size_t kRecent = 9;
  const size_t count = std::min(kRecent, seconds_.size());
  return Median({seconds_.end() - static_cast<std::ptrdiff_t>(count), seconds_.end()});
}

double StepTimes::MeanSeconds() const {
  const std::vector<double> settled = Settled();
  if (settled.empty()) return 0;
  return std::accumulate(settled.begin(), settled.end(), 0.0) / static_cast<double>(settled.size());
}

absl::StatusOr<TrainingEnd> Train(Session& session, BatchSource& batches,
                                  const TrainingLoopOptions& options, const OnStep& on_step) {
  return TrainingLoop(session, batches, options, on_step).Run();
}

}  // namespace neap::apps
