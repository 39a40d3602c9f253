#include "apps/train/report/train_summary.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace neap::apps {
namespace {

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
  if (predicted.measured_runs == 0) {  // nothing that the speed could be compared with
    return absl::StrCat("\n  predicted        without measured times: 0 of ", predicted.runs,
                        " kernel times measured (neap profile measures them)");
  }
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
  if (summary.process_peak_bytes.has_value()) {
    absl::StrAppendFormat(&text,
                          "  whole process    %14d bytes  of the host's memory at its peak\n",
                          *summary.process_peak_bytes);
  }
  if (!summary.device.has_value()) return text;
  absl::StrAppendFormat(&text, "  libraries' own   %14d bytes\n", summary.device->library_bytes);
  if (summary.device->lent_bytes > 0) {
    absl::StrAppendFormat(&text, "  lent to ranks    %14d bytes\n", summary.device->lent_bytes);
  }
  absl::StrAppendFormat(&text, "  used, driver     %14d bytes\n  unaccounted      %14d bytes\n",
                        summary.device->used_bytes, summary.device->unaccounted_bytes);
  return text;
}

}  // namespace

double PerSecond(int64_t images, double seconds) {
  return seconds > 0 ? static_cast<double>(images) / seconds : 0;
}

Json SummaryJson(const TrainSummary& summary, int64_t batch) {
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
      {"images_per_second", PerSecond(batch, end.times.MedianSeconds())},
      {"images_per_second_mean", PerSecond(batch, end.times.MeanSeconds())},
      {"predicted_images_per_second",
       predicted.seconds.has_value() ? Json(PerSecond(batch, *predicted.seconds)) : Json()},
      {"runs", predicted.runs},
      {"measured_runs", OrNull(measured_runs)},
      {"not_replayed", summary.recording.ok() ? Json() : Json(summary.recording.message())},
      {"predicted_peak_bytes", summary.memory.predicted_peak_bytes},
      {"measured_peak_bytes", summary.memory.measured_peak_bytes},
      {"arena_bytes", summary.memory.arena_bytes}};
  if (summary.process_peak_bytes.has_value())
    json["process_peak_bytes"] = *summary.process_peak_bytes;
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
  return json;
}

std::string SummaryText(const TrainSummary& summary, int64_t batch, int64_t last_step,
                        const std::string& means) {
  const TrainingEnd& end = summary.end;
  std::string text = absl::StrFormat("%s after %d steps", HowItEnded(end), end.steps);
  if (end.steps > 0) {
    absl::StrAppend(&text, means);
  } else if (end.is_complete()) {
    absl::StrAppendFormat(&text, ": the checkpoint is already at step %d or beyond", last_step);
  }
  if (end.last.skipped_steps > 0) {
    absl::StrAppendFormat(&text, ", %d of all steps skipped (a gradient overflowed), loss scale %g",
                          end.last.skipped_steps, end.last.loss_scale);
  }
  if (end.times.measured() > 0) {
    absl::StrAppendFormat(&text,
                          "\n  speed            %.1f images/s (median of %d steps; mean %.1f)",
                          PerSecond(batch, end.times.MedianSeconds()), end.times.measured(),
                          PerSecond(batch, end.times.MeanSeconds()));
    absl::StrAppend(&text, PredictionText(batch, summary));
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
  for (const auto& [what, command] : summary.next)
    absl::StrAppendFormat(&text, "  %-16s %s\n", what, command);
  return text;
}

}  // namespace neap::apps
