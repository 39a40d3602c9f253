// One measured time as the profile database keeps it: a row, with a checksum over all of it.
//
// SQLite notices a page that makes no sense, not a digit that changed in one that does; but a wrong
// time makes slow plans, and nobody knows why. So each row carries a checksum of its contents and
// of the names that its numbers stand for, and a row that does not match is never returned. A row
// that does match may still come from anywhere: one with a time of months or exbibytes of workspace
// is left out of what is read, for planners add such numbers up.
//
//   RETURN_IF_ERROR(CheckPossible(row.measurement));
//   RETURN_IF_ERROR(WriteRow(connection, row, OnConflict::kReplace));
//   ASSIGN_OR_RETURN(FoundRows found, ReadRows(connection, "operation = ?1", {operation}));
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "neap/core/step/kernel.h"
#include "neap/layers/profile/sqlite.h"

namespace neap {

// Measurements hold for one device and one set of library versions.
struct ProfiledDevice {
  std::string name;      // DeviceDescription::name
  std::string versions;  // of all that decides which kernels there are: "cudnn 9.19.0 neap 0.1"
};

// One engine for one operation and batch, or why there is no time for it.
struct Measurement {
  int64_t batch = 1;
  Engine engine;
  double median_seconds = 0;     // of one run
  double spread = 0;             // interquartile range / median
  int64_t repeats = 0;           // samples behind the median; 0 where the engine failed
  std::string failure = {};      // why the engine did not build or run; empty where measured
  int64_t recorded_unix_ms = 0;  // 0: ProfileDatabase::Record puts the present time

  bool failed() const { return !failure.empty(); }
};

// What a measurement may be, limits included; docs/profile-database.md states the same. Sums over
// every step of a network stay far from overflow.
inline constexpr int64_t kMaxMeasuredBatch = int64_t{1} << 31;
inline constexpr int64_t kMaxMeasuredWorkspaceBytes = int64_t{1} << 44;
inline constexpr double kMinMeasuredSeconds = 1e-9;
inline constexpr double kMaxMeasuredSeconds = 3600;
inline constexpr double kMaxMeasuredSpread = 1e6;
inline constexpr int64_t kMaxMeasuredRepeats = 1'000'000'000;

// Errors: INVALID_ARGUMENT, with all numbers, for one outside these limits, no repeats, a failure
// with a time, ...
absl::Status CheckPossible(const Measurement& measurement);

struct ProfileRow {
  ProfiledDevice device;
  std::string operation;
  Measurement measurement;
};

// Tables, and the view `profile` of all rows with their names. docs/profile-database.md explains
// the columns.
extern const char kProfileSchema[];

struct FoundRows {
  std::vector<ProfileRow> rows;
  int64_t ignored = 0;             // rows left out, which CheckPossible() refuses
  std::string first_ignored = {};  // which it is, and why
};

// `where`: a condition on the columns of the view. In order of device, versions, operation, batch,
// engine. Errors: DATA_LOSS for a row that does not match its checksum.
absl::StatusOr<FoundRows> ReadRows(SqliteConnection& connection, const std::string& where,
                                   absl::Span<const SqliteValue> values);

// The condition in SQL, on the columns of the table or the view, that CheckPossible() refuses a
// row's numbers.
std::string ImpossibleRow();

// Every row against its checksum, without keeping any. Errors: DATA_LOSS, with one that does not
// match.
absl::Status CheckRows(SqliteConnection& connection);

enum class OnConflict : uint8_t {
  kReplace,
  // A time beats a failure, and both beat a row that is ignored. Of two times the shorter: what
  // disturbs a measurement makes it longer. Of equals the newer.
  kKeepBetter,
};

// Returns whether the row was written: it may be the worse. To be called in a transaction, with a
// row that CheckPossible() accepts.
absl::StatusOr<bool> WriteRow(SqliteConnection& connection, const ProfileRow& row,
                              OnConflict on_conflict);

}  // namespace neap
