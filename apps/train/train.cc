// neap train: trains a network under a byte budget.
#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "apps/cli/device_flag.h"
#include "apps/cli/flags.h"
#include "apps/cli/interrupt.h"
#include "apps/cli/outcome.h"
#include "apps/cli/output.h"
#include "apps/cli/process_memory.h"
#include "apps/cli/ranks.h"
#include "apps/train/averages.h"
#include "apps/train/bad_files.h"
#include "apps/train/batch_source.h"
#include "apps/train/epoch_end.h"
#include "apps/train/evaluation.h"
#include "apps/train/next_steps.h"
#include "apps/train/report/fit_report.h"
#include "apps/train/report/memory_account.h"
#include "apps/train/report/scalar_log.h"
#include "apps/train/report/timeline_report.h"
#include "apps/train/report/train_report.h"
#include "apps/train/train_flags.h"
#include "apps/train/train_planning.h"
#include "apps/train/training_data.h"
#include "apps/train/training_loop.h"
#include "apps/train/training_start.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/base/units.h"
#include "neap/core/checkpoint/checkpoint.h"
#include "neap/core/checkpoint/model_description.h"
#include "neap/core/device/device.h"
#include "neap/core/plan/cost_model.h"
#include "neap/core/plan/timeline.h"
#include "neap/core/plan/trace.h"
#include "neap/core/program/program.h"
#include "neap/core/run/ranks.h"
#include "neap/core/run/session.h"
#include "neap/nets/registry.h"

namespace neap::apps {
namespace {

// Whether examples are cut out of something larger, so that those in training are always random.
bool AreCut(const Dataset& dataset) {
  constexpr size_t kAxesOfVolumes = 4;
  return dataset.tokens() > 0 || dataset.extents().size() == kAxesOfVolumes;
}

LoaderOptions LoaderOptionsFor(const TrainFlags& flags, const RankGroup& ranks,
                               const NetInput& input, const Dataset& dataset,
                               const Session& session) {
  LoaderOptions options = {.batch = input.batch,
                           .whole_batch = *flags.net.options.batch,
                           .first_image = ranks.first_image(),
                           .seed = session.seed(),
                           .first_step = session.step() * flags.accumulate,
                           .threads = flags.batches.reading.workers};
  if (dataset.has_views()) {
    options.crop = flags.batches.augment || AreCut(dataset);
    options.color_jitter = flags.batches.color_jitter;
  } else if (flags.batches.augment) {
    int64_t smallest = std::min(input.image.h, input.image.w);
    for (const int64_t size : flags.batches.sizes) smallest = std::min(smallest, size);
    options.shift = std::max<int64_t>(1, smallest / 8);
    options.flip = absl::StartsWith(flags.batches.data, "cifar");
  }
  return options;
}

absl::StatusOr<std::unique_ptr<BatchSource>> OpenBatches(const TrainFlags& flags,
                                                         const RankGroup& ranks,
                                                         const NetInput& input,
                                                         const TrainingData& data,
                                                         const Session& session) {
  if (data.dataset == nullptr) {
    ASSIGN_OR_RETURN(const Batch whole,
                     ReadBatchFile(flags.batches.batch_file, *flags.net.options.batch, input.image,
                                   input.labels, input.classes));
    return std::make_unique<RepeatedBatch>(PartOf(whole, ranks.first_image(), input.batch));
  }
  const LoaderOptions options = LoaderOptionsFor(flags, ranks, input, *data.dataset, session);
  if (flags.batches.repeat) {
    ASSIGN_OR_RETURN(Batch batch, BatchOfStep(*data.dataset, options, 0));
    return std::make_unique<RepeatedBatch>(std::move(batch));
  }
  std::vector<LoaderSize> sizes;
  for (const std::unique_ptr<Dataset>& dataset : data.sized) sizes.push_back({dataset.get()});
  if (sizes.empty()) sizes.push_back({data.dataset.get()});
  ASSIGN_OR_RETURN(std::unique_ptr<Loader> loader, Loader::Create(std::move(sizes), options));
  return std::make_unique<LoadedBatches>(std::move(loader));
}

// The state of --resume or --weights-in, or else the weights that come with the network.
absl::Status LoadState(const TrainFlags& flags, const TrainingStart& start, Session& session) {
  if (start.file.empty()) {
    ASSIGN_OR_RETURN(const std::optional<NamedValues> weights, NetFlags(flags.net).Weights());
    return weights.has_value() ? session.LoadWeights(*weights) : absl::OkStatus();
  }
  const LearningRate of_flags = session.learning_rate();
  RETURN_IF_ERROR(session.Load(start.file));
  return session.SetLearningRate(of_flags);  // also if a program has saved another one
}

// One run, from the network to the summary.
class Training {
 public:
  // The graph has the rank's part of the batch.
  Training(const TrainFlags& flags, const Graph& graph, Device& device, const RankGroup& ranks,
           Communicator* communicator)
      : flags_(flags), graph_(graph), device_(device), ranks_(ranks), communicator_(communicator) {}

