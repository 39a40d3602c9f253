// The flags of `neap train`, and the training options that follow from them for a network.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "apps/cli/flags.h"
#include "apps/cli/net_flags.h"
#include "apps/cli/optimizer_flags.h"
#include "apps/cli/output.h"
#include "apps/cli/planning_flags.h"
#include "apps/cli/ranks.h"
#include "apps/train/reading_flags.h"
#include "neap/core/run/learning_rate.h"
#include "neap/core/run/session.h"
#include "neap/memory/measuring/measure_kernels.h"

namespace neap::apps {

struct BatchFlags {
  std::string data = "synthetic";
  std::string batch_file;      // instead of data
  std::vector<int64_t> sizes;  // heights and widths of the images; empty: the network's
  bool repeat = false;         // the first batch repeatedly
  bool augment = false;
  float color_jitter = 0;
  std::string validation;  // a folder of images
  ReadingFlags reading;

  bool decodes() const;  // whether data is a folder of images with a label each
  bool has_masks() const;
  bool has_volumes() const;  // also for validation
};

struct RateFlags {
  float base = 0.01F;
  std::string schedule = "constant";
  float minimum = 0;
  float factor = 0.1F;
  int64_t warmup_steps = 0;
  float warmup_start = 0;
  std::optional<int64_t> period_steps = {};
};

struct FileFlags {
  std::string save;
  std::string save_best;
  std::optional<int64_t> save_every = {};
  std::string resume;
  std::string weights_in;
  std::string weights_out;
  std::string weights_dtype = "fp32";
  std::string trace_out;
  std::string log_directory;

  // The files that rank 0 writes.
  std::vector<NamedFile> Outputs() const;
};

struct TrainFlags {
  NetFlags net;
  PlanningFlags planning;
  std::string plan_file;  // empty: make a plan from `planning`
  BatchFlags batches;
  RateFlags rate;
  FileFlags files;
  RankFlags ranks;
  bool sync_batch_norm = false;
  bool shard_optimizer = false;
  OptimizerFlags optimizer;
  std::optional<int64_t> steps = {};
  std::optional<int64_t> epochs = {};
  int64_t accumulate = 1;
  bool no_cuda_graph = false;
  float measure_seconds = kDefaultMeasuringSeconds;  // at most, before the first step
  int64_t seed = 1;
  std::optional<int64_t> log_every = {};
  bool evaluate = false;
  bool json = false;

  // The flags refer to this object, which must not move.
  void AddTo(FlagSet& flags);
  // Call it after `flags` are parsed. Errors: BadUsage() for flags that contradict each other.
  absl::Status Check(const FlagSet& flags) const;
  // The flags of one rank: its device, its budget, its peer, and its part of the host's memory.
  // Errors: BadUsage() if there are not as many budgets or peers as ranks.
  absl::StatusOr<TrainFlags> For(const RankGroup& ranks) const;

  // Whether the weights are in no file at the end.
  bool SavesNothing() const {
    return files.save.empty() && files.weights_out.empty() && files.save_best.empty();
  }
  // Whether there is something to do after every epoch.
  bool HasEpochEnds() const { return batches.reading.skip_bad || !batches.validation.empty(); }
  // The images of one step, of all ranks and of all batches whose gradients are summed.
  int64_t ImagesOfStep() const { return *net.options.batch * accumulate; }
  // The total number of steps: --steps, or --epochs of a dataset of `images`; 100 without either.
  int64_t LastStep(int64_t images, int64_t batch) const;
  // The first step after the warm-up that begins at `first_step`, or the last step if there are
  // fewer. Empty without --trace-out. Errors: BadUsage() if no step is left.
  absl::StatusOr<std::optional<int64_t>> StepToTime(int64_t first_step, int64_t last_step) const;
  LearningRate Rate(int64_t last_step) const;
  TrainingOptions Options(int64_t last_step) const;
};

}  // namespace neap::apps
