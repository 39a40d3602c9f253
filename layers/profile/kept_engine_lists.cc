#include "neap/layers/profile/kept_engine_lists.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"
#include "neap/layers/profile/cache_path.h"

namespace neap {
namespace {

constexpr int kListsApplicationId = 0x6e656c69;  // "neli"

// Newer lists have larger numbers. The file need not survive a power failure, but a home folder that
// several machines share, as a log (WAL) would not.
constexpr char kListsSchema[] = R"sql(
PRAGMA journal_mode = TRUNCATE;
PRAGMA synchronous = OFF;
CREATE TABLE IF NOT EXISTS libraries (id INTEGER PRIMARY KEY, text TEXT NOT NULL UNIQUE);
CREATE TABLE IF NOT EXISTS lists (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  library INTEGER NOT NULL REFERENCES libraries (id),
  problem TEXT NOT NULL,
  list TEXT NOT NULL,
  UNIQUE (library, problem));
)sql";
constexpr char kFind[] = R"sql(
SELECT list FROM lists JOIN libraries ON libraries.id = library WHERE text = ?1 AND problem = ?2
)sql";
constexpr char kAddLibrary[] = "INSERT OR IGNORE INTO libraries (text) VALUES (?1)";
constexpr char kAddList[] = R"sql(
INSERT OR REPLACE INTO lists (library, problem, list)
SELECT id, ?2, ?3 FROM libraries WHERE text = ?1
)sql";
constexpr char kBytes[] = R"sql(
SELECT (page_count - freelist_count) * page_size
FROM pragma_page_count, pragma_freelist_count, pragma_page_size
)sql";
constexpr char kForgetHalf[] =
    "DELETE FROM lists WHERE id <= (SELECT (min(id) + max(id)) / 2 FROM lists)";

absl::StatusOr<int64_t> Number(SqliteConnection& connection, const std::string& sql) {
  int64_t number = 0;
  RETURN_IF_ERROR(connection.Run(sql, {}, [&](const SqliteRow& row) { number = row.Integer(0); }));
  return number;
}

// Errors: DATA_LOSS for a file of something else.
absl::StatusOr<SqliteConnection> OpenLists(const std::string& path, int64_t max_bytes) {
  ASSIGN_OR_RETURN(SqliteConnection connection,
                   SqliteConnection::Open(path, SqliteAccess::kReadWrite));
  ASSIGN_OR_RETURN(const int64_t application, Number(connection, "PRAGMA application_id"));
  if (application != 0 && application != kListsApplicationId)
    return absl::DataLossError(path + ": not a file of engines");
  RETURN_IF_ERROR(connection.RunScript(kListsSchema));
  if (application == 0) {
    RETURN_IF_ERROR(
        connection.RunScript(absl::StrCat("PRAGMA application_id = ", kListsApplicationId)));
  }
  ASSIGN_OR_RETURN(const int64_t bytes, Number(connection, kBytes));
  if (bytes > max_bytes) RETURN_IF_ERROR(connection.Run(kForgetHalf));
  return connection;
}

void Delete(const std::string& path) {
  std::error_code ignored;
  for (const char* const suffix : {"-journal", ""}) std::filesystem::remove(path + suffix, ignored);
}

}  // namespace

std::shared_ptr<KeptEngineLists> KeptEngineLists::OpenDefault() {
  const absl::StatusOr<std::string> path = CachePath("engines.db");
  return path.ok() ? Open(*path) : nullptr;
}

std::shared_ptr<KeptEngineLists> KeptEngineLists::Open(const std::string& path, int64_t max_bytes) {
  std::error_code ignored;  // then the file cannot be opened, either
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), ignored);
  absl::StatusOr<SqliteConnection> connection = OpenLists(path, max_bytes);
  if (absl::IsDataLoss(connection.status())) {
    Delete(path);
    connection = OpenLists(path, max_bytes);
  }
  if (!connection.ok()) return nullptr;
  return std::shared_ptr<KeptEngineLists>(new KeptEngineLists(*std::move(connection)));
}

std::optional<std::string> KeptEngineLists::Find(std::string_view library,
                                                 std::string_view problem) {
  const std::lock_guard lock(mutex_);
  std::optional<std::string> found;
  const absl::Status status = connection_.Run(kFind, {library, problem},
                                              [&](const SqliteRow& row) { found = row.Text(0); });
  return status.ok() ? found : std::nullopt;
}

void KeptEngineLists::Keep(std::string_view library, std::string_view problem,
                           std::string_view list) {
  const std::lock_guard lock(mutex_);
  if (connection_.Run(kAddLibrary, {library}).ok())
    (void)connection_.Run(kAddList, {library, problem, list});
}

}  // namespace neap
