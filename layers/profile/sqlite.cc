#include "neap/layers/profile/sqlite.h"

#include <sqlite3.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"

namespace neap {
namespace {

absl::StatusCode CodeOf(int result) {
  switch (result & 0xff) {  // the primary code; higher bits have details
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return absl::StatusCode::kDataLoss;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return absl::StatusCode::kUnavailable;
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_AUTH:
      return absl::StatusCode::kPermissionDenied;
    case SQLITE_FULL:
    case SQLITE_NOMEM:
    case SQLITE_TOOBIG:
      return absl::StatusCode::kResourceExhausted;
    case SQLITE_CONSTRAINT:
    case SQLITE_MISMATCH:
      return absl::StatusCode::kInvalidArgument;
    default:
      return absl::StatusCode::kInternal;
  }
}

// A path as an SQLite URI.
std::string Uri(const std::string& path, std::string_view query) {
  std::string uri = "file:";
  for (const char c : path) {
    if (c == '%' || c == '?' || c == '#') {
      absl::StrAppend(&uri, "%", absl::Hex(static_cast<unsigned char>(c), absl::kZeroPad2));
    } else {
      uri.push_back(c);
    }
  }
  return absl::StrCat(uri, "?", std::string(query));
}

struct Bind {
  sqlite3_stmt* statement;
  int position;
  int operator()(std::monostate) const { return sqlite3_bind_null(statement, position); }
  int operator()(int64_t value) const { return sqlite3_bind_int64(statement, position, value); }
  int operator()(double value) const { return sqlite3_bind_double(statement, position, value); }
  int operator()(std::string_view value) const {  // not copied; valid until the statement is reset
    return sqlite3_bind_text64(statement, position, value.data(), value.size(), SQLITE_STATIC,
                               SQLITE_UTF8);
  }
};

// Resets a statement on destruction, which releases its locks and the caller's values.
class Rest {
 public:
  explicit Rest(sqlite3_stmt* statement) : statement_(statement) {}
  ~Rest() {
    sqlite3_reset(statement_);
    sqlite3_clear_bindings(statement_);
  }
  Rest(const Rest&) = delete;
  Rest& operator=(const Rest&) = delete;

