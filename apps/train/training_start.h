// The start of a training: the file of --resume or --weights-in, read as far as its header before
// anything is planned, so that a wrong file is refused at once.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "apps/train/train_flags.h"
#include "neap/core/checkpoint/checkpoint.h"
#include "neap/core/program/program.h"
#include "neap/core/run/learning_rate.h"

namespace neap::apps {

struct TrainingStart {
  std::string file;  // empty: new weights, or those that come with the network
  bool resumes = false;
  int64_t step = 0;
  std::vector<std::string> classes;       // names, by number; empty: unknown
  std::optional<LearningRate> rate = {};  // with which the file was written, if it says so
};

// Errors: those of reading the file; INVALID_ARGUMENT for one that --resume cannot continue, or
// that is a checkpoint to be resumed.
absl::StatusOr<TrainingStart> ReadStart(const FileFlags& files);
// BadUsage() if --seed is another one than the checkpoint's.
absl::Status CheckSeed(const FileFlags& files, int64_t seed);

// The learning rate as metadata of the files that this training writes.
FileMetadata RateMetadata(const LearningRate& rate);
// Notes about a resumed learning rate that goes on with another value than a user may expect: "the
// learning rate goes on at 0.05, not 0.001: ...".
std::vector<std::string> RateNotes(const TrainingStart& start, const LearningRate& rate);

}  // namespace neap::apps
