#include "apps/train/train_report.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "apps/cli/output.h"
#include "apps/cli/progress.h"
#include "neap/core/base/units.h"

namespace neap::apps {
namespace {

constexpr int64_t kLines = 20;

double PerSecond(int64_t images, double seconds) {
  return seconds > 0 ? static_cast<double>(images) / seconds : 0;
}

// "45 s", "3:05", "1:02:03"
std::string DurationText(double seconds) {
  const auto whole = static_cast<int64_t>(std::ceil(seconds));
  if (whole < 60) return absl::StrFormat("%d s", whole);
  const int64_t minutes = whole / 60;
  if (minutes < 60) return absl::StrFormat("%d:%02d", minutes, whole % 60);
  return absl::StrFormat("%d:%02d:%02d", minutes / 60, minutes % 60, whole % 60);
}

bool Agrees(const MemoryUse& memory) {
  return memory.measured_peak_bytes == memory.predicted_peak_bytes;
}

// Empty if no step was taken, and so nothing was measured.
std::optional<bool> PeaksAgree(const TrainSummary& summary) {
  if (summary.end.steps == 0) return std::nullopt;
  return Agrees(summary.memory) &&
         std::all_of(summary.ranks.begin(), summary.ranks.end(),
                     [](const RankSummary& rank) { return Agrees(rank.memory); });
}

const char* HowItEnded(const TrainingEnd& end) {
  if (!end.failure.ok()) return "ended by an error";
  return end.interrupted ? "interrupted" : "done";
}

// The peaks of the ranks, one per line.
std::string RanksText(const TrainSummary& summary) {
  std::string text;
  for (size_t rank = 0; rank < summary.ranks.size(); ++rank) {
    const MemoryUse& memory = summary.ranks[rank].memory;
    absl::StrAppendFormat(&text, "  measured peak    %14d bytes  on rank %d %s\n",
                          memory.measured_peak_bytes, rank,
                          Agrees(memory) ? "(as predicted)" : "(NOT AS PREDICTED)");
  }
  return text;
}

Json RanksJson(const TrainSummary& summary) {
  Json ranks = Json::array();
  for (const RankSummary& rank : summary.ranks) {
    ranks.push_back({{"images", rank.images},
                     {"predicted_peak_bytes", rank.memory.predicted_peak_bytes},
                     {"measured_peak_bytes", rank.memory.measured_peak_bytes},
                     {"arena_bytes", rank.memory.arena_bytes},
                     {"peer_bytes", rank.memory.peer_bytes}});
  }
  return ranks;
}

// How far the prediction is from the median step.
std::string PredictionText(int64_t batch, const TrainSummary& summary) {
  const PredictedStep& predicted = summary.predicted;
  if (!predicted.seconds.has_value()) return "";
  const double measured_seconds = summary.end.times.MedianSeconds();
  const std::string text = absl::StrFormat("\n  predicted        %.1f images/s (%+.1f%%); ",
                                           PerSecond(batch, *predicted.seconds),
                                           100 * (measured_seconds / *predicted.seconds - 1));
  if (!predicted.measured_runs.has_value())
    return absl::StrCat(text, "as stored in the plan's file");
  const bool has_more = predicted.reads_times && predicted.measured_runs < predicted.runs;
  return absl::StrCat(text, *predicted.measured_runs, " of ", predicted.runs,
                      " kernel times measured", has_more ? " (neap profile measures more)" : "");
}

// Whether a device that records failed to.
bool IsUnexpected(const absl::Status& recording) {
  return !recording.ok() && !absl::IsUnimplemented(recording) && !absl::IsCancelled(recording) &&
         !absl::IsFailedPrecondition(recording);
}

std::string MemoryText(const TrainSummary& summary) {
  const MemoryUse& memory = summary.memory;
  std::string text =
      absl::StrFormat("  predicted peak   %14d bytes\n", memory.predicted_peak_bytes);
  if (PeaksAgree(summary).has_value()) {
    absl::StrAppendFormat(&text, "  measured peak    %14d bytes  %s\n", memory.measured_peak_bytes,
                          Agrees(memory) ? "(equal)" : "(NOT EQUAL)");
  }
  absl::StrAppend(&text, summary.end.steps > 0 ? RanksText(summary) : "");
  absl::StrAppendFormat(&text, "  arena            %14d bytes\n", memory.arena_bytes);
  if (!summary.device.has_value()) return text;
  absl::StrAppendFormat(&text, "  libraries' own   %14d bytes\n", summary.device->library_bytes);
  if (summary.device->lent_bytes > 0) {
    absl::StrAppendFormat(&text, "  lent to ranks    %14d bytes\n", summary.device->lent_bytes);
  }
  absl::StrAppendFormat(&text, "  used, driver     %14d bytes\n  unaccounted      %14d bytes\n",
                        summary.device->used_bytes, summary.device->unaccounted_bytes);
  return text;
}

// "epoch 2/90, step 10008: top-1 41.20% (20600 of 50000 images), top-5 67.11%, loss 2.6", and the
// files that were skipped, one per line.
std::string EpochText(const EpochResult& result, std::optional<int64_t> epoch,
                      std::optional<int64_t> last_epoch) {
  const std::string at =
      epoch.has_value() ? absl::StrFormat("epoch %d/%d, step %d", *epoch, *last_epoch, result.step)
                        : absl::StrFormat("step %d", result.step);
  std::string text;
  if (result.validation.has_value()) {
    absl::StrAppendFormat(&text, "%s: top-1 %s%s\n", at, ToText(*result.validation),
                          result.is_best ? ", the best so far" : "");
  }
  if (!result.failure.ok())
    absl::StrAppend(&text, at, ": the validation has failed: ", result.failure.message(), "\n");
  if (result.bad_files.empty()) return text;
  return absl::StrCat(text, at, ": ", BadFilesText(result.bad_files, result.all_bad_files));
}

}  // namespace

TrainReport::TrainReport(const Plan& plan, bool json, int64_t log_every,
                         const TrainSchedule& schedule)
    : batch_(schedule.batch),
      arena_bytes_(plan.arena_bytes),
      json_(json),
      terminal_(isatty(STDOUT_FILENO) == 1),
      log_every_(log_every > 0 ? log_every : std::max<int64_t>(1, schedule.last_step / kLines)),
      schedule_(schedule) {}

void TrainReport::Begin(const TrainSetup& setup, const Plan& plan) const {
  json_ ? BeginJson(setup, plan) : BeginText(setup, plan);
  std::fflush(stdout);
}

void TrainReport::BeginJson(const TrainSetup& setup, const Plan& plan) const {
  const bool limited = setup.planning.budget_bytes != kUnlimited;
  PrintJson({{"event", "begin"},
             {"net", plan.net},
             {"batch", batch_},
             {"ranks", schedule_.split.size()},
             {"split", schedule_.split},
             {"policy", plan.policy},
             {"device", plan.device},
             {"plan_file", setup.plan_file.empty() ? Json() : Json(setup.plan_file)},
             {"natural_peak_bytes", setup.peaks.keep_all_bytes},
             {"liveness_peak_bytes", setup.peaks.liveness_bytes},
             {"budget_bytes", limited ? Json(setup.planning.budget_bytes) : Json()},
             {"host_budget_bytes", setup.host_budget.ToJson()},
             {"predicted_peak_bytes", plan.peak_bytes},
             {"host_pool_bytes", plan.host_pool_bytes},
             {"fit", setup.fit.has_value() ? ToJson(*setup.fit) : Json()},
             {"resumed_step", setup.resumed.has_value() ? Json(setup.resumed->step) : Json()},
             {"notices", setup.notices}});
}

void TrainReport::BeginText(const TrainSetup& setup, const Plan& plan) const {
  const std::string parts = schedule_.split.size() == 1
                                ? ""
                                : absl::StrCat(" on ", schedule_.split.size(),
                                               " ranks: ", absl::StrJoin(schedule_.split, ", "));
  std::string text = absl::StrFormat("%s, batch %d%s, policy %s, on %s\n", plan.net, batch_, parts,
                                     plan.policy, plan.device);
  const auto line = [&text](const char* label, int64_t bytes, const std::string& note) {
    absl::StrAppendFormat(&text, "  %-16s %14d bytes  %12s  %s\n", label, bytes, FormatBytes(bytes),
                          note);
  };
  line("natural peak", setup.peaks.keep_all_bytes,
       "(unmanaged: every tensor keeps bytes of its own)");
  line("liveness peak", setup.peaks.liveness_bytes, "(tensors are freed after their last use)");
  if (setup.planning.budget_bytes != kUnlimited) {
    const double percent = 100.0 * static_cast<double>(setup.planning.budget_bytes) /
                           static_cast<double>(setup.peaks.keep_all_bytes);
    line("budget", setup.planning.budget_bytes,
         absl::StrFormat("(%.1f%% of the natural peak)", percent));
  } else {
    absl::StrAppendFormat(&text, "  %-16s %14s\n", "budget", "unlimited");
  }
  line("predicted peak", plan.peak_bytes, "");
  line("host memory", plan.host_pool_bytes,
       setup.plan_file.empty()
           ? absl::StrFormat("(pinned; the budget is %s)", setup.host_budget.ToText())
           : absl::StrFormat("(pinned; from the plan in %s)", setup.plan_file));
  if (setup.fit.has_value()) absl::StrAppend(&text, ToText(*setup.fit));
  if (setup.resumed.has_value()) {
    absl::StrAppendFormat(&text, "  %-16s after step %d of %d, from %s\n", "resumed",
                          setup.resumed->step, schedule_.last_step, setup.resumed->file);
  }
  for (const std::string& notice : setup.notices)
    absl::StrAppendFormat(&text, "  %-16s %s\n", "note", notice);
  Print(text);
}

bool TrainReport::IsDue(int64_t step) const {
  return step == 1 || step == schedule_.last_step || step % log_every_ == 0;
}

std::optional<int64_t> TrainReport::EpochOf(int64_t step) const {
  if (schedule_.images == 0) return std::nullopt;
  return step * batch_ / schedule_.images + 1;
}

void TrainReport::Line(const StepResult& result, double seconds_per_step) {
  const int64_t last = schedule_.last_step;
  std::string text = absl::StrFormat("step %d/%d", result.step + 1, last);
  if (const std::optional<int64_t> epoch = EpochOf(result.step))
    absl::StrAppendFormat(&text, "  epoch %d/%d", *epoch, *EpochOf(last - 1));
  absl::StrAppendFormat(
      &text, "  loss %.9g  lr %.3g  %.1f images/s  %s left  arena %s", result.loss,
      schedule_.rate.At(result.step), PerSecond(batch_, seconds_per_step),
      DurationText(static_cast<double>(last - result.step - 1) * seconds_per_step),
      FormatBytes(arena_bytes_));
  if (result.skipped_steps > 0) {
    absl::StrAppendFormat(&text, "  %d skipped, loss scale %g", result.skipped_steps,
                          result.loss_scale);
  }
  const bool overwrite = terminal_ && !json_;
  if (overwrite) text.resize(std::min(text.size(), TerminalColumns(STDOUT_FILENO)));
  Print(overwrite ? absl::StrCat("\r\x1b[K", text) : absl::StrCat(text, "\n"));
  std::fflush(stdout);
  line_open_ = overwrite;
}

void TrainReport::JsonLine(const StepResult& result, double seconds_per_step) const {
  const std::optional<int64_t> epoch = EpochOf(result.step);
  const int64_t left = schedule_.last_step - result.step - 1;
  PrintJson({{"event", "step"},
             {"step", result.step + 1},
             {"epoch", epoch.has_value() ? Json(*epoch) : Json()},
             {"loss", result.loss},
             {"loss_text", absl::StrFormat("%.9g", result.loss)},
             {"correct", result.correct},
             {"loss_scale", result.loss_scale},
             {"skipped_steps", result.skipped_steps},
             {"learning_rate", schedule_.rate.At(result.step)},
             {"images_per_second", PerSecond(batch_, seconds_per_step)},
             {"seconds_left", static_cast<double>(left) * seconds_per_step},
             {"arena_bytes", arena_bytes_}});
}

void TrainReport::Step(const StepResult& result, const StepTimes& times) {
  constexpr auto kFrame = std::chrono::milliseconds(100);
  const int64_t step = result.step + 1;
  if (log_ != nullptr) {
    log_->Step(result, {.epoch = EpochOf(result.step),
                        .labels = schedule_.labels,
                        .images_per_second = PerSecond(batch_, times.RecentSeconds()),
                        .learning_rate = schedule_.rate.At(result.step),
                        .arena_bytes = arena_bytes_});
  }
  const auto now = std::chrono::steady_clock::now();
  const bool is_frame = now - drawn_ >= kFrame || step == schedule_.last_step;
  if (!(terminal_ && !json_ ? is_frame : IsDue(step))) return;
  drawn_ = now;
  const double seconds_per_step = times.RecentSeconds();
  json_ ? JsonLine(result, seconds_per_step) : Line(result, seconds_per_step);
}

void TrainReport::Epoch(const EpochResult& result) {
  EndLine();
  const std::optional<int64_t> epoch = EpochOf(result.step - 1);
  if (log_ != nullptr && result.validation.has_value())
    log_->Validation(result.step, epoch, *result.validation);
  if (json_) {
    PrintJson({{"event", "epoch"},
               {"epoch", epoch.has_value() ? Json(*epoch) : Json()},
               {"step", result.step},
               {"validation", result.validation.has_value() ? ToJson(*result.validation) : Json()},
               {"failure", result.failure.ok() ? Json() : Json(result.failure.message())},
               {"best", result.is_best},
               {"bad_files", result.bad_files},
               {"all_bad_files", result.all_bad_files}});
  } else {
    Print(EpochText(result, epoch, EpochOf(schedule_.last_step - 1)));
  }
  std::fflush(stdout);
}

void TrainReport::EndLine() {
  if (line_open_) Print("\n");
  std::fflush(stdout);
  line_open_ = false;
}

void TrainReport::End(const TrainSummary& summary) {
  EndLine();
  json_ ? EndJson(summary) : EndText(summary);
}

void TrainReport::EndJson(const TrainSummary& summary) const {
  const TrainingEnd& end = summary.end;
  const PredictedStep& predicted = summary.predicted;
  const std::optional<int64_t> measured_runs = predicted.measured_runs;
  const bool stepped = end.steps > 0;  // otherwise there is no last step
  Json json = {
      {"event", "end"},
      {"steps", end.steps},
      {"step", stepped ? Json(end.last.step + 1) : Json()},
      {"loss", stepped ? Json(end.last.loss) : Json()},
      {"loss_text", stepped ? Json(absl::StrFormat("%.9g", end.last.loss)) : Json()},
      {"loss_scale", stepped ? Json(end.last.loss_scale) : Json()},
      {"skipped_steps", stepped ? Json(end.last.skipped_steps) : Json()},
      {"interrupted", end.interrupted},
      {"failure", end.failure.ok() ? Json() : Json(end.failure.message())},
      {"saved", summary.saved},
      {"images_per_second", PerSecond(batch_, end.times.MedianSeconds())},
      {"images_per_second_mean", PerSecond(batch_, end.times.MeanSeconds())},
      {"predicted_images_per_second",
       predicted.seconds.has_value() ? Json(PerSecond(batch_, *predicted.seconds)) : Json()},
      {"runs", predicted.runs},
      {"measured_runs", measured_runs.has_value() ? Json(*measured_runs) : Json()},
      {"not_replayed", summary.recording.ok() ? Json() : Json(summary.recording.message())},
      {"predicted_peak_bytes", summary.memory.predicted_peak_bytes},
      {"measured_peak_bytes", summary.memory.measured_peak_bytes},
      {"arena_bytes", summary.memory.arena_bytes}};
  if (const std::optional<bool> agree = PeaksAgree(summary)) json["peaks_equal"] = *agree;
  if (!summary.ranks.empty()) json["rank_memory"] = RanksJson(summary);
  if (summary.device.has_value()) {
    json["library_bytes"] = summary.device->library_bytes;
    json["lent_bytes"] = summary.device->lent_bytes;
    json["used_bytes"] = summary.device->used_bytes;
    json["unaccounted_bytes"] = summary.device->unaccounted_bytes;
  }
  if (summary.timed.has_value()) json["timed_step"] = ToJson(*summary.timed);
  if (summary.accuracy.has_value()) json["evaluation"] = ToJson(*summary.accuracy);
  PrintJson(json);
}

void TrainReport::EndText(const TrainSummary& summary) const {
  const TrainingEnd& end = summary.end;
  std::string text = absl::StrFormat("%s after %d steps", HowItEnded(end), end.steps);
  if (end.steps > 0) {
    absl::StrAppendFormat(&text, ", final loss %.9g", end.last.loss);
  } else if (end.is_complete()) {
    absl::StrAppendFormat(&text, ": the checkpoint is already at step %d or beyond",
                          schedule_.last_step);
  }
  if (end.last.skipped_steps > 0) {
    absl::StrAppendFormat(&text, ", %d of all steps skipped (a gradient overflowed), loss scale %g",
                          end.last.skipped_steps, end.last.loss_scale);
  }
  if (end.times.measured() > 0) {
    absl::StrAppendFormat(&text,
                          "\n  speed            %.1f images/s (median of %d steps; mean %.1f)",
                          PerSecond(batch_, end.times.MedianSeconds()), end.times.measured(),
                          PerSecond(batch_, end.times.MeanSeconds()));
    absl::StrAppend(&text, PredictionText(batch_, summary));
  }
  if (IsUnexpected(summary.recording)) {
    absl::StrAppend(
        &text, "\n  not replayed as CUDA graphs, which costs speed: ", summary.recording.message());
  }
  absl::StrAppend(&text, "\n", MemoryText(summary));
  if (summary.timed.has_value()) absl::StrAppend(&text, ToText(*summary.timed));
  if (summary.accuracy.has_value())
    absl::StrAppendFormat(&text, "  test accuracy    %s\n", ToText(*summary.accuracy));
  for (const std::string& path : summary.saved)
    absl::StrAppendFormat(&text, "  saved            %s\n", path);
  Print(text);
}

}  // namespace neap::apps
