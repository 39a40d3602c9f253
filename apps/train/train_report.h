// The output of `neap train` before, during and after training.
//
// On a terminal, progress is one line that is rewritten in place; elsewhere, and with --json, lines
// are appended. Losses are printed with nine digits, so that equal lines mean equal bits.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "apps/cli/planning_flags.h"
#include "apps/train/epoch_end.h"
#include "apps/train/evaluation.h"
#include "apps/train/fit_report.h"
#include "apps/train/scalar_log.h"
#include "apps/train/timeline_report.h"
#include "apps/train/training_loop.h"
#include "neap/core/device/device.h"
#include "neap/core/run/learning_rate.h"
#include "neap/core/run/session.h"

namespace neap::apps {

// The memory of this process after training, as the GPU's driver counts it.
struct DeviceMemory {
  int64_t library_bytes = 0;  // context, cuDNN and cuBLAS, after the first step
  int64_t lent_bytes = 0;     // to other ranks, whose peer it is
  int64_t used_bytes = 0;     // in total
  // Neither the libraries' nor lent nor the arena's, which is rounded up to the driver's pages.
  int64_t unaccounted_bytes = 0;
};

// The plan's prediction of an iteration's time, including the batch's copy to the device. Of
// several ranks, that of the slowest.
struct PredictedStep {
  std::optional<double> seconds = {};  // unknown if the plan's file has no prediction
  int64_t runs = 0;                    // of kernels
  // Runs whose time is from the profile database; unknown for a plan from a file.
  std::optional<int64_t> measured_runs = 0;
  bool reads_times = true;  // from a profile database
};

// Where a resumed training goes on.
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
  std::optional<Resumed> resumed = {};
  std::vector<std::string> notices = {};  // sentences that a user may not expect
};

// One of several ranks.
struct RankSummary {
  int64_t images = 0;     // of each batch
  std::string peer = {};  // the GPU that lends it memory; empty if there is none
  MemoryUse memory = {};
};

struct TrainSummary {
  TrainingEnd end = {};
  PredictedStep predicted = {};
  MemoryUse memory = {};
  std::vector<RankSummary> ranks = {};  // by rank; empty for one rank
  absl::Status recording = {};          // Session::recording()
  std::optional<Accuracy> accuracy = std::nullopt;
  std::optional<DeviceMemory> device = std::nullopt;  // CUDA only
  std::optional<TimelineComparison> timed = std::nullopt;
  std::vector<std::string> saved = {};  // files with the state or the weights at the end
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
  void BeginJson(const TrainSetup& setup, const Plan& plan) const;
  void BeginText(const TrainSetup& setup, const Plan& plan) const;
  void EndLine();
  // Epochs count from 1, steps from 0. Empty without epochs.
  std::optional<int64_t> EpochOf(int64_t step) const;
  void Line(const StepResult& result, double seconds_per_step);
  void JsonLine(const StepResult& result, double seconds_per_step) const;
  void EndJson(const TrainSummary& summary) const;
  void EndText(const TrainSummary& summary) const;

  const int64_t batch_;
  const int64_t arena_bytes_;
  const bool json_;
  const bool terminal_;
  const int64_t log_every_;
  const TrainSchedule schedule_;
  ScalarLog* log_ = nullptr;  // null: none
  bool line_open_ = false;    // the cursor is in a progress line
  std::chrono::steady_clock::time_point drawn_ = {};
};

}  // namespace neap::apps
