// The file of a ProfileDatabase: opens and checks it, and sets it aside if it cannot be trusted.
//
// Wrong times make plans slow for no visible reason. Therefore a file is used only if it is a
// database of this program (application id), of this version of the schema, with exactly its
// tables, and undamaged (quick_check, and the checksum of every row), and only until it shows
// damage. Any other file is renamed to PATH.set-aside-1 (-2, ...), with the files that SQLite keeps
// beside it, and a new one is created. Nothing is deleted.
//
//   ASSIGN_OR_RETURN(ProfileFile file, OpenProfileFile(path, OtherVersion::kSetAside));
//   file.notice;  // "PATH: not a database of measurements: set aside as PATH.set-aside-1"
//
// Only one process opens the database at a time: a lock on PATH.lock, which is never removed,
// prevents two processes from setting aside each other's new database.
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
  std::string notice;  // says what was set aside and why; empty if nothing was
};

// The treatment of a file of another version. Refusing it keeps two programs of different versions
// that use the same path from setting aside each other's files.
enum class OtherVersion : uint8_t { kSetAside, kRefuse };

// Creates missing folders and a missing file. Errors: INVALID_ARGUMENT for a path that is not a
// regular file; FAILED_PRECONDITION for another version that is refused; otherwise those of
// layers/profile/sqlite.h or of the operating system, with the path.
absl::StatusOr<ProfileFile> OpenProfileFile(const std::string& path, OtherVersion other_version);

// To be called when damage is found after opening: sets the file of `damaged` aside, unless another
// process already has, and opens as above; another version is refused.
absl::StatusOr<ProfileFile> ReplaceProfileFile(SqliteConnection damaged,
                                               const absl::Status& reason);

// Opens for reading: the file is never set aside or created, and may be on read-only media. Errors:
// NOT_FOUND, INVALID_ARGUMENT, DATA_LOSS, FAILED_PRECONDITION (another version).
absl::StatusOr<SqliteConnection> OpenProfileToRead(const std::string& path);

}  // namespace neap
