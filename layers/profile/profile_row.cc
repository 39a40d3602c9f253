#include "neap/layers/profile/profile_row.h"

#include <bit>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "neap/core/base/stable_hash.h"
#include "neap/core/base/status_macros.h"
#include "neap/layers/catalog/engine_id.h"

namespace neap {
namespace {

constexpr char kAddSystem[] =
    "INSERT INTO systems (device, versions) VALUES (?1, ?2) ON CONFLICT DO NOTHING";
constexpr char kAddOperation[] = "INSERT INTO operations (text) VALUES (?1) ON CONFLICT DO NOTHING";
constexpr char kReplace[] = R"sql(
INSERT INTO measurements
  SELECT systems.id, operations.id, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13
  FROM systems, operations WHERE device = ?1 AND versions = ?2 AND text = ?3
ON CONFLICT DO UPDATE SET
  workspace_bytes = excluded.workspace_bytes, deterministic = excluded.deterministic,
  median_seconds = excluded.median_seconds, spread = excluded.spread, repeats = excluded.repeats,
  failure = excluded.failure, recorded_unix_ms = excluded.recorded_unix_ms,
  checksum = excluded.checksum
)sql";
constexpr char kUnlessBetter[] = R"sql(
   OR (excluded.failure IS NULL, coalesce(-excluded.median_seconds, 0), excluded.recorded_unix_ms) >
      (failure IS NULL, coalesce(-median_seconds, 0), recorded_unix_ms)
)sql";

constexpr char kSelect[] =
    "SELECT device, versions, operation, batch, engine, workspace_bytes, deterministic, "
    "median_seconds, spread, repeats, failure, recorded_unix_ms, checksum FROM profile";

// The names' part of a row's text; the measurement's part follows. Different rows have different
// texts.
std::string NamesText(std::string_view device, std::string_view versions,
                      std::string_view operation) {
  std::string text;
  for (const std::string_view name : {device, versions, operation})
    absl::StrAppend(&text, name.size(), ":", absl::string_view(name.data(), name.size()));
  return text;
}

int64_t Checksum(uint64_t names_hash, const Measurement& m) {
  const std::string text =
      absl::StrCat(m.engine.id.size(), ":", m.engine.id, m.failure.size(), ":", m.failure, m.batch,
                   " ", m.engine.workspace_bytes, " ", m.engine.deterministic ? 1 : 0, " ",
                   std::bit_cast<uint64_t>(m.median_seconds), " ",
                   std::bit_cast<uint64_t>(m.spread), " ", m.repeats, " ", m.recorded_unix_ms);
  return std::bit_cast<int64_t>(StableHash(text, names_hash));
}

Measurement MeasurementIn(const SqliteRow& row) {
  return {.batch = row.Integer(3),
          .engine = EngineFromText(row.Text(4), row.Integer(5), row.Integer(6) != 0),
          .median_seconds = row.Real(7),
          .spread = row.Real(8),
          .repeats = row.Integer(9),
          .failure = row.Text(10),
          .recorded_unix_ms = row.Integer(11)};
}

// Calls a function for each row that kSelect + `rest` finds, after checking its checksum. Errors:
// DATA_LOSS.
absl::Status ForEachRow(SqliteConnection& connection, const std::string& rest,
                        absl::Span<const SqliteValue> values,
                        absl::FunctionRef<void(const SqliteRow&, Measurement)> on_row) {
  std::string corrupt;
  std::string names;  // of the previous row, because rows of an operation are consecutive
  uint64_t names_hash = 0;
  RETURN_IF_ERROR(connection.Run(absl::StrCat(kSelect, rest), values, [&](const SqliteRow& row) {
    Measurement measurement = MeasurementIn(row);
    std::string text = NamesText(row.TextView(0), row.TextView(1), row.TextView(2));
    if (text != names) {
      names = std::move(text);
      names_hash = StableHash(names);
    }
    if (Checksum(names_hash, measurement) != row.Integer(12)) {
      corrupt = absl::StrCat(row.Text(2), ", batch ", measurement.batch, ", engine ",
                             measurement.engine.id);
    }
    on_row(row, std::move(measurement));
  }));
  if (corrupt.empty()) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(connection.path(), ": corrupt: the row of ", corrupt,
                                          " does not match its checksum"));
}

}  // namespace

