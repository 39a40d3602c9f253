// The report of neap train at its end.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "apps/cli/output.h"
#include "apps/train/evaluation.h"
#include "apps/train/report/timeline_report.h"
#include "apps/train/training_loop.h"
#include "neap/core/run/session_results.h"

namespace neap::apps {

// The memory of this process after training, as the GPU's driver counts it.
struct DeviceMemory {
  int64_t library_bytes = 0;  // context, cuDNN and cuBLAS, after the first step
  int64_t lent_bytes = 0;     // to other ranks, whose peer it is
  int64_t used_bytes = 0;     // in total
  // Bytes that are neither the libraries' nor lent nor the arena's (rounded up to driver pages).
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
  // ProcessPeakBytes() (apps/cli/process_memory.h) of this process
  std::optional<int64_t> process_peak_bytes = {};
  std::optional<TimelineComparison> timed = std::nullopt;
  std::vector<std::string> saved = {};  // files with the state or the weights at the end
  // Things to do next, each with its command.
  std::vector<std::pair<std::string, std::string>> next = {};
};

// 0 without a time.
double PerSecond(int64_t images, double seconds);

// `batch` is that of all ranks together, and `means` what is known of the last steps' losses.
std::string SummaryText(const TrainSummary& summary, int64_t batch, int64_t last_step,
                        const std::string& means);
Json SummaryJson(const TrainSummary& summary, int64_t batch);

}  // namespace neap::apps
