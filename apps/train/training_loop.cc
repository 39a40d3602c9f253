#include "apps/train/training_loop.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "apps/cli/interrupt.h"
#include "neap/core/base/status_macros.h"
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
constexpr int kMostStuckSteps = 10;
bool IsStuck(const StepResult& result) {
  return result.skipped && result.used_loss_scale <= LossScale::kSmallest;
}

// Why training cannot go on after this step, the last of `stuck` that were stuck; empty if it can.
std::string ReasonToStop(const StepResult& result, int stuck) {
  const bool is_finite = std::isfinite(result.loss);
  if (is_finite ? stuck < kMostStuckSteps : result.skipped && stuck == 0) return "";
  const std::string what =
      is_finite ? absl::StrCat("a gradient is not finite in ", stuck, " steps in a row")
                : absl::StrCat("the loss is ", std::isnan(result.loss) ? "nan" : "infinite");
  return absl::StrFormat(
      "%s at step %d%s: training has diverged; a lower --lr or a --warmup may help", what,
      result.step + 1, result.skipped ? ", with the smallest loss scale, 1" : "");
}

class TrainingLoop {
 public:
  TrainingLoop(Session& session, BatchSource& batches, const TrainingLoopOptions& options,
               const OnStep& on_step)
      : session_(session),
        batches_(batches),
        options_(options),
        on_step_(on_step),
        warm_step_(session.step() + StepTimes::kWarmupSteps) {}

  absl::StatusOr<TrainingEnd> Run() {
    // Other ranks may still be planning.
    RETURN_IF_ERROR(Poll(Communicator::Patience::kForFiles));
    while (session_.step() < options_.last_step && !stops_) {
      const int64_t save = NextSave();
      const int64_t epoch_end = NextEpochEnd();
      const bool is_timed = session_.step() == options_.timed_step;
      RETURN_IF_ERROR(is_timed ? TimeStep() : TrainUntil(NextPause(std::min(save, epoch_end))));
      if (session_.step() == save) RETURN_IF_ERROR(Save());
      if (session_.step() == epoch_end && !stops_) RETURN_IF_ERROR(EndEpoch());
      RETURN_IF_ERROR(Poll());
    }
    end_.interrupted = stops_ && session_.step() < options_.last_step;
    if (saved_step_ != session_.step() && !end_.is_idle()) RETURN_IF_ERROR(Save());
    return end_;
  }

 private:
  // Looks whether this rank or another is interrupted. All ranks call it between the same steps.
  absl::Status Poll(Communicator::Patience patience = Communicator::Patience::kUsual) {
    if (stops_) return absl::OkStatus();
    stops_ = Interrupted();
    if (options_.communicator == nullptr) return absl::OkStatus();
    ASSIGN_OR_RETURN(const std::vector<std::string> ranks,
                     options_.communicator->Exchange(stops_ ? "stop" : "", patience));
    stops_ = std::count(ranks.begin(), ranks.end(), "stop") > 0;
    return absl::OkStatus();
  }

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
    int64_t in_flight = 0;
    do {
      while (in_flight < kInFlight && session_.step() < pause && !stops_) {
        ASSIGN_OR_RETURN(const Batch* batch, batches_.Next());
        RETURN_IF_ERROR(session_.Begin(*batch));
        ++in_flight;
        RETURN_IF_ERROR(Poll());
      }
      if (in_flight == 0) break;
      RETURN_IF_ERROR(FinishStep());
      --in_flight;
    } while (in_flight > 0);
    return absl::OkStatus();
  }

  absl::Status FinishStep() {
    ASSIGN_OR_RETURN(const StepResult result, session_.Finish());
    RETURN_IF_ERROR(Count(result));
    end_.times.Step();
    on_step_(end_.last, end_.times);
    return absl::OkStatus();
  }

  absl::Status TimeStep() {
    ASSIGN_OR_RETURN(const Batch* batch, batches_.Next());
    ASSIGN_OR_RETURN(end_.timed, session_.TimeStep(*batch));
    RETURN_IF_ERROR(Count(end_.timed->result));
    end_.times.Start();
    on_step_(end_.last, end_.times);
    return absl::OkStatus();
  }

  absl::Status Count(const StepResult& result) {
    end_.last = result;
    stuck_ = IsStuck(result) ? stuck_ + 1 : 0;
    if (const std::string reason = ReasonToStop(result, stuck_); !reason.empty())
      return absl::FailedPreconditionError(reason);
    ++end_.steps;
    return absl::OkStatus();
  }

  absl::Status EndEpoch() {
    if (options_.on_epoch_end == nullptr) return absl::OkStatus();
    RETURN_IF_ERROR(options_.on_epoch_end());
    end_.times.Start();
    return absl::OkStatus();
  }

  absl::Status Save() {
    if (options_.save.empty()) return absl::OkStatus();
    Communicator* const communicator = options_.communicator;
    if (communicator == nullptr || communicator->rank() == 0 || session_.is_sharded())
      RETURN_IF_ERROR(session_.Save(options_.save));
    if (communicator != nullptr) {  // the others must not take rank 0 for dead meanwhile
      RETURN_IF_ERROR(communicator->Exchange("saved", Communicator::Patience::kForFiles).status());
    }
    saved_step_ = session_.step();
    end_.times.Start();
    return absl::OkStatus();
  }

  Session& session_;
  BatchSource& batches_;
  const TrainingLoopOptions& options_;
  const OnStep& on_step_;
  const int64_t warm_step_;  // the first after the warm-up
  TrainingEnd end_;
  int stuck_ = 0;       // steps in a row until now that IsStuck()
  bool stops_ = false;  // this rank or another is interrupted
  int64_t saved_step_ = -1;
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