 private:
  sqlite3_stmt* statement_;
};

}  // namespace

int64_t SqliteRow::Integer(int column) const { return sqlite3_column_int64(statement_, column); }

double SqliteRow::Real(int column) const { return sqlite3_column_double(statement_, column); }

std::string_view SqliteRow::TextView(int column) const {
  const void* const text = sqlite3_column_text(statement_, column);
  if (text == nullptr) return {};
  return {static_cast<const char*>(text),
          static_cast<size_t>(sqlite3_column_bytes(statement_, column))};
}

void SqliteConnection::Close::operator()(sqlite3* database) const { sqlite3_close_v2(database); }

void SqliteConnection::Finalize::operator()(sqlite3_stmt* statement) const {
  sqlite3_finalize(statement);
}

absl::StatusOr<SqliteConnection> SqliteConnection::Open(const std::string& path,
                                                        SqliteAccess access, int wait_ms) {
  const bool writes = access == SqliteAccess::kReadWrite;
  const int flags = SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_URI |
                    (writes ? SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE : SQLITE_OPEN_READONLY);
  const std::string uri = Uri(path, access == SqliteAccess::kReadUnlocked ? "immutable=1" : "");
  sqlite3* database = nullptr;
  const int result = sqlite3_open_v2(uri.c_str(), &database, flags, nullptr);
  SqliteConnection connection(std::unique_ptr<sqlite3, Close>(database), path);
  if (result != SQLITE_OK) return connection.Error("open");
  sqlite3_extended_result_codes(database, 1);
  sqlite3_busy_timeout(database, wait_ms);
  return connection;
}

absl::Status SqliteConnection::Error(std::string_view call) const {
  if (database_ == nullptr) return absl::ResourceExhaustedError(path_ + ": out of memory");
  const int result = sqlite3_extended_errcode(database_.get());
  const std::string message =
      absl::StrCat(path_, ": ", std::string(call), ": ", sqlite3_errmsg(database_.get()),
                   " (SQLite ", result, ")");
  const int system_error = sqlite3_system_errno(database_.get());
  const bool of_system = (result & 0xff) == SQLITE_CANTOPEN || (result & 0xff) == SQLITE_IOERR;
  if (of_system && system_error != 0) return absl::ErrnoToStatus(system_error, message);
  return {CodeOf(result), message};
}

absl::StatusOr<sqlite3_stmt*> SqliteConnection::Prepare(const std::string& sql) {
  const auto found = statements_.find(sql);
  if (found != statements_.end()) return found->second.get();
  sqlite3_stmt* statement = nullptr;
  if (sqlite3_prepare_v3(database_.get(), sql.c_str(), -1, SQLITE_PREPARE_PERSISTENT, &statement,
                         nullptr) != SQLITE_OK) {
    const absl::Status status = Error("prepare");
    // The statement is valid, so the tables or their format must be wrong.
    const bool of_file = sqlite3_errcode(database_.get()) == SQLITE_ERROR;
    return of_file ? absl::DataLossError(status.message()) : status;
  }
  statements_[sql].reset(statement);
  return statement;
}

absl::Status SqliteConnection::Run(const std::string& sql, absl::Span<const SqliteValue> values,
                                   OnRow on_row) {
  ASSIGN_OR_RETURN(sqlite3_stmt* const statement, Prepare(sql));
  const Rest rest(statement);
  for (size_t i = 0; i < values.size(); ++i) {
    if (std::visit(Bind{statement, static_cast<int>(i) + 1}, values[i]) != SQLITE_OK)
      return Error("bind");
  }
  int result = sqlite3_step(statement);
  for (; result == SQLITE_ROW; result = sqlite3_step(statement)) on_row(SqliteRow(statement));
  return result == SQLITE_DONE ? absl::OkStatus() : Error("step");
}

absl::Status SqliteConnection::Run(const std::string& sql, absl::Span<const SqliteValue> values) {
  return Run(sql, values, [](const SqliteRow&) {});
}

absl::StatusOr<int64_t> SqliteConnection::Number(const std::string& sql) {
  int64_t number = 0;
  RETURN_IF_ERROR(Run(sql, {}, [&](const SqliteRow& row) { number = row.Integer(0); }));
  return number;
}

absl::Status SqliteConnection::RunScript(const std::string& sql) {
  const int result = sqlite3_exec(database_.get(), sql.c_str(), nullptr, nullptr, nullptr);
  return result == SQLITE_OK ? absl::OkStatus() : Error("exec");
}

int64_t SqliteConnection::ChangedRows() const { return sqlite3_changes64(database_.get()); }

bool SqliteConnection::HasMoved() const {
  int moved = 0;
  const int result = sqlite3_file_control(database_.get(), "main", SQLITE_FCNTL_HAS_MOVED, &moved);
  return result == SQLITE_OK && moved != 0;
}

bool SqliteConnection::CanWrite() const {
  return sqlite3_db_readonly(database_.get(), "main") == 0;
}

absl::StatusOr<SqliteTransaction> SqliteTransaction::Begin(SqliteConnection& connection) {
  RETURN_IF_ERROR(connection.Run("BEGIN IMMEDIATE"));
  return SqliteTransaction(connection);
}

SqliteTransaction::SqliteTransaction(SqliteTransaction&& other) noexcept
    : connection_(std::exchange(other.connection_, nullptr)) {}

SqliteTransaction::~SqliteTransaction() {
  // Fails if SQLite has already rolled back.
  if (connection_ != nullptr) connection_->Run("ROLLBACK").IgnoreError();
}

absl::Status SqliteTransaction::Commit() {
  RETURN_IF_ERROR(connection_->Run("COMMIT"));
  connection_ = nullptr;
  return absl::OkStatus();
}

absl::Status BeginSqliteFile(SqliteConnection& connection, const std::string& schema,
                             int application, int version) {
  ASSIGN_OR_RETURN(SqliteTransaction transaction, SqliteTransaction::Begin(connection));
  RETURN_IF_ERROR(connection.RunScript(schema));
  RETURN_IF_ERROR(connection.RunScript(
      absl::StrCat("PRAGMA application_id = ", application, "; PRAGMA user_version = ", version)));
  return transaction.Commit();
}

}  // namespace neap
