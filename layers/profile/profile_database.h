// A database of measured kernel times on disk: each kernel is measured once per device, and all
// processes share the result.
//
// Several processes may write at the same time, and a profiling run may be killed at any moment, so
// every measurement is a transaction of its own: once Record() has returned OK, killing the process
// does not lose it. A file that is corrupt or of another version is set aside and replaced
// (layers/profile/profile_file.h). notices() reports this, also if the damage is found long after
// Open() or another process sets the file aside. Rows with impossible numbers
// (layers/profile/profile_row.h) are ignored wherever rows are read or counted, with one notice.
//
//   const ProfiledDevice h200 = {.name = "NVIDIA H200", .versions = "cudnn 9.19"};
//   ASSIGN_OR_RETURN(ProfileDatabase database, ProfileDatabase::Open(path, h200));
//   const std::string operation = SignatureText(signature);  // core/step/signature_text.h
//   const Engine direct = {.id = "direct", .workspace_bytes = 1024};
//   RETURN_IF_ERROR(database.Record(
//       operation, {.batch = 32, .engine = direct, .median_seconds = 1e-3, .repeats = 20}));
//   ASSIGN_OR_RETURN(std::vector<Measurement> all, database.Measurements(operation));
//
// *Threads*: one at a time per object; any number of objects and processes per file. An object must
// not be used after a fork(). *Errors*: with the path and SQLite's message; codes in
// layers/profile/sqlite.h. An error leaves the object usable: the next call tries again.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "neap/layers/profile/profile_file.h"
#include "neap/layers/profile/profile_row.h"
#include "neap/layers/profile/sqlite.h"

namespace neap {

// Numbers of rows of this device and these versions, except `rows`.
struct ProfileCounts {
  int64_t operations = 0;
  int64_t measured = 0;
  int64_t failed = 0;
  int64_t rows = 0;  // of all devices and versions
};

// The default path of the database: $XDG_CACHE_HOME/neap/profile.db, or ~/.cache/neap/profile.db.
// Errors: NOT_FOUND if neither XDG_CACHE_HOME nor HOME is set.
absl::StatusOr<std::string> DefaultProfilePath();

class ProfileDatabase {
 public:
  // Creates missing folders and a missing file. Reads the whole file once, to check it.
  static absl::StatusOr<ProfileDatabase> Open(const std::string& path, ProfiledDevice device);
  // Opens for reading only: nothing is created, set aside or written, and Record() and Merge()
  // fail. Errors: NOT_FOUND, INVALID_ARGUMENT, DATA_LOSS, FAILED_PRECONDITION (another version).
  static absl::StatusOr<ProfileDatabase> OpenToRead(const std::string& path, ProfiledDevice device);

  // The same file, already checked, for another device's measurements.
  ProfileDatabase For(ProfiledDevice device) &&;

  const std::string& path() const { return path_; }
  const ProfiledDevice& device() const { return device_; }
  // Messages for the user about what was set aside, replaced or ignored, oldest first.
  const std::vector<std::string>& notices() const { return notices_; }

  // Replaces the row of the same operation, batch and engine; with kKeepBetter only if that row,
  // which another process may have written meanwhile, is worse. Once this returns OK, all processes
  // see the measurement, even if this one is killed. Errors: INVALID_ARGUMENT for an impossible
  // measurement (CheckPossible).
  absl::Status Record(std::string_view operation, const Measurement& measurement,
                      OnConflict on_conflict = OnConflict::kReplace);
  // Whether this was measured or found to fail, so a resumed profile can skip it. Here and below,
  // an operation also has the rows of the name that it had in earlier versions
  // (layers/profile/earlier_operation.h), except for an engine and batch measured under both.
  absl::StatusOr<bool> Contains(std::string_view operation, int64_t batch, std::string_view engine);
  // In order of batch, then engine, including failures. Empty for an operation that was never
  // profiled.
  // *Complexity*: O(log rows + result).
  absl::StatusOr<std::vector<Measurement>> Measurements(std::string_view operation);
  absl::StatusOr<std::vector<Measurement>> Measurements(std::string_view operation, int64_t batch);
  absl::StatusOr<ProfileCounts> Counts();
  // All devices and versions that have measurements, the most recently measured first.
  absl::StatusOr<std::vector<ProfiledDevice>> Devices();

  // Copies the rows of all devices and versions, except ignored ones. If both databases have a row,
  // a time wins over a failure, the shorter time over the longer, and between equals the newer. The
  // merge is atomic. Returns the number of rows copied. Errors: NOT_FOUND, DATA_LOSS or
  // FAILED_PRECONDITION for a file that cannot be trusted, which is not modified.
  absl::StatusOr<int64_t> Merge(const std::string& other_path);
  // All rows that are not ignored, of all devices and versions, in order of the columns, which
  // docs/profile-database.md describes. The file is written atomically.
  absl::Status WriteCsv(const std::string& csv_path);

 private:
  using Work = absl::FunctionRef<absl::Status(SqliteConnection&)>;
  ProfileDatabase(std::string path, ProfiledDevice device)
      : path_(std::move(path)), device_(std::move(device)) {}
  // Repeats `work`, which must be idempotent, until it was done on the file that `path_` names.
  absl::Status Do(Work work);
  // Uses `file` from now on.
  absl::Status Take(absl::StatusOr<ProfileFile> file);
  // Rows of all devices. Adds a notice when rows are ignored for the first time.
  absl::StatusOr<FoundRows> Find(const std::string& condition,
                                 absl::Span<const SqliteValue> values);
  void NoteIgnored(const std::string& path, const FoundRows& found);
  // Measurements of the operation on this device and these versions, in order of batch, then
  // engine, that meet `condition`, which is empty or begins with AND, and whose values are ?5, ...
  absl::StatusOr<std::vector<Measurement>> Select(std::string_view operation,
                                                  const std::string& condition,
                                                  std::vector<SqliteValue> values);

  std::string path_;
  ProfiledDevice device_;
  std::optional<SqliteConnection> connection_;  // nullopt once the path names another file
  bool only_reads_ = false;
  bool notes_ignored_ = true;  // until the first notice
  std::vector<std::string> notices_;
};

}  // namespace neap
