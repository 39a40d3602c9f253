#include "neap/layers/profile/profile_file.h"

#include <fcntl.h>
#include <sys/file.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "neap/core/base/file.h"
#include "neap/core/base/status_macros.h"
#include "neap/layers/profile/profile_row.h"

namespace neap {
namespace {

namespace fs = std::filesystem;

absl::Status SystemError(const std::error_code& error, const std::string& path,
                         const std::string& call) {
  return absl::ErrnoToStatus(error.value(), absl::StrCat(path, ": ", call));
}

// Takes the lock, which is held until the descriptor goes out of scope.
absl::StatusOr<FileDescriptor> Lock(const std::string& path) {
  FileDescriptor fd(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
  if (!fd.valid()) return absl::ErrnoToStatus(errno, absl::StrCat(path, ": open"));
  while (flock(fd.get(), LOCK_EX) != 0) {
    if (errno != EINTR) return absl::ErrnoToStatus(errno, absl::StrCat(path, ": flock"));
  }
  return fd;
}

// The text of all CREATE statements of the database.
absl::StatusOr<std::string> SchemaText(SqliteConnection& connection) {
  std::string text;
  RETURN_IF_ERROR(connection.Run(
      "SELECT sql FROM sqlite_schema WHERE name NOT LIKE 'sqlite!_%' ESCAPE '!' ORDER BY name", {},
      [&](const SqliteRow& row) { absl::StrAppend(&text, row.Text(0), ";\n"); }));
  return text;
}

absl::Status CheckSchema(SqliteConnection& connection) {
  ASSIGN_OR_RETURN(SqliteConnection model,
                   SqliteConnection::Open(":memory:", SqliteAccess::kReadWrite));
  RETURN_IF_ERROR(model.RunScript(kProfileSchema));
  ASSIGN_OR_RETURN(const std::string expected, SchemaText(model));
  ASSIGN_OR_RETURN(const std::string text, SchemaText(connection));
  if (text == expected) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(
      connection.path(), ": its tables are not those of schema version ", kProfileSchemaVersion));
}

absl::Status CheckPages(SqliteConnection& connection) {
  std::string found;
  RETURN_IF_ERROR(connection.Run("PRAGMA quick_check(1)", {},
                                 [&](const SqliteRow& row) { found = row.Text(0); }));
  if (found == "ok") return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(connection.path(), ": corrupt: ", found));
}

// Whether nothing was ever written: the file is new, or the process that created it was killed.
absl::StatusOr<bool> IsBlank(SqliteConnection& connection) {
  ASSIGN_OR_RETURN(const int64_t application, connection.Number("PRAGMA application_id"));
  ASSIGN_OR_RETURN(const int64_t version, connection.Number("PRAGMA user_version"));
  ASSIGN_OR_RETURN(const std::string schema, SchemaText(connection));
  return application == 0 && version == 0 && schema.empty();
}

absl::Status Check(SqliteConnection& connection) {
  ASSIGN_OR_RETURN(const int64_t application, connection.Number("PRAGMA application_id"));
  if (application != kProfileApplicationId) {
    return absl::DataLossError(connection.path() + ": not a database of measurements");
  }
  ASSIGN_OR_RETURN(const int64_t version, connection.Number("PRAGMA user_version"));
  if (version != kProfileSchemaVersion) {
    return absl::FailedPreconditionError(absl::StrCat(connection.path(), ": has schema version ",
                                                      version, ", not ", kProfileSchemaVersion));
  }
  RETURN_IF_ERROR(CheckSchema(connection));
  RETURN_IF_ERROR(CheckPages(connection));
  return CheckRows(connection);
}

absl::StatusOr<SqliteConnection> OpenChecked(const std::string& path) {
  ASSIGN_OR_RETURN(SqliteConnection connection,
                   SqliteConnection::Open(path, SqliteAccess::kReadWrite));
  ASSIGN_OR_RETURN(const bool blank, IsBlank(connection));
  if (!connection.CanWrite()) return absl::PermissionDeniedError(path + ": cannot be written");
  if (!blank) RETURN_IF_ERROR(Check(connection));
  // NORMAL: killing the process loses no recorded measurement, a power failure perhaps the last
  // seconds; neither damages the file.
  RETURN_IF_ERROR(connection.RunScript("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL"));
  if (blank) {
    RETURN_IF_ERROR(
        BeginSqliteFile(connection, kProfileSchema, kProfileApplicationId, kProfileSchemaVersion));
  }
  return connection;
}

bool IsTaken(const std::string& name) {
  std::error_code ignored;
  for (const char* const suffix : kSqliteSuffixes) {
    if (fs::exists(fs::symlink_status(name + suffix, ignored))) return true;
  }
  return false;
}

// Renames the files of `path`, and returns the new name.
absl::StatusOr<std::string> SetAside(const std::string& path) {
  int number = 1;
  while (IsTaken(absl::StrCat(path, ".set-aside-", number))) ++number;
  const std::string name = absl::StrCat(path, ".set-aside-", number);
  for (const char* const suffix : kSqliteSuffixes) {
    std::error_code error;
    fs::rename(path + suffix, name + suffix, error);
    if (error && error != std::errc::no_such_file_or_directory) {
      return SystemError(error, path + suffix, "set aside");
    }
  }
  return name;
}

absl::Status CheckRegular(const std::string& path) {
  std::error_code ignored;
  const fs::file_status status = fs::status(path, ignored);
  if (!fs::exists(status) || fs::is_regular_file(status)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(path, ": not a regular file"));
}

absl::StatusOr<ProfileFile> BeginAnew(const std::string& path, const absl::Status& reason) {
  ASSIGN_OR_RETURN(const std::string name, SetAside(path));
  ASSIGN_OR_RETURN(SqliteConnection fresh, OpenChecked(path));
  return ProfileFile{std::move(fresh), absl::StrCat(std::string(reason.message()),
                                                    ": set aside as ", name, ", begun anew")};
}

absl::StatusOr<ProfileFile> OpenLocked(const std::string& path, OtherVersion other_version) {
  absl::StatusOr<SqliteConnection> connection = OpenChecked(path);
  const absl::Status& status = connection.status();
  if (status.ok()) return ProfileFile{*std::move(connection), ""};
  const bool other = absl::IsFailedPrecondition(status) && other_version == OtherVersion::kSetAside;
  return absl::IsDataLoss(status) || other ? BeginAnew(path, status) : status;
}

}  // namespace

