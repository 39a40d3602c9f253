// The scalars of a training as files that are written while it runs (--log-dir): a TensorBoard
// event file for each run, and scalars.csv, to which runs that continue each other append.
//
// The columns of the CSV are step (steps taken), epoch, loss, accuracy (of the step's batch, from 0
// to 1), images_per_second, learning_rate, arena_bytes, and validation_loss, validation_top1 and
// validation_top5. Each step has a line without the last three, and each validation one with step,
// epoch and the last three. A run that resumes from an earlier step than the last one in the log
// repeats steps; the later lines are those of the run that went on.
//
// *Errors*: a full disk must not end a training of days, so the first error is kept, nothing is
// written after it, and status() returns it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "apps/train/evaluation.h"
#include "apps/train/report/event_file.h"
#include "neap/core/base/file.h"
#include "neap/core/run/session.h"

namespace neap::apps {

// A file that grows, and whose lines or records are there for readers as soon as they are written.
class AppendedFile {
 public:
  // Creates the file if it is not there. Errors: the operating system's, naming the file.
  static absl::StatusOr<AppendedFile> Open(std::string path);
  bool was_empty() const { return was_empty_; }
  absl::Status Append(const std::string& bytes);

 private:
  AppendedFile(FileDescriptor fd, std::string path, bool was_empty)
      : fd_(std::move(fd)), path_(std::move(path)), was_empty_(was_empty) {}
  FileDescriptor fd_;
  std::string path_;
  bool was_empty_;
};

// The facts about a step besides its result.
struct StepScalars {
  std::optional<int64_t> epoch = {};
  int64_t labels = 0;  // in the batch of all ranks
  double images_per_second = 0;
  float learning_rate = 0;
  int64_t arena_bytes = 0;
};

class ScalarLog {
 public:
  // Creates the folder and its parents if they are not there.
  static absl::StatusOr<std::unique_ptr<ScalarLog>> Create(const std::string& directory);
  void Step(const StepResult& result, const StepScalars& scalars);
  void Validation(int64_t step, std::optional<int64_t> epoch, const Accuracy& accuracy);
  const absl::Status& status() const { return status_; }

 private:
  ScalarLog(AppendedFile events, AppendedFile csv)
      : events_(std::move(events)), csv_(std::move(csv)) {}
  void Write(int64_t step, const std::vector<Scalar>& scalars, const std::string& line);

  AppendedFile events_;
  AppendedFile csv_;
  absl::Status status_;
};

}  // namespace neap::apps
