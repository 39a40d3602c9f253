#include "neap/layers/profile/profile_database.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <system_error>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "neap/core/base/file.h"
#include "neap/core/base/status_macros.h"
#include "neap/layers/profile/cache_path.h"
#include "neap/layers/profile/earlier_operation.h"

namespace neap {
namespace {

// ImpossibleRow() is appended to each of these three.
constexpr char kCountRows[] = "SELECT count(*) FROM measurements WHERE NOT ";
constexpr char kCounts[] = R"sql(
SELECT count(DISTINCT measurements.operation), count(median_seconds), count(failure)
FROM measurements JOIN systems ON systems.id = system
WHERE device = ?1 AND versions = ?2 AND NOT )sql";
constexpr char kDevices[] = R"sql(
SELECT device, versions FROM systems JOIN measurements ON systems.id = system
WHERE failure IS NULL AND NOT )sql";
constexpr char kLatestFirst[] = R"sql(
GROUP BY system ORDER BY max(recorded_unix_ms) DESC, device, versions
)sql";

int64_t NowUnixMs() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

// Quotes a CSV field as in RFC 4180.
std::string CsvText(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted.append(c == '"' ? 2 : 1, c);
  return quoted + "\"";
}

std::string CsvNumber(double value) { return absl::StrFormat("%.9g", value); }

std::string CsvLine(const ProfileRow& row) {
  const Measurement& m = row.measurement;
  return absl::StrCat(CsvText(row.device.name), ",", CsvText(row.device.versions), ",",
                      CsvText(row.operation), ",", m.batch, ",", CsvText(m.engine.id), ",",
                      m.engine.workspace_bytes, ",", m.engine.deterministic ? 1 : 0, ",",
                      m.failed() ? "" : CsvNumber(m.median_seconds), ",",
                      m.failed() ? "" : CsvNumber(m.spread), ",", m.repeats, ",",
                      CsvText(m.failure), ",", m.recorded_unix_ms, "\n");
}

// Orders rows by batch and engine. Of two with the same, that of `operation` stays.
void PreferRowsOf(std::string_view operation, std::vector<ProfileRow>& rows) {
  const auto key = [](const ProfileRow& row) {
    return std::tie(row.measurement.batch, row.measurement.engine.id);
  };
  std::sort(rows.begin(), rows.end(), [&](const ProfileRow& a, const ProfileRow& b) {
    return key(a) != key(b) ? key(a) < key(b)
                            : a.operation == operation && b.operation != operation;
  });
  const auto same = [&](const ProfileRow& a, const ProfileRow& b) { return key(a) == key(b); };
  rows.erase(std::unique(rows.begin(), rows.end(), same), rows.end());
}

absl::StatusOr<std::string> Canonical(const std::string& path) {
  std::error_code error;
  const std::filesystem::path absolute = std::filesystem::absolute(path, error);
  // SQLite keeps its files beside the file itself, not beside a link to it. The file need not
  // exist, but resolving it fails if another process sets it aside meanwhile.
  constexpr int kTries = 20;
  std::filesystem::path canonical;
  for (int i = 0; i < kTries && !error; ++i) {
    canonical = std::filesystem::weakly_canonical(absolute, error);
    if (error != std::errc::no_such_file_or_directory) break;
    if (i + 1 < kTries) error.clear();
  }
  if (!error) return canonical.string();
  return absl::ErrnoToStatus(error.value(), absl::StrCat(path, ": resolve"));
}

}  // namespace

absl::StatusOr<std::string> DefaultProfilePath() { return CachePath("profile.db"); }

absl::StatusOr<ProfileDatabase> ProfileDatabase::Open(const std::string& path,
                                                      ProfiledDevice device) {
  ASSIGN_OR_RETURN(std::string canonical, Canonical(path));
  ProfileDatabase database(std::move(canonical), std::move(device));
  RETURN_IF_ERROR(database.Take(OpenProfileFile(database.path_, OtherVersion::kSetAside)));
  return database;
}

absl::StatusOr<ProfileDatabase> ProfileDatabase::OpenToRead(const std::string& path,
                                                            ProfiledDevice device) {
  ASSIGN_OR_RETURN(std::string canonical, Canonical(path));
  ProfileDatabase database(std::move(canonical), std::move(device));
  ASSIGN_OR_RETURN(database.connection_, OpenProfileToRead(database.path_));
  database.only_reads_ = true;
  return database;
}

ProfileDatabase ProfileDatabase::For(ProfiledDevice device) && {
  ProfileDatabase database = std::move(*this);
  database.device_ = std::move(device);
  return database;
}

absl::Status ProfileDatabase::Take(absl::StatusOr<ProfileFile> file) {
  RETURN_IF_ERROR(file.status());
  connection_ = std::move(file->connection);
  if (!file->notice.empty()) notices_.push_back(std::move(file->notice));
  return absl::OkStatus();
}

absl::Status ProfileDatabase::Do(Work work) {
  if (only_reads_) return work(*connection_);
  constexpr int kAttempts = 3;
  for (int attempt = 1; attempt <= kAttempts; ++attempt) {
    if (!connection_) RETURN_IF_ERROR(Take(OpenProfileFile(path_, OtherVersion::kRefuse)));
    const absl::Status status = work(*connection_);
    // Checked after the work: what was written to a file that another process set aside is lost.
    if (connection_->HasMoved()) {
      notices_.push_back(path_ + ": was set aside or removed by another process");
      connection_.reset();
    } else if (absl::IsDataLoss(status)) {
      SqliteConnection damaged = *std::exchange(connection_, std::nullopt);
      RETURN_IF_ERROR(Take(ReplaceProfileFile(std::move(damaged), status)));
    } else {
      return status;
    }
  }
  return absl::AbortedError(path_ + ": is repeatedly damaged or replaced");
}

