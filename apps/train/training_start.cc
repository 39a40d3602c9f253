#include "apps/train/training_start.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "apps/cli/outcome.h"
#include "apps/cli/output.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/checkpoint/model_description.h"
#include "neap/core/checkpoint/safetensors.h"

namespace neap::apps {
namespace {

constexpr const char* kRateKey = "neap.learning_rate";

// Empty if the file does not say it, as those of other versions.
std::optional<LearningRate> RateFrom(const FileMetadata& metadata) {
  const auto found = metadata.find(kRateKey);
  if (found == metadata.end()) return std::nullopt;
  const Json json = Json::parse(found->second, nullptr, /*allow_exceptions=*/false);
  if (!json.is_array() || json.size() != 7) return std::nullopt;
  if (!std::all_of(json.begin(), json.end(), [](const Json& one) { return one.is_number(); }))
    return std::nullopt;
  LearningRate rate = {.base = json[1],
                       .minimum = json[2],
                       .warmup_steps = json[3],
                       .warmup_start = json[4],
                       .period_steps = json[5],
                       .factor = json[6]};
  const int64_t decay = json[0];
  if (decay < 0 || decay > static_cast<int64_t>(LearningRate::Decay::kCosine)) return std::nullopt;
  rate.decay = static_cast<LearningRate::Decay>(decay);
  return CheckLearningRate(rate).ok() ? std::optional(rate) : std::nullopt;
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

FileMetadata RateMetadata(const LearningRate& rate) {
  const Json json = {static_cast<int64_t>(rate.decay),
                     rate.base,
                     rate.minimum,
                     rate.warmup_steps,
                     rate.warmup_start,
                     rate.period_steps,
                     rate.factor};
  return {{kRateKey, json.dump()}};
}

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