  absl::StatusOr<int> Run() {
    const TrainPlanning plans(flags_, graph_, device_, ranks_.share());
    ASSIGN_OR_RETURN(const Program program, plans.ProgramFor(nullptr));
    ASSIGN_OR_RETURN(input_, InputOf(program));
    input_.is_fixed = !flags_.net.File().path.empty();
    ASSIGN_OR_RETURN(start_, ReadStart(flags_.files));
    if (!start_.file.empty() && !flags_.shard_optimizer)  // no file has its parts of tensors
      RETURN_IF_ERROR(CheckCheckpoint(start_.file, program));
    TrainSetup setup;
    ASSIGN_OR_RETURN(data_, TrainingData::Open(flags_, input_, start_, bad_files()));
    setup.data = data_.text;
    setup.notices = data_.notes;
    ASSIGN_OR_RETURN(EpochEnd epoch_end,
                     EpochEnd::Open(flags_, input_, data_.class_names, bad_files()));
    setup.notices.insert(setup.notices.end(), epoch_end.notes().begin(), epoch_end.notes().end());
    last_step_ = flags_.LastStep(data_.dataset == nullptr ? 0 : data_.dataset->size(),
                                 flags_.ImagesOfStep());

    ASSIGN_OR_RETURN(std::shared_ptr<const Planner> planner, plans.MakePlanner(setup));
    absl::StatusOr<std::shared_ptr<const Planner>> measured =
        plans.Measured(std::move(planner), communicator_, setup);
    RETURN_IF_ERROR(Agree(measured.status(), {}, communicator_));
    planner = *std::move(measured);
    TrainingOptions training = flags_.Options(last_step_);
    training.communicator = communicator_;
    training.loads_values = !start_.file.empty() || !flags_.net.File().path.empty();
    ASSIGN_OR_RETURN(Session session, Session::Create(graph_, device_, planner, training));
    RETURN_IF_ERROR(LoadState(flags_, start_, session));
    metadata_ = Metadata();
    session.SetMetadata(metadata_);
    const TrainSchedule schedule = {.batch = flags_.ImagesOfStep(),
                                    .split = ranks_.parts(),
                                    .last_step = last_step_,
                                    .images = EpochImages(),
                                    .labels = flags_.ImagesOfStep() * input_.labels,
                                    .rate = flags_.Rate(last_step_)};
    TrainReport report(session.plan(), flags_.json, flags_.log_every.value_or(0), schedule);
    std::unique_ptr<ScalarLog> log;
    if (!flags_.files.log_directory.empty() && ranks_.is_first()) {
      ASSIGN_OR_RETURN(log, ScalarLog::Create(flags_.files.log_directory));
      report.LogTo(*log);
    }
    if (setup.plan_file.empty()) {
      ASSIGN_OR_RETURN(setup.fit, FindFit(program, session.plan(), setup.planning,
                                          device_.description(), device_.backend()));
    } else {
      setup.fit = FitOfFile(session.plan());
    }
    if (flags_.SavesNothing()) {
      setup.notices.emplace_back(
          "the weights are not saved: --save FILE or --weights-out FILE keeps them");
    }
    for (std::string& note : RateNotes(start_, schedule.rate))
      setup.notices.push_back(std::move(note));
    if (start_.resumes) setup.resumed = {.file = start_.file, .step = start_.step};
    report.Begin(setup, session.plan());
    ASSIGN_OR_RETURN(const int exit_code, TrainAndReport(session, report, epoch_end));
    if (log != nullptr) RETURN_IF_ERROR(log->status());
    return exit_code;
  }

