// The examples in the headers of layers/profile, compiled and not run.
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/device/device.h"
#include "neap/core/program/program.h"
#include "neap/core/step/signature_text.h"
#include "neap/layers/profile/installed_profile.h"
#include "neap/layers/profile/installed_timings.h"
#include "neap/layers/profile/kernel_bench.h"
#include "neap/layers/profile/kernel_timer.h"
#include "neap/layers/profile/profile_database.h"
#include "neap/layers/profile/profile_file.h"
#include "neap/layers/profile/profile_row.h"
#include "neap/layers/profile/profile_shares.h"
#include "neap/layers/profile/profile_steps.h"
#include "neap/layers/profile/profiled_timings.h"
#include "neap/layers/profile/profiler.h"
#include "neap/layers/profile/sqlite.h"
#include "neap/memory/engines/kernel_options.h"

namespace neap::examples {

// layers/profile/installed_profile.h
void UseInstalledProfile(const StepSignature& signature) {
  const InstalledProfile* profile = FindInstalledProfile("NVIDIA H200");
  if (profile != nullptr) profile->Of(SignatureText(signature));
}

// layers/profile/installed_timings.h
void AddInstalledTimings(KernelOptions& kernels, std::shared_ptr<const KernelTimings> measured,
                         const DeviceDescription& device, const EngineCatalog& catalog) {
  kernels.timings = WithInstalledTimings(std::move(measured), {device.name, catalog.Versions()});
}

// layers/profile/kernel_bench.h
absl::Status RunBench(Device& device, const StepSignature& signature,
                      const std::vector<Engine>& engines) {
  ASSIGN_OR_RETURN(KernelBench bench, KernelBench::Create(device, 2 * kGiB, /*samples=*/7));
  RETURN_IF_ERROR(bench.Place(signature));
  for (const Engine& engine : engines) {
    if (engine.workspace_bytes > bench.WorkspaceBytes(signature)) continue;
    ASSIGN_OR_RETURN(Measurement time, bench.Measure(signature, engine));
  }
  return absl::OkStatus();
}

// layers/profile/kernel_timer.h
absl::Status TimeKernel(Device& device, std::unique_ptr<Kernel> kernel, const KernelArgs& args) {
  KernelTimer timer(device, /*samples=*/7);
  ASSIGN_OR_RETURN(KernelTime time, timer.Time(*kernel, {args}));
  return absl::OkStatus();
}

// layers/profile/profile_database.h
absl::Status RecordMeasurement(const std::string& path, const StepSignature& signature) {
  const ProfiledDevice h200 = {.name = "NVIDIA H200", .versions = "cudnn 9.19"};
  ASSIGN_OR_RETURN(ProfileDatabase database, ProfileDatabase::Open(path, h200));
  const std::string operation = SignatureText(signature);  // core/step/signature_text.h
  const Engine direct = {.id = "direct", .workspace_bytes = 1024};
  RETURN_IF_ERROR(database.Record(
      operation, {.batch = 32, .engine = direct, .median_seconds = 1e-3, .repeats = 20}));
  ASSIGN_OR_RETURN(std::vector<Measurement> all, database.Measurements(operation));
  return absl::OkStatus();
}

// layers/profile/profile_file.h
absl::Status OpenDatabaseFile(const std::string& path) {
  ASSIGN_OR_RETURN(ProfileFile file, OpenProfileFile(path, OtherVersion::kSetAside));
  file.notice;  // "PATH: not a database of measurements: set aside as PATH.set-aside-1"
  return absl::OkStatus();
}

// layers/profile/profile_row.h
absl::Status WriteMeasuredRow(SqliteConnection& connection, const ProfileRow& row,
                              const std::string& operation) {
  RETURN_IF_ERROR(CheckPossible(row.measurement));
  ASSIGN_OR_RETURN(const bool is_written, WriteRow(connection, row, OnConflict::kReplace));
  ASSIGN_OR_RETURN(FoundRows found, ReadRows(connection, "operation = ?1", {operation}));
  return absl::OkStatus();
}

void Warn(const absl::Status& error);
// layers/profile/profiled_timings.h
absl::Status ReadTimings(const std::string& path, const std::string& name,
                         const EngineCatalog& catalog) {
  ASSIGN_OR_RETURN(auto database, ProfileDatabase::Open(path, {name, catalog.Versions()}));
  ProfiledTimings timings(std::move(database), [](const absl::Status& error) { Warn(error); });
  return absl::OkStatus();
}

void ShowProgress(int64_t done, int64_t total);
// layers/profile/profiler.h
absl::Status ProfileProgram(const Program& program, Device& device, ProfileDatabase& database) {
  ASSIGN_OR_RETURN(Profiler profiler, Profiler::Create(KernelsOf(program), {}, device, database));
  while (profiler.done() < profiler.total()) {
    RETURN_IF_ERROR(profiler.MeasureNext());
    ShowProgress(profiler.done(), profiler.total());
  }
  return absl::OkStatus();
}

// layers/profile/profile_shares.h
absl::Status ProfileShare(const std::vector<StepSignature>& steps, const ProfileOptions& options,
                          Device& device, ProfileDatabase& database,
                          const std::function<double(const StepSignature&)>& Seconds) {
  ASSIGN_OR_RETURN(auto kernels, WithParts(steps, options.divisions, device.backend()));
  const auto shares = DivideKernels(kernels, Seconds, /*devices=*/2);
  ASSIGN_OR_RETURN(Profiler profiler,
                   Profiler::CreateForShare(steps, shares[1], options, device, database));
  return absl::OkStatus();
}

// layers/profile/sqlite.h
absl::Status CountOperations(const std::string& path, const std::string& operation) {
  ASSIGN_OR_RETURN(SqliteConnection db, SqliteConnection::Open(path, SqliteAccess::kReadWrite));
  int64_t count = 0;
  RETURN_IF_ERROR(db.Run("SELECT count(*) FROM operations WHERE text = ?1", {operation},
                         [&](const SqliteRow& row) { count = row.Integer(0); }));
  return absl::OkStatus();
}

}  // namespace neap::examples
