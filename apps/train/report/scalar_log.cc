#include "apps/train/report/scalar_log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "neap/core/base/status_macros.h"

namespace neap::apps {
namespace {

constexpr char kHeader[] =
    "step,epoch,loss,accuracy,images_per_second,learning_rate,arena_bytes,validation_loss,"
    "validation_top1,validation_top5\n";

double UnixSeconds() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

absl::Status ErrnoStatus(const std::string& call, const std::string& path) {
  return absl::ErrnoToStatus(errno, absl::StrCat(path, ": ", call));
}

// A name of this process's own, since other processes may log to the same folder.
std::string EventFileName() {
  std::array<char, 256> host = {};
  if (gethostname(host.data(), host.size() - 1) != 0) host[0] = '\0';
  return absl::StrFormat("events.out.tfevents.%010d.%s.%d", static_cast<int64_t>(UnixSeconds()),
                         host[0] == '\0' ? "host" : host.data(), getpid());
}

std::string EpochText(std::optional<int64_t> epoch) {
  return epoch.has_value() ? absl::StrCat(*epoch) : "";
}

}  // namespace

absl::StatusOr<AppendedFile> AppendedFile::Open(std::string path) {
  FileDescriptor fd(open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  if (!fd.valid()) return ErrnoStatus("cannot be opened for writing", path);
  struct stat status = {};
  if (fstat(fd.get(), &status) != 0) return ErrnoStatus("fstat", path);
  return AppendedFile(std::move(fd), std::move(path), status.st_size == 0);
}

absl::Status AppendedFile::Append(const std::string& bytes) {
  for (size_t written = 0; written < bytes.size();) {
    const ssize_t count = write(fd_.get(), bytes.data() + written, bytes.size() - written);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return ErrnoStatus("cannot be written", path_);
    written += static_cast<size_t>(count);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<ScalarLog>> ScalarLog::Create(const std::string& directory) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) {
    return absl::ErrnoToStatus(error.value(),
                               absl::StrCat("--log-dir: ", directory, ": cannot be created"));
  }
  ASSIGN_OR_RETURN(AppendedFile events,
                   AppendedFile::Open(absl::StrCat(directory, "/", EventFileName())));
  RETURN_IF_ERROR(events.Append(EventRecord(UnixSeconds(), EventVersion())));
  ASSIGN_OR_RETURN(AppendedFile csv, AppendedFile::Open(absl::StrCat(directory, "/scalars.csv")));
  if (csv.was_empty()) RETURN_IF_ERROR(csv.Append(kHeader));
  return std::unique_ptr<ScalarLog>(new ScalarLog(std::move(events), std::move(csv)));
}

void ScalarLog::Write(int64_t step, const std::vector<Scalar>& scalars, const std::string& line) {
  if (status_.ok())
    status_ = events_.Append(EventRecord(UnixSeconds(), EventScalars(step, scalars)));
  if (status_.ok()) status_ = csv_.Append(line);
}

void ScalarLog::Step(const StepResult& result, const StepScalars& scalars) {
  const int64_t step = result.step + 1;
  const double accuracy = static_cast<double>(result.correct) /
                          static_cast<double>(std::max<int64_t>(scalars.labels, 1));
  Write(step,
        {{"train/loss", result.loss},
         {"train/accuracy", static_cast<float>(accuracy)},
         {"train/images_per_second", static_cast<float>(scalars.images_per_second)},
         {"train/learning_rate", scalars.learning_rate},
         {"train/arena_bytes", static_cast<float>(scalars.arena_bytes)}},
        absl::StrFormat("%d,%s,%.9g,%.6g,%.6g,%.9g,%d,,,\n", step, EpochText(scalars.epoch),
                        result.loss, accuracy, scalars.images_per_second, scalars.learning_rate,
                        scalars.arena_bytes));
}

void ScalarLog::Validation(int64_t step, std::optional<int64_t> epoch, const Accuracy& accuracy) {
  const double top5 = accuracy.top5_fraction().value_or(0);
  Write(step,
        {{"validation/loss", static_cast<float>(accuracy.loss)},
         {"validation/top1", static_cast<float>(accuracy.fraction())},
         {"validation/top5", static_cast<float>(top5)}},
        absl::StrFormat("%d,%s,,,,,,%.9g,%.6g,%.6g\n", step, EpochText(epoch), accuracy.loss,
                        accuracy.fraction(), top5));
}

}  // namespace neap::apps
