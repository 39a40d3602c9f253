// The training loop: two steps in flight, checkpoints between steps, a clean end on Ctrl-C and
// after a failure.
//
// A checkpoint needs an idle device and must never contain the values of a diverged step, whose
// loss is not finite although it was not skipped (core/step/loss_scale.h). Therefore no step begins
// past the next checkpoint, which is written only once no step before it is known to have diverged.
//
//   begin 0, begin 1, finish 0, begin 2, finish 1, ...   finish k-1, save, begin k, ...
//
// If gradients are summed (TrainingOptions::accumulate), a step is as many batches and an update.
// Nothing is saved or interrupted between them.
//
// A timed step has the device to itself and does not count towards the speed, nor do the steps of
// the warm-up. No step is in flight when the warm-up ends: on a device that computes while a step
// begins (the CPU), the measured interval would otherwise contain two more ends of steps than
// beginnings.
//
// A failure between two steps, of a batch that cannot be read for example, ends training like
// Ctrl-C, with a checkpoint. If a step itself fails, on a device or in a sum over ranks, some
// parameters have changed and others not, so that only earlier checkpoints are left. That is why
// one is written every ten minutes, too. All ranks write it after the same step: rank 0's clock
// decides.
//
// *Errors*: FAILED_PRECONDITION naming the step that diverged; those of the checkpoint. All others
// are TrainingEnd::failure.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "apps/train/batch_source.h"
#include "neap/core/device/communicator.h"
#include "neap/core/run/session.h"

namespace neap::apps {

// Time from one step's end to the next one's, without checkpoints.
class StepTimes {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr int64_t kWarmupSteps = 10;

  // The next step is timed from now on.
  void Start(Clock::time_point now = Clock::now()) { last_ = now; }
  void Step(Clock::time_point now = Clock::now());
  // Both skip the first kWarmupSteps steps if there are more; 0 without any step.
  double MedianSeconds() const;
  double MeanSeconds() const;
  // The median of the last few steps, whose times vary because two are in flight.
  double RecentSeconds() const;
  int64_t measured() const { return static_cast<int64_t>(Settled().size()); }

 private:
  std::vector<double> Settled() const;
  Clock::time_point last_ = Clock::now();
  std::vector<double> seconds_;
};

struct TrainingLoopOptions {
  int64_t last_step = 0;   // total steps at which to stop, including those of earlier runs
  std::string save;        // the checkpoint's path; empty: do not save
  int64_t save_every = 0;  // steps; 0: at the end, and by the clock
  std::chrono::seconds save_after = std::chrono::minutes(10);  // the clock's, since the last one
  std::optional<int64_t> timed_step = {};                      // from 0
  // Called at the end of each epoch and of the training, unless it is interrupted, with no step in
  // flight. Returns false if it was interrupted itself. Epoch n ends with the last step whose batch
  // is within its images; that of a later batch may be in two epochs.
  std::function<absl::StatusOr<bool>()> on_epoch_end = nullptr;
  int64_t epoch_images = 0;  // 0: no epochs
  int64_t batch = 0;         // images of one step, of all ranks together
  int64_t accumulate = 1;    // batches of one step, each of a part of these
  // For several ranks, otherwise null. All ranks stop at the same step when one is interrupted.
  // Only rank 0 writes checkpoints.
  Communicator* communicator = nullptr;
};

struct TrainingEnd {
  StepResult last = {};
  int64_t steps = 0;  // taken by this loop
  StepTimes times = {};
  std::optional<TimedStep> timed = {};
  bool interrupted = false;   // before the last step, or in the last call of on_epoch_end
  absl::Status failure = {};  // why it ended before the last step
  bool is_agreed = true;      // all ranks have ended after the same step
  bool is_whole = true;       // the session still has the state of a step, and can save it

  bool is_complete() const { return !interrupted && failure.ok(); }
  // True if it ended before its first step, so that there is nothing new to save.
  bool is_idle() const { return !is_complete() && steps == 0; }
};

using OnStep = std::function<void(const StepResult& result, const StepTimes& times)>;

absl::StatusOr<TrainingEnd> Train(Session& session, BatchSource& batches,
                                  const TrainingLoopOptions& options, const OnStep& on_step);

}  // namespace neap::apps