absl::StatusOr<ProfileFile> OpenProfileFile(const std::string& path, OtherVersion other_version) {
  RETURN_IF_ERROR(CheckRegular(path));
  const fs::path folder = fs::path(path).parent_path();
  std::error_code error;
  if (!folder.empty()) fs::create_directories(folder, error);
  if (error) return SystemError(error, path, "create its folder");
  ASSIGN_OR_RETURN(const FileDescriptor lock, Lock(path + ".lock"));
  return OpenLocked(path, other_version);
}

absl::StatusOr<ProfileFile> ReplaceProfileFile(SqliteConnection damaged,
                                               const absl::Status& reason) {
  const std::string path = damaged.path();
  ASSIGN_OR_RETURN(const FileDescriptor lock, Lock(path + ".lock"));
  const bool replaced = damaged.HasMoved();
  { const SqliteConnection closed = std::move(damaged); }
  return replaced ? OpenLocked(path, OtherVersion::kRefuse) : BeginAnew(path, reason);
}

absl::StatusOr<SqliteConnection> OpenProfileToRead(const std::string& path) {
  RETURN_IF_ERROR(CheckRegular(path));
  ASSIGN_OR_RETURN(SqliteConnection connection, SqliteConnection::Open(path, SqliteAccess::kRead));
  absl::Status status = Check(connection);
  // On read-only media SQLite cannot create its files beside the database. Without a log no process
  // is writing, and the file can be read without locks.
  if (!status.ok() && !fs::exists(path + "-wal")) {
    ASSIGN_OR_RETURN(connection, SqliteConnection::Open(path, SqliteAccess::kReadUnlocked));
    status = Check(connection);
  }
  if (!status.ok()) return status;
  return connection;
}

}  // namespace neap
