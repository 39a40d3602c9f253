// A wrapper of SQLite that returns absl::Status, and closes connections, statements and
// transactions in destructors.
//
// Status codes: DATA_LOSS for a file that is not a database or is corrupt, UNAVAILABLE for one that
// other processes kept locked for the milliseconds that Open() was given, PERMISSION_DENIED,
// RESOURCE_EXHAUSTED (full disk), NOT_FOUND, otherwise INTERNAL. The message has the file and
// SQLite's message.
//
//   ASSIGN_OR_RETURN(SqliteConnection db, SqliteConnection::Open(path, SqliteAccess::kReadWrite));
//   int64_t count = 0;
//   RETURN_IF_ERROR(db.Run("SELECT count(*) FROM operations WHERE text = ?1", {operation},
//                          [&](const SqliteRow& row) { count = row.Integer(0); }));
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <variant>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

struct sqlite3;
struct sqlite3_stmt;

namespace neap {

inline constexpr int kSqliteWaitMs = 30'000;

enum class SqliteAccess : uint8_t {
  kRead,
  kReadUnlocked,  // for a file that no process changes: takes no lock and creates no file beside it
  kReadWrite,     // creates the file if it does not exist
};

// monostate: NULL.
using SqliteValue = std::variant<std::monostate, int64_t, double, std::string_view>;

// Columns are numbered from 0. NULL reads as 0 or as empty text.
class SqliteRow {
 public:
  explicit SqliteRow(sqlite3_stmt* statement) : statement_(statement) {}
  int64_t Integer(int column) const;
  double Real(int column) const;
  std::string Text(int column) const { return std::string(TextView(column)); }
  std::string_view TextView(int column) const;  // valid until the next row

 private:
  sqlite3_stmt* statement_;
};

// *Threads*: one at a time; must not be used after a fork(). While a connection has a file open,
// the same process must not open the file in any other way: closing it would release the
// connection's locks.
class SqliteConnection {
 public:
  using OnRow = absl::FunctionRef<void(const SqliteRow&)>;

  static absl::StatusOr<SqliteConnection> Open(const std::string& path, SqliteAccess access,
                                               int wait_ms = kSqliteWaitMs);

  const std::string& path() const { return path_; }

  // Runs one statement, with values for ?1, ?2, ... Compiled statements are cached.
  absl::Status Run(const std::string& sql, absl::Span<const SqliteValue> values, OnRow on_row);
  absl::Status Run(const std::string& sql, absl::Span<const SqliteValue> values = {});
  // The first column of the last row of a statement; 0 without rows.
  absl::StatusOr<int64_t> Number(const std::string& sql);
  // Runs several statements, separated by semicolons.
  absl::Status RunScript(const std::string& sql);
  // The number of rows that the last INSERT or UPDATE changed.
  int64_t ChangedRows() const;
  // Whether the path no longer names the file that was opened.
  bool HasMoved() const;
  bool CanWrite() const;

 private:
  struct Close {
    void operator()(sqlite3* database) const;
  };
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const;
  };
  SqliteConnection(std::unique_ptr<sqlite3, Close> database, std::string path)
      : database_(std::move(database)), path_(std::move(path)) {}
  absl::Status Error(std::string_view call) const;
  absl::StatusOr<sqlite3_stmt*> Prepare(const std::string& sql);

  std::unique_ptr<sqlite3, Close> database_;
  std::string path_;
  absl::flat_hash_map<std::string, std::unique_ptr<sqlite3_stmt, Finalize>> statements_;
};

// The suffixes of the files that SQLite keeps beside a file, and none for the file itself. Code
// that removes or renames the file must begin with the others: a log that remains would be taken
// for that of the next file.
inline constexpr std::array<const char*, 4> kSqliteSuffixes = {"-wal", "-shm", "-journal", ""};

// Rolled back on destruction unless committed. It waits for other writers at the beginning: later,
// two transactions that have both read could only fail.
class SqliteTransaction {
 public:
  static absl::StatusOr<SqliteTransaction> Begin(SqliteConnection& connection);
  ~SqliteTransaction();
  SqliteTransaction(SqliteTransaction&& other) noexcept;
  SqliteTransaction& operator=(SqliteTransaction&&) = delete;
  absl::Status Commit();

 private:
  explicit SqliteTransaction(SqliteConnection& connection) : connection_(&connection) {}
  SqliteConnection* connection_;  // null once committed or moved from
};

// Creates the tables of a new file, and marks it as `application`'s, of this version, both or
// neither.
absl::Status BeginSqliteFile(SqliteConnection& connection, const std::string& schema,
                             int application, int version);

}  // namespace neap
