#include "apps/train/train_flags.h"

#include <algorithm>
#include <limits>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "apps/cli/outcome.h"
#include "apps/cli/output.h"
#include "apps/train/batch_source.h"
#include "apps/train/training_loop.h"
#include "apps/train/training_start.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/data/labelled_files.h"
#include "neap/core/vision/image_files.h"

namespace neap::apps {
namespace {

constexpr int64_t kMaxSteps = std::numeric_limits<int32_t>::max();
constexpr int64_t kMaxAccumulated = 1024;  // each may have a plan of its own
constexpr int64_t kDefaultSteps = 100;
constexpr int64_t kMaxSize = 1 << 16;
constexpr size_t kMaxSizes = 64;

void AddBatchFlags(FlagSet& flags, BatchFlags& batches) {
  flags.Add("data", "SPEC", kDatasetHelp, DatasetFlag(&batches.data));
  flags.Add("batch-file", "FILE",
            "train on this one batch: raw little-endian fp32 images (NCHW), then int32 labels",
            Text(&batches.batch_file));
  flags.Add("sizes", "LIST",
            "train with images of these heights and widths, another one in every step, such as "
            "160,192,224; evaluation has that of --image",
            IntegerList(1, kMaxSize, kMaxSizes, &batches.sizes));
  flags.Add("repeat-batch", "train on the first batch repeatedly, for timing", &batches.repeat);
  flags.Add(
      "augment",
      "shift images by up to an eighth, and mirror CIFAR images; random crops of an "
      "imagefolder or of masks, mirrored or not. Patches of volumes and windows of tokens are "
      "always random",
      &batches.augment);
  flags.Add("color-jitter", "X",
            "with --augment of an imagefolder or masks, brightness, contrast and saturation change "
            "by up to this share",
            Real(0, 1, &batches.color_jitter));
  flags.Add("val", "SPEC",
            "report top-1 and top-5 accuracy, or mean IoU or Dice, on this dataset after every "
            "epoch: its part for validation or tests, or the whole folder",
            DatasetFlag(&batches.validation));
  batches.reading.AddTo(flags, "an imagefolder or --val", "after every epoch");
}

void AddRateFlags(FlagSet& flags, RateFlags& rate) {
  constexpr double kMax = std::numeric_limits<float>::max();
  flags.Add("lr", "X", "learning rate", Real(0, kMax, &rate.base));
  flags.Add("lr-schedule", "NAME", "how the learning rate decreases",
            OneOf({"constant", "step", "exponential", "cosine"}, &rate.schedule));
  flags.Add("lr-period", "N",
            "step: times --lr-factor every N steps (a third of all); exponential: times "
            "--lr-factor in N steps (a third); cosine: to --lr-min at step N (the last)",
            Integer(1, kMaxSteps, &rate.period_steps));
  flags.Add("lr-factor", "X", "see --lr-period", Real(0, 1, &rate.factor));
  flags.Add("lr-min", "X", "see --lr-period", Real(0, kMax, &rate.minimum));
  flags.Add("warmup", "N", "steps over which the learning rate rises at the start",
            Integer(0, kMaxSteps, &rate.warmup_steps));
  flags.Add("warmup-start", "X", "the share of --lr from which it rises",
            Real(0, 1, &rate.warmup_start));
}

void AddFileFlags(FlagSet& flags, FileFlags& files) {
  flags.Add(
      "save", "FILE",
      "write a checkpoint at the end, every ten minutes, and when interrupted or unable to go "
      "on",
      Text(&files.save));
  flags.Add("save-every", "N", "also every N steps", Integer(1, kMaxSteps, &files.save_every));
  flags.Add("save-best", "FILE", "write the weights of the best --val so far",
            Text(&files.save_best));
  flags.Add("resume", "FILE",
            "continue from a checkpoint; bit-identical if flags and measured times are the same",
            Text(&files.resume));
  flags.Add("weights-in", "FILE", "start from these weights (safetensors)",
            Text(&files.weights_in));
  flags.Add("weights-out", "FILE", "write only the weights at the end", Text(&files.weights_out));
  flags.Add("weights-dtype", "TYPE",
            "element type of the parameters in --weights-out and --save-best",
            OneOf({"fp32", "fp16", "bf16"}, &files.weights_dtype));
  flags.Add("trace-out", "FILE",
            absl::StrCat("time step ", StepTimes::kWarmupSteps + 1,
                         " of this run (its last, if there are fewer) and write what each stream "
                         "did as a Chrome trace"),
            Text(&files.trace_out));
  flags.Add("log-dir", "DIR",
            "write loss, accuracy, speed, learning rate and arena of every step, and validations, "
            "as a TensorBoard event file and as scalars.csv",
            Text(&files.log_directory));
}

absl::Status CheckSizes(const TrainFlags& train) {
  if (train.batches.sizes.empty()) return absl::OkStatus();
  const auto excluded = [](const char* flag, const char* why) {
    return BadUsage(absl::StrCat("--sizes and ", flag, " exclude each other: ", why));
  };
  if (!train.batches.batch_file.empty()) return excluded("--batch-file", "it has one size");
  if (train.batches.repeat) return excluded("--repeat-batch", "the batch has one size");
  if (!train.plan_file.empty()) return excluded("--plan", "the plan is of one size");
  if (train.accumulate > 1) return excluded("--accumulate", "its batches have one size");
  if (!train.files.trace_out.empty()) return excluded("--trace-out", "a trace is of one size");
  return absl::OkStatus();
}

absl::Status CheckImages(const TrainFlags& train, const FlagSet& flags) {
  const BatchFlags& batches = train.batches;
  RETURN_IF_ERROR(CheckSizes(train));
  if (flags.Given("color-jitter") &&
      !(batches.augment && (batches.decodes() || batches.has_masks())))
    return BadUsage("--color-jitter needs --augment and --data imagefolder:DIR or masks:DIR");
  const bool has_folder =
      batches.decodes() || absl::StartsWith(batches.validation, kImageFolderPrefix);
  RETURN_IF_ERROR(
      batches.reading.Check(has_folder, "--data imagefolder:DIR or --val imagefolder:DIR"));
  if (train.evaluate && batches.decodes() &&
      !HasSplits(std::string(absl::StripPrefix(batches.data, kImageFolderPrefix))))
    return BadUsage("an imagefolder without train/ and val/ has no test split; use --val DIR");
  for (const char* const prefix : {kMasksPrefix, kVolumesPrefix}) {
    const std::string directory(absl::StripPrefix(batches.data, prefix));
    if (train.evaluate && directory != batches.data && !HasLabelledSplits(directory))
      return BadUsage(absl::StrCat(batches.data, " has no test split; use --val SPEC"));
  }
  if (batches.validation.empty()) return absl::OkStatus();
  if (!batches.batch_file.empty()) return BadUsage("--batch-file has no epochs for --val");
  if (batches.repeat) return BadUsage("--repeat-batch has no epochs for --val");
  return absl::OkStatus();
}

// The plan in the file is run as it is, so that no flag of planning applies to it. --database none
// is accepted, because it only says that no measured times are read.
absl::Status CheckPlanFile(const TrainFlags& train, const FlagSet& flags) {
  if (train.plan_file.empty()) return absl::OkStatus();
  for (const std::string choice : kPlanningChoices) {
    if (!flags.Given(choice)) continue;
    if (choice == "database" && !train.planning.kernels.reads_database()) continue;
    return BadUsage(absl::StrCat("--plan and --", choice,
                                 " exclude each other: the plan in the file is run as it is"));
  }
  return absl::OkStatus();
}

}  // namespace

bool BatchFlags::decodes() const {
  return batch_file.empty() && absl::StartsWith(data, kImageFolderPrefix);
}

bool BatchFlags::has_masks() const {
  return batch_file.empty() && absl::StartsWith(data, kMasksPrefix);
}

bool BatchFlags::has_volumes() const {
  return absl::StartsWith(data, kVolumesPrefix) || absl::StartsWith(validation, kVolumesPrefix);
}

void TrainFlags::AddTo(FlagSet& flags) {
  net.AddTo(flags);
  planning.AddTo(
      flags,
      "cpu or cuda:N (cuda:0 if there is one, else cpu); several, with commas, share the "
      "batch; cuda:local: a GPU for each rank that mpirun or torchrun starts on a machine",
      BudgetUnits::kForEachRank);
  flags.Add("plan", "FILE", "run the plan in this file, written by neap plan --plan-out",
            Text(&plan_file));
  AddBatchFlags(flags, batches);
  flags.Add("steps", "N", "train until step N, including the steps before --resume (100)",
            Integer(1, kMaxSteps, &steps));
  flags.Add("epochs", "N", "train for N passes over the dataset instead",
            Integer(1, kMaxSteps, &epochs));
  flags.Add(
      "accumulate", "K",
      "sum the gradients of K batches before each update: a step has K times as many images, in "
      "the memory of one batch and of the gradients",
      Integer(1, kMaxAccumulated, &accumulate));
  AddRateFlags(flags, rate);
  optimizer.AddTo(flags);
  flags.Add("seed", "N", "seed of initial weights, image order, augmentation and dropout",
            Integer(0, std::numeric_limits<int64_t>::max(), &seed));
  AddFileFlags(flags, files);
  flags.Add("eval", "report the accuracy on the test split at the end", &evaluate);
  flags.Add("log-every", "N", "steps from one progress line to the next (a twentieth of all)",
            Integer(1, kMaxSteps, &log_every));
  flags.Add("measure", "SECONDS",
            "on a GPU, measure kernels that the plan depends on and the database lacks for at most "
            "so long before the first step; 0: never",
            Real(0, 86400, &measure_seconds));
  flags.Add("no-cuda-graph",
            "enqueue every kernel of every step, instead of replaying a recorded step",
            &no_cuda_graph);
  ranks.AddTo(flags);
  flags.Add("sync-batch-norm",
            "with several ranks, batch norms use the statistics of the images of all ranks",
            &sync_batch_norm);
  flags.Add("shard-optimizer",
            "with several ranks, each keeps moments and fp32 masters of a part of the parameters "
            "only; not with fp16 or --offload-params",
            &shard_optimizer);
  flags.Add("json", "print JSON objects: one per line of progress, one at the end", &json);
}

absl::Status TrainFlags::Check(const FlagSet& flags) const {
  RETURN_IF_ERROR(CheckPlanFile(*this, flags));
  RETURN_IF_ERROR(CheckImages(*this, flags));
  RETURN_IF_ERROR(net.CheckEngines(planning.kernels.engines));
  if (steps.has_value() && epochs.has_value())
    return BadUsage("--steps and --epochs exclude each other");
  if (epochs.has_value() && !batches.batch_file.empty())
    return BadUsage("--batch-file has no epochs; use --steps");
  if (!files.resume.empty() && !files.weights_in.empty()) {
    return BadUsage("--resume and --weights-in exclude each other");
  }
  if (flags.Given("seed")) RETURN_IF_ERROR(CheckSeed(files, seed));
  if (files.save_every.has_value() && files.save.empty())
    return BadUsage("--save-every needs --save FILE");
  if (flags.Given("weights-dtype") && files.weights_out.empty() && files.save_best.empty())
    return BadUsage("--weights-dtype needs --weights-out FILE or --save-best FILE");
  if (!files.save_best.empty() && batches.validation.empty())
    return BadUsage("--save-best needs --val: the best weights are those of the best validation");
  if (rate.period_steps.has_value() && rate.schedule == "constant")
    return BadUsage("--lr-period needs --lr-schedule step, exponential or cosine");
  const bool has_factor = rate.schedule == "step" || rate.schedule == "exponential";
  if (flags.Given("lr-factor") && !has_factor)
    return BadUsage("--lr-factor needs --lr-schedule step or exponential");
  if (flags.Given("lr-min") && rate.schedule != "cosine")
    return BadUsage("--lr-min needs --lr-schedule cosine");
  if (flags.Given("warmup-start") && rate.warmup_steps == 0)
    return BadUsage("--warmup-start needs --warmup N");
  RETURN_IF_ERROR(optimizer.Check(flags));
  if (shard_optimizer && (optimizer.Get().clips() || optimizer.Get().keeps_average()))
    return BadUsage("--shard-optimizer excludes --clip-norm and --ema");
  if (shard_optimizer && !plan_file.empty())
    return BadUsage("--shard-optimizer and --plan exclude each other: the plan is of one rank");
  if (accumulate > 1 && !plan_file.empty())
    return BadUsage("--accumulate and --plan exclude each other: the plan is of one batch");
  if (accumulate > 1 && !files.trace_out.empty())
    return BadUsage("--accumulate and --trace-out exclude each other: a trace is of one batch");
  if (ranks.split_by_time && !plan_file.empty())
    return BadUsage("--split auto and --plan exclude each other: the plan is of one batch");
  if (planning.peer_budget_bytes.has_value() && !flags.Given("peer"))
    return BadUsage("--peer-budget needs --peer");
  if (evaluate && !batches.batch_file.empty())
    return BadUsage("--batch-file has no test split for --eval");
  return CheckOutputsApart(files.Outputs(),
                           {net.File(),
                            {"--plan", plan_file},
                            {"--batch-file", batches.batch_file},
                            {"--weights-in", files.weights_in},
                            {.flag = "--resume", .path = files.resume, .overwritten_by = "--save"},
                            DatabaseFile(planning.kernels.database)});
}

std::vector<NamedFile> FileFlags::Outputs() const {
  return {{"--save", save},
          {"--save-best", save_best},
          {"--weights-out", weights_out},
          {"--trace-out", trace_out}};
}

absl::StatusOr<TrainFlags> TrainFlags::For(const RankGroup& ranks) const {
  TrainFlags own = *this;
  own.planning.device = ranks.device();
  own.planning.host_sharers = ranks.local_ranks();
  const auto take = [&](const char* flag, const auto& of_ranks, auto& value) -> absl::Status {
    if (of_ranks.empty()) return absl::OkStatus();
    if (std::ssize(of_ranks) != ranks.ranks()) {
      return BadUsage(absl::StrCat(flag, " has ", of_ranks.size(), " values, but there are ",
                                   ranks.ranks(), " ranks"));
    }
    value = of_ranks[static_cast<size_t>(ranks.rank())];
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(take("--budget", planning.rank_budgets, own.planning.budget));
  RETURN_IF_ERROR(take("--peer", planning.rank_peers, own.planning.peer));
  if (own.planning.peer.empty()) own.planning.peer_budget_bytes.reset();
  return own;
}

int64_t TrainFlags::LastStep(int64_t images, int64_t batch) const {
  if (!epochs.has_value()) return steps.value_or(kDefaultSteps);
  const double exact =
      static_cast<double>(*epochs) * static_cast<double>(images) / static_cast<double>(batch);
  return std::clamp<int64_t>(static_cast<int64_t>(exact), 1, kMaxSteps);
}

absl::StatusOr<std::optional<int64_t>> TrainFlags::StepToTime(int64_t first_step,
                                                              int64_t last_step) const {
  if (files.trace_out.empty()) return std::nullopt;
  if (first_step < last_step) return std::min(first_step + StepTimes::kWarmupSteps, last_step - 1);
  return BadUsage(absl::StrCat("--trace-out has no step to time: ", first_step, " of ", last_step,
                               " steps have been taken"));
}

LearningRate TrainFlags::Rate(int64_t last_step) const {
  LearningRate result = {.base = rate.base,
                         .minimum = rate.minimum,
                         .warmup_steps = rate.warmup_steps,
                         .warmup_start = rate.warmup_start,
                         .factor = rate.factor};
  if (rate.schedule == "step" || rate.schedule == "exponential") {
    result.decay =
        rate.schedule == "step" ? LearningRate::Decay::kStep : LearningRate::Decay::kExponential;
    result.period_steps = rate.period_steps.value_or(std::max<int64_t>(1, last_step / 3));
  } else if (rate.schedule == "cosine") {
    result.decay = LearningRate::Decay::kCosine;
    result.period_steps = rate.period_steps.value_or(last_step);
  }
  return result;
}

TrainingOptions TrainFlags::Options(int64_t last_step) const {
  return {.optimizer = optimizer.Get(),
          .learning_rate = Rate(last_step),
          .seed = static_cast<uint64_t>(seed),
          .records_iterations = !no_cuda_graph,
          .accumulate = accumulate,
          .training_only = !evaluate && batches.validation.empty(),
          .sync_batch_norm = sync_batch_norm,
          .shard_optimizer = shard_optimizer};
}

}  // namespace neap::apps