 private:
  // The metadata of the files that this training writes.
  FileMetadata Metadata() const {
    NetFlags net = flags_.net;
    if (net.File().path.empty()) input_.SetIn(net.options);
    if (nets::IsPlansName(net.name)) net.options.image.reset();  // the plan has the patch
    FileMetadata metadata =
        ToMetadata({.net = net.name, .flags = net.NetworkFlags(), .classes = data_.class_names});
    metadata.merge(RateMetadata(flags_.Rate(last_step_)));
    return metadata;
  }

  int64_t EpochImages() const {
    return data_.dataset == nullptr || flags_.batches.repeat ? 0 : data_.dataset->size();
  }

  // Null without --skip-bad.
  BadFiles* bad_files() { return flags_.batches.reading.skip_bad ? &bad_files_ : nullptr; }

  absl::StatusOr<int> TrainAndReport(Session& session, TrainReport& report,
                                     EpochEnd& epoch_end) const {
    ASSIGN_OR_RETURN(const std::optional<int64_t> timed_step,
                     flags_.StepToTime(session.step(), last_step_));
    ASSIGN_OR_RETURN(const std::unique_ptr<BatchSource> batches,
                     OpenBatches(flags_, ranks_, input_, data_, session));
    TrainingLoopOptions options = {.last_step = last_step_,
                                   .save = flags_.files.save,
                                   .save_every = flags_.files.save_every.value_or(0),
                                   .timed_step = timed_step,
                                   .epoch_images = EpochImages(),
                                   .batch = flags_.ImagesOfStep(),
                                   .accumulate = flags_.accumulate,
                                   .communicator = communicator_};
    absl::Status last_validation;
    if (flags_.HasEpochEnds()) {
      options.on_epoch_end = [&]() -> absl::StatusOr<bool> {
        ASSIGN_OR_RETURN(const EpochResult result,
                         epoch_end.Run(session, metadata_, communicator_));
        report.Epoch(result);
        last_validation = result.failure;
        return !result.interrupted;
      };
    }
    TrainSummary summary;
    MemoryAccount account(device_);
    ASSIGN_OR_RETURN(summary.end, Train(session, *batches, options,
                                        [&](const StepResult& result, const StepTimes& times) {
                                          account.AfterStep();
                                          report.Step(result, times);
                                        }));
    absl::Status failure = summary.end.failure;
    failure.Update(SaveWeights(session, summary));  // first: what follows may fail, too
    summary.predicted = PredictedStepOf(session);
    summary.memory = session.memory();
    summary.recording = session.recording();
    if (summary.end.failure.ok()) {
      failure.Update(Measure(session, account, summary));
      failure.Update(last_validation);
      failure.Update(EvaluateInto(summary, session));
    }
    summary.process_peak_bytes = ProcessPeakBytes();
    summary.next = NextSteps(flags_, summary.saved, summary.end.is_complete());
    report.End(summary);  // also after an error: what was trained is saved
    if (!summary.end.failure.ok() && summary.end.is_agreed) AwaitRanks();
    RETURN_IF_ERROR(failure);
    return summary.end.interrupted ? InterruptedExitCode() : 0;
  }