const char kProfileSchema[] = R"sql(
CREATE TABLE systems (
  id INTEGER PRIMARY KEY,
  device TEXT NOT NULL,
  versions TEXT NOT NULL,
  UNIQUE (device, versions)
) STRICT;
CREATE TABLE operations (
  id INTEGER PRIMARY KEY,
  text TEXT NOT NULL UNIQUE
) STRICT;
CREATE TABLE measurements (
  system INTEGER NOT NULL REFERENCES systems,
  operation INTEGER NOT NULL REFERENCES operations,
  batch INTEGER NOT NULL CHECK (batch > 0),
  engine TEXT NOT NULL,
  workspace_bytes INTEGER NOT NULL CHECK (workspace_bytes >= 0),
  deterministic INTEGER NOT NULL CHECK (deterministic IN (0, 1)),
  median_seconds REAL CHECK (median_seconds > 0),
  spread REAL CHECK (spread >= 0),
  repeats INTEGER NOT NULL CHECK (repeats >= 0),
  failure TEXT,
  recorded_unix_ms INTEGER NOT NULL,
  checksum INTEGER NOT NULL,
  PRIMARY KEY (system, operation, batch, engine),
  CHECK ((median_seconds IS NULL) = (failure IS NOT NULL)),
  CHECK ((median_seconds IS NULL) = (spread IS NULL)),
  CHECK ((median_seconds IS NULL) = (repeats = 0))
) STRICT, WITHOUT ROWID;
CREATE VIEW profile AS
  SELECT device, versions, text AS operation, batch, engine, workspace_bytes, deterministic,
         median_seconds, spread, repeats, failure, recorded_unix_ms, checksum
  FROM measurements
  JOIN systems ON systems.id = system
  JOIN operations ON operations.id = measurements.operation;
)sql";

absl::Status CheckPossible(const Measurement& m) {
  const bool is_engine = m.batch > 0 && m.batch <= kMaxMeasuredBatch && !m.engine.id.empty() &&
                         m.engine.workspace_bytes >= 0 &&
                         m.engine.workspace_bytes <= kMaxMeasuredWorkspaceBytes;
  const bool is_time = m.repeats > 0 && m.repeats <= kMaxMeasuredRepeats &&
                       m.median_seconds >= kMinMeasuredSeconds &&
                       m.median_seconds <= kMaxMeasuredSeconds && m.spread >= 0 &&
                       m.spread <= kMaxMeasuredSpread;
  const bool is_none = m.repeats == 0 && m.median_seconds == 0 && m.spread == 0;
  if (is_engine && (m.failed() ? is_none : is_time)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("impossible: batch ", m.batch, ", engine \"", m.engine.id, "\", workspace ",
                   m.engine.workspace_bytes, " bytes, median ", m.median_seconds, " s, spread ",
                   m.spread, ", ", m.repeats, " repeats, failure \"", m.failure, "\""));
}

absl::StatusOr<FoundRows> ReadRows(SqliteConnection& connection, const std::string& where,
                                   absl::Span<const SqliteValue> values) {
  FoundRows found;
  RETURN_IF_ERROR(ForEachRow(
      connection,
      absl::StrCat(" WHERE ", where, " ORDER BY device, versions, operation, batch, engine"),
      values, [&](const SqliteRow& row, Measurement measurement) {
        const absl::Status possible = CheckPossible(measurement);
        if (possible.ok()) {
          found.rows.push_back({{row.Text(0), row.Text(1)}, row.Text(2), std::move(measurement)});
        } else if (++found.ignored == 1) {
          found.first_ignored = absl::StrCat(row.Text(2), ": ", possible.message());
        }
      }));
  return found;
}

// A failure has no numbers except its engine's workspace.
std::string ImpossibleRow() {
  return absl::StrCat(
      "(batch NOT BETWEEN 1 AND ", kMaxMeasuredBatch, " OR workspace_bytes NOT BETWEEN 0 AND ",
      kMaxMeasuredWorkspaceBytes, " OR repeats NOT BETWEEN 0 AND ", kMaxMeasuredRepeats,
      " OR coalesce(median_seconds NOT BETWEEN ", kMinMeasuredSeconds, " AND ", kMaxMeasuredSeconds,
      " OR spread NOT BETWEEN 0 AND ", kMaxMeasuredSpread, ", failure IS NULL OR failure = ''))");
}

absl::Status CheckRows(SqliteConnection& connection) {
  return ForEachRow(connection, "", {}, [](const SqliteRow&, const Measurement&) {});
}

absl::StatusOr<bool> WriteRow(SqliteConnection& connection, const ProfileRow& row,
                              OnConflict on_conflict) {
  RETURN_IF_ERROR(connection.Run(kAddSystem, {row.device.name, row.device.versions}));
  RETURN_IF_ERROR(connection.Run(kAddOperation, {row.operation}));
  const Measurement& m = row.measurement;
  const std::string names = NamesText(row.device.name, row.device.versions, row.operation);
  const auto unless_failed = [&](SqliteValue value) { return m.failed() ? SqliteValue() : value; };
  RETURN_IF_ERROR(connection.Run(
      on_conflict == OnConflict::kReplace
          ? kReplace
          : absl::StrCat(kReplace, " WHERE ", ImpossibleRow(), kUnlessBetter),
      {row.device.name, row.device.versions, row.operation, m.batch, m.engine.id,
       m.engine.workspace_bytes, int64_t{m.engine.deterministic}, unless_failed(m.median_seconds),
       unless_failed(m.spread), m.repeats, m.failed() ? SqliteValue(m.failure) : SqliteValue(),
       m.recorded_unix_ms, Checksum(StableHash(names), m)}));
  return connection.ChangedRows() > 0;
}

}  // namespace neap
