#include "neap/layers/profile/kept_engine_lists.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "neap/core/base/stable_hash.h"
#include "neap/core/base/status_macros.h"
#include "neap/layers/profile/cache_path.h"

namespace neap {
namespace {

constexpr int kListsApplicationId = 0x6e656c69;  // "neli"
constexpr int kListsVersion = 1;                 // of the schema
constexpr int kMaxWaitMs = 200;                  // for other processes

// The file need not survive a power failure. Machines may share it in a home folder, which a log
// (WAL) would not allow.
constexpr char kListsMode[] = "PRAGMA journal_mode = TRUNCATE; PRAGMA synchronous = OFF";
// Newer lists have larger numbers.
constexpr char kListsSchema[] = R"sql(
CREATE TABLE IF NOT EXISTS libraries (id INTEGER PRIMARY KEY, text TEXT NOT NULL UNIQUE);
CREATE TABLE IF NOT EXISTS lists (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  library INTEGER NOT NULL REFERENCES libraries (id),
  problem TEXT NOT NULL,
  list TEXT NOT NULL,
  checksum INTEGER NOT NULL,
  UNIQUE (library, problem));
)sql";
constexpr char kFind[] = R"sql(
SELECT list, checksum FROM lists JOIN libraries ON libraries.id = library
WHERE text = ?1 AND problem = ?2
)sql";
constexpr char kAddLibrary[] = "INSERT OR IGNORE INTO libraries (text) VALUES (?1)";
constexpr char kAddList[] = R"sql(
INSERT OR REPLACE INTO lists (library, problem, list, checksum)
SELECT id, ?2, ?3, ?4 FROM libraries WHERE text = ?1
)sql";
constexpr char kBytes[] = R"sql(
SELECT (page_count - freelist_count) * page_size
FROM pragma_page_count, pragma_freelist_count, pragma_page_size
)sql";
constexpr char kForgetHalf[] = R"sql(
DELETE FROM lists WHERE id IN (SELECT id FROM lists ORDER BY id LIMIT (SELECT count(*) / 2 FROM lists))
)sql";

int64_t Checksum(std::string_view library, std::string_view problem, std::string_view list) {
  return static_cast<int64_t>(StableHash(list, StableHash(problem, StableHash(library))));
}

// Errors: DATA_LOSS for a damaged file or one of another version, FAILED_PRECONDITION for another
// program's.
absl::Status CheckLists(SqliteConnection& connection) {
  ASSIGN_OR_RETURN(const int64_t application, connection.Number("PRAGMA application_id"));
  ASSIGN_OR_RETURN(const int64_t version, connection.Number("PRAGMA user_version"));
  if (application != kListsApplicationId)
    return absl::FailedPreconditionError(connection.path() + ": another program's file");
  if (version != kListsVersion)
    return absl::DataLossError(connection.path() + ": of another version");
  return absl::OkStatus();
}

absl::StatusOr<SqliteConnection> OpenLists(const std::string& path, int64_t max_bytes) {
  ASSIGN_OR_RETURN(SqliteConnection connection,
                   SqliteConnection::Open(path, SqliteAccess::kReadWrite, kMaxWaitMs));
  ASSIGN_OR_RETURN(const int64_t pages, connection.Number("PRAGMA page_count"));
  if (pages > 0) RETURN_IF_ERROR(CheckLists(connection));
  RETURN_IF_ERROR(connection.RunScript(kListsMode));
  if (pages == 0) {
    RETURN_IF_ERROR(BeginSqliteFile(connection, kListsSchema, kListsApplicationId, kListsVersion));
  }
  ASSIGN_OR_RETURN(const int64_t bytes, connection.Number(kBytes));
  if (bytes > max_bytes) RETURN_IF_ERROR(connection.Run(kForgetHalf));
  return connection;
}

void Delete(const std::string& path) {
  std::error_code ignored;
  for (const char* const suffix : kSqliteSuffixes) std::filesystem::remove(path + suffix, ignored);
}

}  // namespace

std::shared_ptr<KeptEngineLists> KeptEngineLists::Default() {
  const absl::StatusOr<std::string> path = CachePath("engines.db");
  return path.ok() ? std::make_shared<KeptEngineLists>(*path) : nullptr;
}

void KeptEngineLists::Do(absl::FunctionRef<absl::Status(SqliteConnection&)> work) {
  const std::lock_guard lock(mutex_);
  if (has_failed_) return;
  absl::Status status;
  if (!connection_.has_value()) {
    std::error_code ignored;  // then the file cannot be opened, either
    std::filesystem::create_directories(std::filesystem::path(path_).parent_path(), ignored);
    absl::StatusOr<SqliteConnection> opened = OpenLists(path_, max_bytes_);
    if (absl::IsDataLoss(opened.status())) {
      Delete(path_);
      opened = OpenLists(path_, max_bytes_);
    }
    status = opened.status();
    if (status.ok()) connection_ = *std::move(opened);
  }
  if (status.ok()) status = work(*connection_);
  if (status.ok()) return;
  has_failed_ = true;
  const bool is_damaged =
      absl::IsDataLoss(status) && connection_.has_value() && !connection_->HasMoved();
  connection_.reset();
  if (is_damaged) Delete(path_);
}

std::optional<std::string> KeptEngineLists::Find(std::string_view library,
                                                 std::string_view problem) {
  std::optional<std::string> found;
  Do([&](SqliteConnection& connection) {
    return connection.Run(kFind, {library, problem}, [&](const SqliteRow& row) {
      if (row.Integer(1) == Checksum(library, problem, row.TextView(0))) found = row.Text(0);
    });
  });
  return found;
}

void KeptEngineLists::Keep(std::string_view library, std::string_view problem,
                           std::string_view list) {
  Do([&](SqliteConnection& connection) -> absl::Status {
    ASSIGN_OR_RETURN(SqliteTransaction transaction, SqliteTransaction::Begin(connection));
    RETURN_IF_ERROR(connection.Run(kAddLibrary, {library}));
    RETURN_IF_ERROR(
        connection.Run(kAddList, {library, problem, list, Checksum(library, problem, list)}));
    return transaction.Commit();
  });
}

}  // namespace neap