  // A rank that ends with an error ends the others, of which one may still be writing.
  void AwaitRanks() const {
    if (communicator_ == nullptr) return;
    communicator_->Exchange("end", Communicator::Patience::kForFiles).IgnoreError();
  }

  absl::Status Measure(const Session& session, const MemoryAccount& account,
                       TrainSummary& summary) const {
    ASSIGN_OR_RETURN(summary.device, account.Close(summary.memory));
    RETURN_IF_ERROR(ExchangeRanks(summary));
    if (summary.device.has_value()) CountLent(summary.ranks, *summary.device);
    ASSIGN_OR_RETURN(summary.timed, TraceTimedStep(session, summary.end));
    return absl::OkStatus();
  }

  // Exchanges the ranks' summaries. The slowest prediction is that of the iteration.
  absl::Status ExchangeRanks(TrainSummary& summary) const {
    if (communicator_ == nullptr) return absl::OkStatus();
    std::optional<double>& seconds = summary.predicted.seconds;
    const MemoryUse& memory = summary.memory;
    const Json sent = {ranks_.images(),    memory.predicted_peak_bytes, memory.measured_peak_bytes,
                       memory.arena_bytes, seconds.value_or(0),         flags_.planning.peer,
                       memory.peer_bytes};
    ASSIGN_OR_RETURN(const std::vector<std::string> texts, communicator_->Exchange(sent.dump()));
    for (const std::string& text : texts) {
      const Json received = Json::parse(text);
      summary.ranks.push_back({.images = received.at(0),
                               .peer = received.at(5),
                               .memory = {.predicted_peak_bytes = received.at(1),
                                          .measured_peak_bytes = received.at(2),
                                          .arena_bytes = received.at(3),
                                          .peer_bytes = received.at(6)}});
      if (seconds.has_value()) seconds = std::max(*seconds, received.at(4).get<double>());
    }
    return absl::OkStatus();
  }

  // Counts the memory that this rank's GPU lends to other ranks, which was counted as the
  // libraries'. Only if all ranks are on one machine, where the names of GPUs are unique.
  void CountLent(const std::vector<RankSummary>& ranks, DeviceMemory& memory) const {
    if (ranks_.local_ranks() != ranks_.ranks()) return;
    for (const RankSummary& rank : ranks) {
      if (rank.peer == ranks_.device())
        memory.lent_bytes += RoundUp(rank.memory.peer_bytes, device_.description().page_bytes);
    }
    memory.library_bytes -= memory.lent_bytes;
  }

  // Lists the files that hold the state and the weights at the end; Train() has saved the state.
  absl::Status SaveWeights(Session& session, TrainSummary& summary) const {
    const FileFlags& files = flags_.files;
    const bool writes = ranks_.is_first() || session.is_sharded();
    if (summary.end.is_idle() || !summary.end.is_whole || !writes) return absl::OkStatus();
    if (!files.save.empty()) summary.saved.push_back(files.save);
    if (files.weights_out.empty()) return absl::OkStatus();
    ASSIGN_OR_RETURN(const DType dtype, ParseDType(files.weights_dtype));
    RETURN_IF_ERROR(
        WithAverages(session, [&] { return session.SaveWeights(files.weights_out, dtype); }));
    summary.saved.push_back(files.weights_out);
    return absl::OkStatus();
  }

  absl::Status EvaluateInto(TrainSummary& summary, Session& session) const {
    if (data_.test == nullptr || summary.end.interrupted) return absl::OkStatus();
    ASSIGN_OR_RETURN(summary.accuracy, WithAverages(session, [&] {
                       return Evaluate(session, *data_.test, input_.batch, communicator_);
                     }));
    summary.end.interrupted = !summary.accuracy.has_value();
    return absl::OkStatus();
  }

