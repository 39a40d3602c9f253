#include "apps/train/training_start.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "apps/cli/outcome.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/checkpoint/model_description.h"
#include "neap/core/checkpoint/safetensors.h"

namespace neap::apps {
namespace {

// The key of the schedule. "neap.learning_rate" (core/checkpoint/checkpoint.h) is another one: it
// is only there if the rate was set while training went on, and a session continues with it.
constexpr const char* kScheduleKey = "neap.schedule";

// Empty if the file does not say it, as those of other versions.
std::optional<LearningRate> RateFrom(const FileMetadata& metadata) {
  const auto found = metadata.find(kScheduleKey);
  if (found == metadata.end()) return std::nullopt;
  const absl::StatusOr<LearningRate> rate = ParseLearningRate(found->second);
  return rate.ok() ? std::optional(*rate) : std::nullopt;
}

}  // namespace

absl::StatusOr<TrainingStart> ReadStart(const FileFlags& files) {
  const bool resumes = !files.resume.empty();
  TrainingStart start = {.file = resumes ? files.resume : files.weights_in, .resumes = resumes};
  if (start.file.empty()) return start;
  ASSIGN_OR_RETURN(const auto position, ReadTrainingPosition(start.file));
  if (resumes && !position.has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat(start.file, " holds weights but no step to resume from; use --weights-in"));
  }
  if (!resumes && position.has_value() && position->step > 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(start.file, " is a checkpoint of step ", position->step, "; use --resume"));
  }
  if (resumes) start.step = position->step;
  ASSIGN_OR_RETURN(const SafetensorsReader reader, SafetensorsReader::Open(start.file));
  ASSIGN_OR_RETURN(const ModelDescription model, ReadModelDescription(start.file));
  start.classes = model.classes;
  start.rate = RateFrom(reader.metadata());
  return start;
}

absl::Status CheckSeed(const FileFlags& files, int64_t seed) {
  if (files.resume.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const auto position, ReadTrainingPosition(files.resume));
  if (!position.has_value() || position->seed == static_cast<uint64_t>(seed))
    return absl::OkStatus();
  return BadUsage(absl::StrCat("--seed ", seed, ": ", files.resume, " was trained with seed ",
                               position->seed, ", with which a resumed training goes on"));
}

FileMetadata RateMetadata(const LearningRate& rate) { return {{kScheduleKey, ToString(rate)}}; }

std::vector<std::string> RateNotes(const TrainingStart& start, const LearningRate& rate) {
  if (!start.resumes || !start.rate.has_value()) return {};
  const float before = start.rate->At(start.step);
  const float now = rate.At(start.step);
  if (std::abs(now - before) <= 1e-5F * std::max(now, before)) return {};
  const bool same_kind = rate.decay == start.rate->decay && rate.base == start.rate->base;
  std::string note =
      absl::StrFormat("the learning rate goes on at %.3g, where the schedule of %s has %.3g", now,
                      start.file, before);
  if (same_kind && rate.period_steps != start.rate->period_steps) {
    absl::StrAppend(&note, ": its period is ", rate.period_steps, " steps now, not ",
                    start.rate->period_steps, "; --lr-period ", start.rate->period_steps,
                    " keeps it");
  }
  return {note};
}

}  // namespace neap::apps
