// Measured kernel times, kept on disk: what a kernel takes is measured once for each device and
// shared by all processes, now and later.
//
// Others write at the same time, and a profiling run is killed at any moment, so every measurement
// is its own transaction: what Record() returned OK for is there. A file that is corrupt, or of
// another version, is set aside and a new one begun (layers/profile/profile_file.h); notices() says
// so, also when that is only found out, or done by another process, long after Open(). Rows with
// numbers that cannot be (layers/profile/profile_row.h) are ignored wherever rows are read or
// counted, and a notice says so once.
//
//   const ProfiledDevice h200 = {.name = "NVIDIA H200", .versions = "cudnn 9.19"};
//   ASSIGN_OR_RETURN(ProfileDatabase database, ProfileDatabase::Open(path, h200));
//   const std::string operation = SignatureText(signature);  // core/step/signature_text.h
//   const Engine direct = {.id = "direct", .workspace_bytes = 1024};
//   RETURN_IF_ERROR(database.Record(
//       operation, {.batch = 32, .engine = direct, .median_seconds = 1e-3, .repeats = 20}));
//   ASSIGN_OR_RETURN(std::vector<Measurement> all, database.Measurements(operation));
//
// *Threads*: one at a time per object; any number of objects and processes per file. Not to be
// carried over a fork(). *Errors*: with the path and SQLite's message; codes in
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

// Rows by kind: of this device and these versions, except `rows`.
struct ProfileCounts {
  int64_t operations = 0;
  int64_t measured = 0;
  int64_t failed = 0;
  int64_t rows = 0;  // of all devices and versions
};

// Where measurements are kept unless said otherwise: $XDG_CACHE_HOME/neap/profile.db, or
// ~/.cache/neap/profile.db. Errors: NOT_FOUND when the environment names neither.
absl::StatusOr<std::string> DefaultProfilePath();

class ProfileDatabase {
 public:
  // Makes folders and file where they are not there. Reads the whole file once, to check it.
  static absl::StatusOr<ProfileDatabase> Open(const std::string& path, ProfiledDevice device);
  // For reading alone: nothing is made, set aside or written, and Record() and Merge() fail.
  // Errors: NOT_FOUND, INVALID_ARGUMENT, DATA_LOSS, FAILED_PRECONDITION (another version).
  static absl::StatusOr<ProfileDatabase> OpenToRead(const std::string& path, ProfiledDevice device);

  // The same file, already checked, for what was measured on another device.
  ProfileDatabase For(ProfiledDevice device) &&;

  const std::string& path() const { return path_; }
  const ProfiledDevice& device() const { return device_; }
  // What was set aside, replaced or ignored, one sentence each, oldest first: for the user to read.
  const std::vector<std::string>& notices() const { return notices_; }

  // Once it returns OK all processes see it, whatever becomes of this one, in place of what was
  // there for the same operation, batch and engine; by kKeepBetter only where that was worse: what
  // another process has measured meanwhile, say. Errors: INVALID_ARGUMENT for a measurement that
  // cannot be (CheckPossible).
  absl::Status Record(std::string_view operation, const Measurement& measurement,
                      OnConflict on_conflict = OnConflict::kReplace);
  // Whether this was measured, or found to fail: a resumed profile goes on to the next.
  absl::StatusOr<bool> Contains(std::string_view operation, int64_t batch, std::string_view engine);
  // By batch, then engine; failures too. Empty for an operation that was never profiled.
  // *Complexity*: O(log rows + result).
  absl::StatusOr<std::vector<Measurement>> Measurements(std::string_view operation);
  absl::StatusOr<std::vector<Measurement>> Measurements(std::string_view operation, int64_t batch);
  absl::StatusOr<ProfileCounts> Counts();
  // Of all devices and versions that something was measured on, those of the last measurement
  // first.
  absl::StatusOr<std::vector<ProfiledDevice>> Devices();

  // Takes over the rows of all devices and versions, but those that are ignored. Where both have
  // one, a time stays rather than a failure, and the shorter time; of equals the newer. All or
  // nothing. Returns the number of rows taken. Errors: NOT_FOUND, DATA_LOSS or FAILED_PRECONDITION
  // for a file that cannot be trusted: it is left alone.
  absl::StatusOr<int64_t> Merge(const std::string& other_path);
  // All rows that count, all devices and versions, in order of the columns;
  // docs/profile-database.md has them. The file appears whole or not at all.
  absl::Status WriteCsv(const std::string& csv_path);

 private:
  using Work = absl::FunctionRef<absl::Status(SqliteConnection&)>;
  ProfileDatabase(std::string path, ProfiledDevice device)
      : path_(std::move(path)), device_(std::move(device)) {}
  // Does `work`, which must bear to be done again, until it was done on the file that `path_`
  // names.
  absl::Status Do(Work work);
  // Works on `file` from now on.
  absl::Status Take(absl::StatusOr<ProfileFile> file);
  // Of all devices. Adds a notice when rows are ignored for the first time.
  absl::StatusOr<FoundRows> Find(const std::string& condition,
                                 absl::Span<const SqliteValue> values);
  void NoteIgnored(const std::string& path, const FoundRows& found);
  // Of this device and these versions, where `condition`, on values from ?3 on, holds.
  absl::StatusOr<std::vector<Measurement>> Select(const std::string& condition,
                                                  std::vector<SqliteValue> values);

  std::string path_;
  ProfiledDevice device_;
  std::optional<SqliteConnection> connection_;  // none where the file is another's now
  bool only_reads_ = false;
  bool notes_ignored_ = true;  // until it was done once
  std::vector<std::string> notices_;
};

}  // namespace neap
