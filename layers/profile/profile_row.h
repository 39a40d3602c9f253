// One measured time as a row of the profile database, with a checksum over all of its contents.
//
// SQLite detects a malformed page, but not a digit that changed in a well-formed one, and a wrong
// time makes plans slow for no visible reason. Therefore each row has a checksum of its contents
// and of the names that its numbers stand for, and a row that does not match is never returned. A
// row with a valid checksum may still be nonsense: one with a time of months or exbibytes of
// workspace is ignored, because planners add up such numbers.
//
//   RETURN_IF_ERROR(CheckPossible(row.measurement));
//   ASSIGN_OR_RETURN(const bool is_written, WriteRow(connection, row, OnConflict::kReplace));
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
  std::string versions;  // of everything that provides kernels: "cudnn 9.19.0 neap 0.1"
};

// The time of one engine for one operation and batch, or why it failed.
struct Measurement {
  int64_t batch = 1;
  Engine engine;
  double median_seconds = 0;     // of one run
  double spread = 0;             // interquartile range / median
  int64_t repeats = 0;           // samples behind the median; 0 if the engine failed
  std::string failure = {};      // why the engine did not build or run; empty if it did
  int64_t recorded_unix_ms = 0;  // 0: ProfileDatabase::Record sets the current time

  bool failed() const { return !failure.empty(); }
};

// Limits of a measurement, inclusive, which docs/profile-database.md repeats. Sums over all steps
// of a network stay far from overflow.
inline constexpr int64_t kMaxMeasuredBatch = int64_t{1} << 31;
inline constexpr int64_t kMaxMeasuredWorkspaceBytes = int64_t{1} << 44;
inline constexpr double kMinMeasuredSeconds = 1e-9;
inline constexpr double kMaxMeasuredSeconds = 3600;
inline constexpr double kMaxMeasuredSpread = 1e6;
inline constexpr int64_t kMaxMeasuredRepeats = 1'000'000'000;

// Errors: INVALID_ARGUMENT, with all numbers, for a value outside these limits, a time without
// repeats, a failure with a time, and the like.
absl::Status CheckPossible(const Measurement& measurement);

struct ProfileRow {
  ProfiledDevice device;
  std::string operation;
  Measurement measurement;
};

// The SQL of the tables and of the view `profile`, which has all rows with their names.
// docs/profile-database.md explains the columns.
extern const char kProfileSchema[];

struct FoundRows {
  std::vector<ProfileRow> rows;
  int64_t ignored = 0;             // number of rows left out because CheckPossible() refuses them
  std::string first_ignored = {};  // the first of them, and why
};

// The rows that meet `where`, a condition on the columns of the view, in order of device, versions,
// operation, batch, engine. Errors: DATA_LOSS for a row that does not match its checksum.
absl::StatusOr<FoundRows> ReadRows(SqliteConnection& connection, const std::string& where,
                                   absl::Span<const SqliteValue> values);

// An SQL condition on the columns of the table or the view: true if CheckPossible() refuses the
// row's numbers.
std::string ImpossibleRow();

// Checks every row against its checksum. Errors: DATA_LOSS, with a row that does not match.
absl::Status CheckRows(SqliteConnection& connection);

enum class OnConflict : uint8_t {
  kReplace,
  // A time wins over a failure, and both win over an ignored row. The shorter of two times wins,
  // because other load only makes a measurement longer; between equals, the newer wins. A bench
  // with little memory measures shorter times, too, because it leaves operands in the cache
  // (layers/profile/kernel_bench.h).
  kKeepBetter,
};

// Returns whether the row was written, which is false if a better one is kept. To be called in a
// transaction, with a row that CheckPossible() accepts.
absl::StatusOr<bool> WriteRow(SqliteConnection& connection, const ProfileRow& row,
                              OnConflict on_conflict);

}  // namespace neap