  PredictedStep PredictedStepOf(const Session& session) const {
    const PlanningStats& planning = session.planning();
    PredictedStep predicted = {.runs = planning.runs,
                               .measured_runs = planning.measured_runs,
                               .reads_times = flags_.planning.kernels.reads_database()};
    if (const std::optional<double> predicted_ms = PredictedMs(session.plan()))
      predicted.seconds = (*predicted_ms + planning.batch_copy_ms) * 1e-3;
    if (!flags_.plan_file.empty()) predicted.measured_runs.reset();
    if (flags_.accumulate > 1) predicted.seconds.reset();  // the plan is of one batch
    return predicted;
  }

  // Empty if no step was timed.
  absl::StatusOr<std::optional<TimelineComparison>> TraceTimedStep(const Session& session,
                                                                   const TrainingEnd& end) const {
    if (!end.timed.has_value()) return std::nullopt;
    const Plan& plan = session.plan();
    const Timeline& measured = end.timed->timeline;
    if (ranks_.is_first())
      RETURN_IF_ERROR(WriteTextFile(flags_.files.trace_out, TimelineTrace(plan, measured)));
    return CompareTimelines(plan, end.timed->result.step + 1, session.predicted(), measured);
  }

  const TrainFlags& flags_;
  const Graph& graph_;
  Device& device_;
  const RankGroup& ranks_;
  Communicator* const communicator_;  // null: alone
  NetInput input_;                    // of this rank
  TrainingStart start_;
  FileMetadata metadata_;  // of the files that it writes
  BadFiles bad_files_;     // of the datasets, which come after it
  TrainingData data_;
  int64_t last_step_ = 0;
};

absl::StatusOr<int> TrainAsRank(const TrainFlags& given, RankGroup& ranks) {
  // Only the rank that writes checks: ranks that try the same file at once hinder each other, and
  // other machines may lack its folder.
  if (ranks.is_first()) RETURN_IF_ERROR(CheckOutputsWritable(given.files.Outputs()));
  const int64_t whole_batch = *given.net.options.batch;
  RETURN_IF_ERROR(ranks.Divide(whole_batch));
  ASSIGN_OR_RETURN(const TrainFlags flags, given.For(ranks));
  ASSIGN_OR_RETURN(const std::unique_ptr<Device> device,
                   OpenDevice(ranks.device(), flags.planning.Choices()));
  NetFlags net = flags.net;
  if (flags.ranks.split_by_time) {
    RETURN_IF_ERROR(ranks.DivideByTime(whole_batch, *device, [&]() -> absl::StatusOr<double> {
      net.options.batch = ranks.images();
      ASSIGN_OR_RETURN(const Graph part, net.Build());
      return TrainPlanning(flags, part, *device, ranks.share()).PredictSeconds();
    }));
  }
  net.options.batch = ranks.images();
  ASSIGN_OR_RETURN(Graph graph, net.Build());
  std::vector<GraphSize> sizes;
  for (const int64_t size : flags.batches.sizes) sizes.push_back({.extents = {size, size}});
  graph.Sizes(std::move(sizes));
  ASSIGN_OR_RETURN(const std::unique_ptr<Communicator> communicator, ranks.Join(*device));
  WatchForInterrupt();
  return Training(flags, graph, *device, ranks, communicator.get()).Run();
}

}  // namespace

absl::StatusOr<int> RunTrain(const std::vector<std::string>& args) {
  TrainFlags given;
  FlagSet flags(
      "neap train NET [flags]",
      "Trains a network in one planned and verified arena that is no larger than the budget.");
  given.AddTo(flags);
  RETURN_IF_ERROR(flags.Parse(args));
  if (flags.help()) return PrintHelp(flags);
  RETURN_IF_ERROR(given.Check(flags));
  given.net.options.other_normalizations = !given.batches.has_volumes();
  RETURN_IF_ERROR(TakeClasses(given));
  RETURN_IF_ERROR(given.net.TakePlannedBatch(flags));
  return RunRanks(given.ranks, given.planning.device,
                  [&](RankGroup& ranks) { return TrainAsRank(given, ranks); });
}

}  // namespace neap::apps
