// Profile databases that are damaged, of another version, or not writable.
#include "neap/layers/profile/profile_file.h"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <random>

#include "absl/strings/str_cat.h"
#include "neap/core/base/stable_hash.h"
#include "tests/layers/profile/profile_records.h"
#include "tests/random_graph.h"
#include "tests/scratch_directory.h"

namespace neap {
namespace {

using namespace testing;

void CheckBegunAnew(const std::string& path, const std::string& reason, int number = 1) {
  const std::string aside = absl::StrCat(path, ".set-aside-", number);
  ProfileDatabase database = OpenDatabase(path);
  REQUIRE(database.notices().size() == 1);
  const std::string notice = database.notices()[0];
  CAPTURE(notice);
  CHECK(notice.find(path + ": ") == 0);
  CHECK(notice.find(reason) != std::string::npos);
  CHECK(notice.find("set aside as " + aside + ", begun anew") != std::string::npos);
  CHECK(std::filesystem::exists(aside));
  CHECK(database.Counts()->rows == 0);
  CHECK(database.Record("conv", Measured(1, "a")).ok());
  CHECK(OpenDatabase(path).notices().empty());
}

TEST_CASE("a file that is not a database is set aside unchanged") {
  const ScratchDirectory directory;
  const std::string path = directory.File("p.db");
  const std::string text(5000, 't');
  WriteText(path, text);
  CheckBegunAnew(path, "not a database");
  CHECK(ReadText(path + ".set-aside-1") == text);
}

TEST_CASE("files that were set aside before keep their names") {
  const ScratchDirectory directory;
  const std::string path = directory.File("p.db");
  WriteText(path + ".set-aside-2-wal", "somebody's");
  for (const int number : {1, 3, 4}) {
    const std::string text = absl::StrCat("no database, to be number ", number);
    WriteText(path, text);
    CheckBegunAnew(path, "not a database", number);
    CHECK(ReadText(absl::StrCat(path, ".set-aside-", number)) == text);
  }
  CHECK(ReadText(path + ".set-aside-2-wal") == "somebody's");
}

TEST_CASE("an empty file, as a killed process may leave, becomes a new database") {
  const ScratchDirectory directory;
  const std::string path = directory.File("p.db");
  WriteText(path, "");
  ProfileDatabase database = OpenDatabase(path);
  CHECK(database.notices().empty());
  CHECK(database.Record("conv", Measured(1, "a")).ok());
}

TEST_CASE("a truncated database is set aside") {
  const ScratchDirectory directory;
  for (const double part : {0.99, 0.9, 0.5, 0.01}) {
    CAPTURE(part);
    const std::string path = directory.File(absl::StrCat(part, ".db"));
    FillDatabase(path);
    const auto size = static_cast<double>(std::filesystem::file_size(path));
    std::filesystem::resize_file(path, static_cast<uintmax_t>(size * part));
    CheckBegunAnew(path, "");
  }
}

TEST_CASE("a database with a page of noise is set aside, whichever page it is") {
  constexpr size_t kPageBytes = 4096;
  const ScratchDirectory directory;
  FillDatabase(directory.File("whole.db"));
  const std::string whole = ReadText(directory.File("whole.db"));
  std::mt19937 random(11);
  for (size_t page = 0; page < whole.size() / kPageBytes; page += 1 + page / 4) {
    CAPTURE(page);
    std::string bytes = whole;
    for (size_t i = 0; i < kPageBytes; ++i)
      bytes[page * kPageBytes + i] = static_cast<char>(random());
    const std::string path = directory.File(absl::StrCat(page, ".db"));
    WriteText(path, bytes);
    CheckBegunAnew(path, "");
  }
}

TEST_CASE("a database of another version or program is set aside") {
  const ScratchDirectory directory;
  const auto damaged = [&](const std::string& name, const std::string& sql) {
    const std::string path = directory.File(name);
    FillDatabase(path);
    REQUIRE(SqliteConnection::Open(path, SqliteAccess::kReadWrite)->RunScript(sql).ok());
    return path;
  };
  CheckBegunAnew(damaged("newer.db", "PRAGMA user_version = 2"), "has schema version 2, not 1");
  CheckBegunAnew(damaged("older.db", "PRAGMA user_version = 0"), "has schema version 0, not 1");
  CheckBegunAnew(damaged("program.db", "PRAGMA application_id = 1"),
                 "not a database of measurements");
  CheckBegunAnew(damaged("tables.db", "ALTER TABLE operations ADD COLUMN note TEXT"),
                 "its tables are not those of schema version 1");
  CheckBegunAnew(damaged("extra.db", "CREATE TABLE more (a)"), "its tables are not those");
  const std::string foreign = directory.File("foreign.db");
  REQUIRE(SqliteConnection::Open(foreign, SqliteAccess::kReadWrite)
              ->RunScript("CREATE TABLE bookmarks (url TEXT)")
              .ok());
  CheckBegunAnew(foreign, "not a database of measurements");
}

TEST_CASE("a value that no measurement can have makes the file corrupt") {
  const ScratchDirectory directory;
  const std::string path = directory.File("p.db");
  FillDatabase(path);
  REQUIRE(SqliteConnection::Open(path, SqliteAccess::kReadWrite)
              ->RunScript("PRAGMA ignore_check_constraints = 1; UPDATE measurements SET batch = -1")
              .ok());
  CheckBegunAnew(path, "CHECK constraint failed");
}

constexpr const char* kChanges[] = {
    "median_seconds = 0.5", "workspace_bytes = 1",
    "deterministic = 0",    "spread = 0.5",
    "repeats = 1000",       "recorded_unix_ms = 1",
    "engine = 'b'",         "batch = 2",
    "checksum = 1",         "median_seconds = NULL, spread = NULL, repeats = 0, failure = 'x'"};

TEST_CASE("a changed number in one of many rows is detected when the file is opened") {
  const ScratchDirectory directory;
  for (const char* const change : kChanges) {
    CAPTURE(change);
    const std::string path = directory.File(absl::StrCat(StableHash(change), ".db"));
    FillDatabase(path, 20);
    REQUIRE(
        SqliteConnection::Open(path, SqliteAccess::kReadWrite)
            ->RunScript(absl::StrCat("UPDATE measurements SET ", change, " WHERE operation = 7"))
            .ok());
    const std::string before = ReadText(path);
    const absl::Status read = OpenProfileToRead(path).status();
    CHECK(absl::IsDataLoss(read));
    CHECK(read.message().find("does not match its checksum") != absl::string_view::npos);
    CHECK(ReadText(path) == before);
    CheckBegunAnew(path, "does not match its checksum");
  }
  const std::string path = directory.File("names.db");
  for (const char* const change :
       {"systems SET versions = 'cudnn 8'", "operations SET text = 'conv' WHERE id = 7"}) {
    FillDatabase(path, 20);
    REQUIRE(SqliteConnection::Open(path, SqliteAccess::kReadWrite)
                ->RunScript(absl::StrCat("UPDATE ", change))
                .ok());
    CHECK(absl::IsDataLoss(OpenProfileToRead(path).status()));
    std::filesystem::remove(path);
  }
}

TEST_CASE("a number that changes while a database is open is detected when the row is read") {
  const ScratchDirectory directory;
  for (const char* const change : kChanges) {
    CAPTURE(change);
    const std::string path = directory.File(absl::StrCat(StableHash(change), ".db"));
    REQUIRE(OpenDatabase(path).Record("conv", Measured(1, "a")).ok());
    ProfileDatabase early = OpenDatabase(path);
    REQUIRE(SqliteConnection::Open(path, SqliteAccess::kReadWrite)
                ->RunScript(absl::StrCat("UPDATE measurements SET ", change))
                .ok());
    ProfileDatabase mine = OpenDatabase(directory.File("mine.db"));
    CHECK(absl::IsDataLoss(mine.Merge(path).status()));
    CHECK(early.Measurements("conv")->empty());
    REQUIRE(early.notices().size() == 1);
    CHECK(early.notices()[0].find("does not match its checksum: set aside as") !=
          std::string::npos);
    CHECK(early.Record("conv", Measured(1, "a")).ok());
    CHECK(OpenDatabase(path).Measurements("conv")->size() == 1);
  }
}

TEST_CASE("whatever bytes are damaged, no call fails and no row that is returned is wrong") {
  constexpr int kOperations = 100;
  const ScratchDirectory directory;
  FillDatabase(directory.File("whole.db"), kOperations);
  const std::string whole = ReadText(directory.File("whole.db"));
  int noticed = 0;
  for (uint32_t seed = 0; seed < testing::RandomSeeds(100); ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    std::string bytes = whole;
    const size_t count = 1 + random() % (seed % 2 == 0 ? 4 : 400);
    const size_t at = random() % (bytes.size() - count);
    for (size_t i = at; i < at + count; ++i) bytes[i] = static_cast<char>(random());
    const std::string path = directory.File(absl::StrCat(seed, ".db"));
    WriteText(path, bytes);
    ProfileDatabase database = OpenDatabase(path);
    for (int i = 0; i < kOperations; ++i) {
      const auto found = database.Measurements(OperationName(i));
      REQUIRE(found.ok());
      CHECK(found->size() <= 1);
      for (const Measurement& m : *found) CHECK(IsMeasured(m, 1, "a"));
      if (i % 10 == 0) CHECK(database.Record(OperationName(i), Measured(1, "a")).ok());
    }
    CHECK(database.WriteCsv(path + ".csv").ok());
    noticed += database.notices().empty() ? 0 : 1;
    std::filesystem::remove(path + ".set-aside-1");
  }
  CHECK(noticed > 0);
}

TEST_CASE("damage to an open database is detected on use, and calls still succeed") {
  constexpr int kOperations = 3000;  // more than SQLite keeps in memory
  const ScratchDirectory directory;
  const std::string path = directory.File("p.db");
  FillDatabase(path, kOperations);
  ProfileDatabase database = OpenDatabase(path);
  {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    const std::string noise(std::filesystem::file_size(path), '\xa5');
    file.write(noise.data(), static_cast<std::streamsize>(noise.size()));
  }
  for (int i = 0; i < kOperations && database.notices().empty(); ++i) {
    CHECK(database.Measurements(OperationName(i)).ok());
  }
  REQUIRE(database.notices().size() == 1);
  CHECK(database.notices()[0].find("set aside as") != std::string::npos);
  CHECK(database.Record("conv", Measured(1, "a")).ok());
  CHECK(*OpenDatabase(path).Contains("conv", 1, "a"));
}

TEST_CASE("if another process sets the database aside, the new one is used") {
  const ScratchDirectory directory;
  const std::string path = directory.File("p.db");
  ProfileDatabase one = OpenDatabase(path);
  REQUIRE(one.Record("old", Measured(1, "a")).ok());
  for (const char* const suffix : {"-wal", "-shm", ""}) {
    std::filesystem::rename(path + suffix, path + ".set-aside-1" + suffix);
  }
  ProfileDatabase two = OpenDatabase(path);
  REQUIRE(two.Record("conv", Measured(1, "two")).ok());
  REQUIRE(one.Record("conv", Measured(1, "one")).ok());
  CHECK(one.notices().size() == 1);
  CHECK(two.notices().empty());
  CHECK(*two.Contains("conv", 1, "one"));
  CHECK(*one.Contains("conv", 1, "two"));
  CHECK_FALSE(*one.Contains("old", 1, "a"));
}

TEST_CASE("programs of two versions do not set aside each other's databases") {
  const ScratchDirectory directory;
  const std::string path = directory.File("p.db");
  ProfileDatabase database = OpenDatabase(path);
  REQUIRE(database.Record("conv", Measured(1, "a")).ok());
  std::filesystem::rename(path, path + ".set-aside-1");
  REQUIRE(SqliteConnection::Open(path, SqliteAccess::kReadWrite)
              ->RunScript(absl::StrCat("PRAGMA application_id = ", kProfileApplicationId,
                                       "; PRAGMA user_version = 2"))
              .ok());
  const absl::Status status = database.Record("conv", Measured(2, "a"));
  CHECK(absl::IsFailedPrecondition(status));
  CHECK(status.message().find("has schema version 2, not 1") != absl::string_view::npos);
  CHECK_FALSE(std::filesystem::exists(path + ".set-aside-2"));
  std::filesystem::remove(path);
  CHECK(database.Record("conv", Measured(2, "a")).ok());  // it can be used again
}

TEST_CASE("paths that are not files, or not writable, are refused with the path") {
  const ScratchDirectory directory;
  const auto refusal = [](const std::string& path) {
    const absl::Status status = ProfileDatabase::Open(path, {"H200", "cudnn 9"}).status();
    CHECK(status.message().find(path) != absl::string_view::npos);
    return status;
  };
  CHECK(absl::IsInvalidArgument(refusal(directory.path())));
  CHECK(absl::IsInvalidArgument(refusal("/dev/null")));
  WriteText(directory.File("file"), "");
  const absl::Status under_file = refusal(directory.File("file") + "/p.db");
  CHECK_FALSE(under_file.ok());
}

TEST_CASE("a read-only folder and a read-only file are permission errors, and do not change") {
  const ScratchDirectory directory;
  const std::string folder = directory.File("folder");
  const std::string path = folder + "/p.db";
  REQUIRE(std::filesystem::create_directory(folder));
  REQUIRE(OpenDatabase(path).Record("conv", Measured(1, "a")).ok());
  REQUIRE(chmod(directory.path().c_str(), 0755) == 0);
  const auto code = [&](const std::string& file) {
    return Await(Fork([&] {
      constexpr uid_t kNobody = 65534;
      if (geteuid() == 0 && seteuid(kNobody) != 0) return 255;  // root may write anywhere
      return static_cast<int>(ProfileDatabase::Open(file, {"H200", "cudnn 9"}).status().code());
    }));
  };
  const int denied = static_cast<int>(absl::StatusCode::kPermissionDenied);
  REQUIRE(chmod(folder.c_str(), 0555) == 0);
  CHECK(code(path) == denied);
  CHECK(code(folder + "/new.db") == denied);
  CHECK(code(folder + "/new/p.db") == denied);
  REQUIRE(chmod(folder.c_str(), 0777) == 0);
  REQUIRE(chmod(path.c_str(), 0444) == 0);
  REQUIRE(chmod((path + ".lock").c_str(), 0666) == 0);
  CHECK(code(path) == denied);
  REQUIRE(chmod(path.c_str(), 0644) == 0);
  CHECK(*OpenDatabase(path).Contains("conv", 1, "a"));
}

TEST_CASE("paths with links, spaces and special characters work") {
  const ScratchDirectory directory;
  const std::string path = directory.File("a folder?/50% #1.db");
  REQUIRE(OpenDatabase(path).Record("conv", Measured(1, "a")).ok());
  CHECK(std::filesystem::exists(path));
  std::filesystem::create_symlink(path, directory.File("link.db"));
  CHECK(*OpenDatabase(directory.File("link.db")).Contains("conv", 1, "a"));
  CHECK_FALSE(std::filesystem::exists(directory.File("link.db-wal")));
}

TEST_CASE("a file that cannot be trusted is neither merged nor modified") {
  const ScratchDirectory directory;
  ProfileDatabase database = OpenDatabase(directory.File("p.db"));
  CHECK(absl::IsNotFound(database.Merge(directory.File("missing.db")).status()));
  CHECK_FALSE(std::filesystem::exists(directory.File("missing.db")));
  WriteText(directory.File("text.db"), std::string(5000, 't'));
  CHECK(absl::IsDataLoss(database.Merge(directory.File("text.db")).status()));
  FillDatabase(directory.File("other.db"));
  REQUIRE(SqliteConnection::Open(directory.File("other.db"), SqliteAccess::kReadWrite)
              ->RunScript("PRAGMA user_version = 2")
              .ok());
  CHECK(absl::IsFailedPrecondition(database.Merge(directory.File("other.db")).status()));
  FillDatabase(directory.File("cut.db"));
  std::filesystem::resize_file(directory.File("cut.db"), 40'000);
  CHECK(absl::IsDataLoss(database.Merge(directory.File("cut.db")).status()));
  CHECK(std::filesystem::file_size(directory.File("cut.db")) == 40'000);
  CHECK(database.Counts()->rows == 0);
  CHECK(database.notices().empty());
}

TEST_CASE("a database on read-only media can be merged") {
  const ScratchDirectory directory;
  const std::string folder = directory.File("media");
  FillDatabase(folder + "/p.db");
  REQUIRE(chmod(directory.path().c_str(), 0755) == 0);
  REQUIRE(chmod(folder.c_str(), 0555) == 0);
  const std::string mine = directory.File("mine");
  REQUIRE(std::filesystem::create_directory(mine));
  REQUIRE(chmod(mine.c_str(), 0777) == 0);
  CHECK(Await(Fork([&] {
          if (geteuid() == 0 && seteuid(65534) != 0) return 255;
          auto database = ProfileDatabase::Open(mine + "/p.db", {"H200", "cudnn 9"});
          if (!database.ok()) return 1;
          const auto taken = database->Merge(folder + "/p.db");
          return taken.ok() && *taken == 300 ? 0 : 2;
        })) == 0);
  REQUIRE(chmod(folder.c_str(), 0755) == 0);
}

}  // namespace
}  // namespace neap
