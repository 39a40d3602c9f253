#include "apps/train/report/train_report.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "apps/cli/output.h"
#include "apps/cli/progress.h"
#include "neap/core/base/units.h"

namespace neap::apps {
namespace {

constexpr int64_t kLines = 20;

// "45 s", "3:05", "1:02:03"
std::string DurationText(double seconds) {
  const auto whole = static_cast<int64_t>(std::ceil(seconds));
  if (whole < 60) return absl::StrFormat("%d s", whole);
  const int64_t minutes = whole / 60;
  if (minutes < 60) return absl::StrFormat("%d:%02d", minutes, whole % 60);
  return absl::StrFormat("%d:%02d:%02d", minutes / 60, minutes % 60, whole % 60);
}

// "epoch 2/90, step 10008: top-1 41.20% (20600 of 50000 images), top-5 67.11%, loss 2.6", of what
// is no image "accuracy 41.20% (...", and the files that were skipped, one per line.
std::string EpochText(const EpochResult& result, std::optional<int64_t> epoch,
                      std::optional<int64_t> last_epoch) {
  const std::string at =
      epoch.has_value() ? absl::StrFormat("epoch %d/%d, step %d", *epoch, *last_epoch, result.step)
                        : absl::StrFormat("step %d", result.step);
  std::string text;
  if (result.validation.has_value()) {
    const bool is_of_images = std::string_view(result.validation->unit) == "images";
    absl::StrAppendFormat(&text, "%s: %s %s%s\n", at, is_of_images ? "top-1" : "accuracy",
                          ToText(*result.validation), result.is_best ? ", the best so far" : "");
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

namespace {

Json ToJson(const MeasuringReport& report) {
  return {{"engines", report.measured},         {"failed", report.failed},
          {"from_ranks", report.from_others},   {"left", report.left},
          {"seconds", report.seconds},          {"planned_ms", report.planned_ms},
          {"replanned_ms", report.replanned_ms}};
}

std::string ToText(const MeasuringReport& report) {
  if (report.measured + report.from_others == 0) return "nothing";
  std::string text =
      absl::StrFormat("%d engines in %.1f s", report.measured + report.from_others, report.seconds);
  if (report.left > 0) absl::StrAppend(&text, "; ", report.left, " others are estimated");
  absl::StrAppendFormat(&text, "; an iteration takes %.4g ms by these times, and took %.4g before",
                        report.replanned_ms, report.planned_ms);
  return text;
}

}  // namespace

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
             {"measured", setup.measured.has_value() ? ToJson(*setup.measured) : Json()},
             {"resumed_step", setup.resumed.has_value() ? Json(setup.resumed->step) : Json()},
             {"data", setup.data},
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
  if (setup.measured.has_value())
    absl::StrAppendFormat(&text, "  %-16s %s\n", "measured", ToText(*setup.measured));
  if (setup.resumed.has_value()) {
    absl::StrAppendFormat(&text, "  %-16s after step %d of %d, from %s\n", "resumed",
                          setup.resumed->step, schedule_.last_step, setup.resumed->file);
  }
  if (!setup.data.empty()) absl::StrAppendFormat(&text, "  %-16s %s\n", "data", setup.data);
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
  if (mean_.is_empty()) {
    absl::StrAppend(&text, "  loss not finite");
  } else {
    absl::StrAppendFormat(&text, "  loss %.4g  accuracy %.1f%%", mean_.loss(),
                          100 * mean_.accuracy(schedule_.labels));
  }
  absl::StrAppendFormat(
      &text, "  lr %.3g  %.1f images/s  %s left  arena %s", schedule_.rate.At(result.step),
      PerSecond(batch_, seconds_per_step),
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
             {"mean_loss", mean_.is_empty() ? Json() : Json(mean_.loss())},
             {"mean_accuracy", mean_.is_empty() ? Json() : Json(mean_.accuracy(schedule_.labels))},
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
  AddToMean(result);
  const auto now = std::chrono::steady_clock::now();
  const bool is_frame = now - drawn_ >= kFrame || step == schedule_.last_step;
  if (!(terminal_ && !json_ ? is_frame : IsDue(step))) return;
  drawn_ = now;
  const double seconds_per_step = times.RecentSeconds();
  json_ ? JsonLine(result, seconds_per_step) : Line(result, seconds_per_step);
  const bool is_last = step == schedule_.last_step;  // the summary has its mean
  if (!mean_epoch_.has_value() && !is_last) mean_ = {};
}

void TrainReport::AddToMean(const StepResult& result) {
  const std::optional<int64_t> epoch = EpochOf(result.step);
  if (epoch != mean_epoch_) mean_ = {};
  mean_epoch_ = epoch;
  mean_.Add(result);
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

void RunningMean::Add(const StepResult& result) {
  if (!std::isfinite(result.loss)) return;
  loss_ += result.loss;
  correct_ += result.correct;
  ++steps_;
}

void TrainReport::EndLine() {
  if (line_open_) Print("\n");
  std::fflush(stdout);
  line_open_ = false;
}

std::string TrainReport::MeanText() const {
  if (mean_.is_empty()) return "";
  return absl::StrFormat(": loss %.4g, accuracy %.1f%%%s", mean_.loss(),
                         100 * mean_.accuracy(schedule_.labels),
                         mean_epoch_.has_value() ? absl::StrCat(" in epoch ", *mean_epoch_) : "");
}

void TrainReport::End(const TrainSummary& summary) {
  EndLine();
  if (json_) return PrintJson(SummaryJson(summary, batch_));
  Print(SummaryText(summary, batch_, schedule_.last_step, MeanText()));
}

}  // namespace neap::apps
