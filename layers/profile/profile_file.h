// The file of a ProfileDatabase: opened, checked, and set aside where it cannot be trusted.
//
// Times that are wrong make plans that are slow and nobody knows why; so a file is used only if it
// is a database of this program (application id), of this version of the schema, with exactly its
// tables, and whole (quick_check, and the checksum of every row), and only until it shows damage.
// Any other is renamed to PATH.set-aside-1 (-2, ...), with what SQLite keeps beside it, and a new
// one is begun. Nothing is deleted.
//
//   ASSIGN_OR_RETURN(ProfileFile file, OpenProfileFile(path, OtherVersion::kSetAside));
//   file.notice;  // "PATH: not a database of measurements: set aside as PATH.set-aside-1"
//
// One process at a time opens: a lock on PATH.lock, a file that stays, keeps two from setting aside
// each other's new database.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "neap/layers/profile/sqlite.h"

namespace neap {

inline constexpr int kProfileApplicationId = 0x6e656170;  // "neap"
inline constexpr int kProfileSchemaVersion = 1;

struct ProfileFile {
  SqliteConnection connection;
  std::string notice;  // what was set aside and why; empty where nothing was
};

// Two programs of different versions that work on one path must not take turns at setting aside.
enum class OtherVersion : uint8_t { kSetAside, kRefuse };

// Makes the folders and the file where they are not there. Errors: INVALID_ARGUMENT for a path that
// is no regular file, FAILED_PRECONDITION for another version that is to be refused, otherwise as
// in layers/profile/sqlite.h or what the operating system says, with the path.
absl::StatusOr<ProfileFile> OpenProfileFile(const std::string& path, OtherVersion other_version);

// After use of `damaged` showed what opening did not: sets its file aside, unless another process
// already has, and opens as above; another version is refused.
absl::StatusOr<ProfileFile> ReplaceProfileFile(SqliteConnection damaged,
                                               const absl::Status& reason);

// For reading, another's file: never set aside or created, also on read-only media. Errors:
// NOT_FOUND, INVALID_ARGUMENT, DATA_LOSS, FAILED_PRECONDITION (another version).
absl::StatusOr<SqliteConnection> OpenProfileToRead(const std::string& path);

}  // namespace neap
