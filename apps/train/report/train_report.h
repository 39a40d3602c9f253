// The output of `neap train` before, during and after training.
//
// On a terminal, progress is one line that is rewritten in place; elsewhere, and with --json, lines
// are appended. Their loss and accuracy are means over the epoch so far, or, without epochs, since
// the last line. JSON also has each step's own, whose text has nine digits, so that equal texts
// mean equal bits.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "apps/cli/planning_flags.h"
#include "apps/train/epoch_end.h"
#include "apps/train/evaluation.h"
#include "apps/train/report/fit_report.h"
#include "apps/train/report/scalar_log.h"
#include "apps/train/report/train_summary.h"
#include "apps/train/training_loop.h"
#include "neap/core/device/device.h"
#include "neap/core/run/learning_rate.h"
#include "neap/core/run/session.h"
#include "neap/memory/measuring/measure_kernels.h"

namespace neap::apps {

// The point at which a resumed training goes on.
struct Resumed {
  std::string file;
  int64_t step = 0;  // the number of steps that were taken before
};

// The configuration, known before training. With a plan from a file, the budget is the file's.
struct TrainSetup {
  NaturalPeaks peaks = {};
  std::string plan_file = {};  // empty: the plan is made by this run
  PlannerOptions planning = {};
  HostBudget host_budget = {};  // of a plan that this run makes
  std::optional<Fit> fit = std::nullopt;
  std::optional<MeasuringReport> measured = {};  // kernels, before the session was made
  std::optional<Resumed> resumed = {};
  std::string data = {};                  // "imagefolder:train, 48 images, 3 classes"
  std::vector<std::string> notices = {};  // sentences that a user may not expect
};

// The extent of the training, to which each step's progress refers.
struct TrainSchedule {
  int64_t batch = 0;                // of all ranks together
  std::vector<int64_t> split = {};  // of the batch, by rank
  int64_t last_step = 0;
  int64_t images = 0;  // per epoch; 0: a repeated batch, without epochs
  int64_t labels = 0;  // in a batch
  LearningRate rate = {};
};

// The mean loss and accuracy over steps of the same number of images.
class RunningMean {
 public:
  // A step whose loss is not finite does not count.
  void Add(const StepResult& result);
  bool is_empty() const { return steps_ == 0; }
  // Both functions need a step. The accuracy is from 0 to 1, of steps with so many labels.
  double loss() const { return loss_ / static_cast<double>(steps_); }
  double accuracy(int64_t labels) const {
    return static_cast<double>(correct_) / static_cast<double>(steps_ * labels);
  }

 private:
  double loss_ = 0;
  int64_t correct_ = 0;
  int64_t steps_ = 0;
};

class TrainReport {
 public:
  // The plan is that of rank 0.
  TrainReport(const Plan& plan, bool json, int64_t log_every, const TrainSchedule& schedule);
  // Steps and validations are written there, too, from now on. It must outlive this.
  void LogTo(ScalarLog& log) { log_ = &log; }
  ~TrainReport() { EndLine(); }  // an error message begins on a new line
  TrainReport(const TrainReport&) = delete;
  TrainReport& operator=(const TrainReport&) = delete;

  void Begin(const TrainSetup& setup, const Plan& plan) const;
  void Step(const StepResult& result, const StepTimes& times);
  void Epoch(const EpochResult& result);
  void End(const TrainSummary& summary);

 private:
  bool IsDue(int64_t step) const;
  void AddToMean(const StepResult& result);
  void BeginJson(const TrainSetup& setup, const Plan& plan) const;
  void BeginText(const TrainSetup& setup, const Plan& plan) const;
  void EndLine();
  // Epochs count from 1, steps from 0. Empty without epochs.
  std::optional<int64_t> EpochOf(int64_t step) const;
  void Line(const StepResult& result, double seconds_per_step);
  void JsonLine(const StepResult& result, double seconds_per_step) const;
  std::string MeanText() const;

  const int64_t batch_;
  const int64_t arena_bytes_;
  const bool json_;
  const bool terminal_;
  const int64_t log_every_;
  const TrainSchedule schedule_;
  ScalarLog* log_ = nullptr;  // null: none
  bool line_open_ = false;    // the cursor is in a progress line
  RunningMean mean_;          // of the epoch, or since the last line
  std::optional<int64_t> mean_epoch_ = {};
  std::chrono::steady_clock::time_point drawn_ = {};
};

}  // namespace neap::apps
