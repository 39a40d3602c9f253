// One measured time as the profile database keeps it: a row, with a checksum over all of it.
//
// SQLite notices a page that makes no sense, not a digit that changed in one that does; but a wrong
// time makes slow plans, and nobody knows why. So each row carries a checksum of its contents and
// of the names that its numbers stand for, and a row that does not match is never returned.
//
//   RETURN_IF_ERROR(WriteRow(connection, row, OnConflict::kReplace));
//   ASSIGN_OR_RETURN(std::vector<ProfileRow> rows,
//                    ReadRows(connection, "operation = ?1", {operation}));
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

// Errors: INVALID_ARGUMENT for a time that is not positive, no repeats, a failure with a time, ...
absl::Status CheckPossible(const Measurement& measurement);

struct ProfileRow {
  ProfiledDevice device;
  std::string operation;
  Measurement measurement;
};

// Tables, and the view `profile` of all rows with their names. docs/profile-database.md explains
// the columns.
extern const char kProfileSchema[];

// `where`: a condition on the columns of the view. In order of device, versions, operation, batch,
// engine. Errors: DATA_LOSS for a row that does not match its checksum.
absl::StatusOr<std::vector<ProfileRow>> ReadRows(SqliteConnection& connection,
                                                 const std::string& where,
                                                 absl::Span<const SqliteValue> values);

// Every row against its checksum, without keeping any. Errors: DATA_LOSS, with one that does not
// match.
absl::Status CheckRows(SqliteConnection& connection);

enum class OnConflict : uint8_t {
  kReplace,
  // A time beats a failure. Of two times the shorter: what disturbs a measurement makes it longer.
  // Of equals the newer.
  kKeepBetter,
};

// Returns whether the row was written: it may be the worse. To be called in a transaction.
absl::StatusOr<bool> WriteRow(SqliteConnection& connection, const ProfileRow& row,
                              OnConflict on_conflict);

}  // namespace neap