absl::Status ProfileDatabase::Record(std::string_view operation, const Measurement& measurement,
                                     OnConflict on_conflict) {
  RETURN_IF_ERROR(CheckPossible(measurement));
  ProfileRow row = {device_, std::string(operation), measurement};
  if (measurement.recorded_unix_ms == 0) row.measurement.recorded_unix_ms = NowUnixMs();
  return Do([&](SqliteConnection& connection) -> absl::Status {
    ASSIGN_OR_RETURN(SqliteTransaction transaction, SqliteTransaction::Begin(connection));
    RETURN_IF_ERROR(WriteRow(connection, row, on_conflict).status());
    return transaction.Commit();
  });
}

absl::StatusOr<std::vector<Measurement>> ProfileDatabase::Select(std::string_view operation,
                                                                 const std::string& condition,
                                                                 std::vector<SqliteValue> values) {
  const std::string earlier = EarlierOperation(operation);
  values.insert(values.begin(), {device_.name, device_.versions, operation, earlier});
  ASSIGN_OR_RETURN(
      FoundRows found,
      Find("device = ?1 AND versions = ?2 AND operation IN (?3, ?4)" + condition, values));
  if (earlier != operation) PreferRowsOf(operation, found.rows);
  std::vector<Measurement> measurements;
  for (ProfileRow& row : found.rows) measurements.push_back(std::move(row.measurement));
  return measurements;
}

absl::StatusOr<FoundRows> ProfileDatabase::Find(const std::string& condition,
                                                absl::Span<const SqliteValue> values) {
  FoundRows found;
  RETURN_IF_ERROR(Do([&](SqliteConnection& connection) -> absl::Status {
    ASSIGN_OR_RETURN(found, ReadRows(connection, condition, values));
    return absl::OkStatus();
  }));
  if (notes_ignored_) NoteIgnored(path_, found);
  notes_ignored_ = notes_ignored_ && found.ignored == 0;
  return found;
}

void ProfileDatabase::NoteIgnored(const std::string& path, const FoundRows& found) {
  if (found.ignored == 0) return;
  notices_.push_back(absl::StrCat(path, ": rows that cannot be right are ignored, the first of ",
                                  found.first_ignored));
}

absl::StatusOr<bool> ProfileDatabase::Contains(std::string_view operation, int64_t batch,
                                               std::string_view engine) {
  ASSIGN_OR_RETURN(const std::vector<Measurement> found,
                   Select(operation, " AND batch = ?5 AND engine = ?6", {batch, engine}));
  return !found.empty();
}

absl::StatusOr<std::vector<Measurement>> ProfileDatabase::Measurements(std::string_view operation) {
  return Select(operation, "", {});
}

absl::StatusOr<std::vector<Measurement>> ProfileDatabase::Measurements(std::string_view operation,
                                                                       int64_t batch) {
  return Select(operation, " AND batch = ?5", {batch});
}

absl::StatusOr<ProfileCounts> ProfileDatabase::Counts() {
  ProfileCounts counts;
  RETURN_IF_ERROR(Do([&](SqliteConnection& connection) -> absl::Status {
    RETURN_IF_ERROR(connection.Run(kCounts + ImpossibleRow(), {device_.name, device_.versions},
                                   [&](const SqliteRow& row) {
                                     counts = {row.Integer(0), row.Integer(1), row.Integer(2)};
                                   }));
    return connection.Run(kCountRows + ImpossibleRow(), {},
                          [&](const SqliteRow& row) { counts.rows = row.Integer(0); });
  }));
  return counts;
}

absl::StatusOr<std::vector<ProfiledDevice>> ProfileDatabase::Devices() {
  std::vector<ProfiledDevice> devices;
  RETURN_IF_ERROR(Do([&](SqliteConnection& connection) {
    devices.clear();
    return connection.Run(absl::StrCat(kDevices, ImpossibleRow(), kLatestFirst), {},
                          [&](const SqliteRow& row) {
                            devices.push_back({row.Text(0), row.Text(1)});
                          });
  }));
  return devices;
}

absl::StatusOr<int64_t> ProfileDatabase::Merge(const std::string& other_path) {
  ASSIGN_OR_RETURN(const std::string canonical, Canonical(other_path));
  ASSIGN_OR_RETURN(SqliteConnection other, OpenProfileToRead(canonical));
  ASSIGN_OR_RETURN(const FoundRows found, ReadRows(other, "true", {}));
  NoteIgnored(canonical, found);
  int64_t taken = 0;
  RETURN_IF_ERROR(Do([&](SqliteConnection& connection) -> absl::Status {
    taken = 0;
    ASSIGN_OR_RETURN(SqliteTransaction transaction, SqliteTransaction::Begin(connection));
    for (const ProfileRow& row : found.rows) {
      ASSIGN_OR_RETURN(const bool written, WriteRow(connection, row, OnConflict::kKeepBetter));
      taken += written ? 1 : 0;
    }
    return transaction.Commit();
  }));
  return taken;
}

absl::Status ProfileDatabase::WriteCsv(const std::string& csv_path) {
  ASSIGN_OR_RETURN(const FoundRows found, Find("true", {}));
  std::string text =
      "device,versions,operation,batch,engine,workspace_bytes,deterministic,median_seconds,spread,"
      "repeats,failure,recorded_unix_ms\n";
  for (const ProfileRow& row : found.rows) text += CsvLine(row);
  ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(csv_path));
  RETURN_IF_ERROR(file.WriteAt(0, {reinterpret_cast<const std::byte*>(text.data()), text.size()}));
  return file.Commit();
}

}  // namespace neap
