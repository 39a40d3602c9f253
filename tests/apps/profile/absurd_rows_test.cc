// Databases whose rows match their checksums and hold what no kernel takes.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "neap/layers/profile/profile_row.h"
#include "neap/layers/profile/sqlite.h"
#include "tests/apps/command.h"
#include "tests/scratch_directory.h"

namespace neap::testing {
namespace {

// Changes every row of a database, and gives it the checksum that it then has.
void ChangeRows(const std::string& path, const std::function<void(Measurement&)>& change) {
  absl::StatusOr<SqliteConnection> connection =
      SqliteConnection::Open(path, SqliteAccess::kReadWrite);
  REQUIRE(connection.ok());
  absl::StatusOr<FoundRows> found = ReadRows(*connection, "failure IS NULL", {});
  REQUIRE(found.ok());
  for (ProfileRow& row : found->rows) {
    change(row.measurement);
    REQUIRE(WriteRow(*connection, row, OnConflict::kReplace).ok());
  }
}

TEST_CASE("absurd numbers in a database are ignored with a warning") {
  const ScratchDirectory directory;
  const std::string good = directory.File("good.db");
  REQUIRE(RunNeap({"profile", "lenet", "--device", "cpu", "--batch", "4", "--samples", "1",
                   "--database", good})
              .exit_code == 0);
  const auto plan = [](const std::string& database) {
    return std::vector<std::string>{"plan",     "lenet", "--batch",    "4",
                                    "--device", "cpu",   "--database", database};
  };
  const std::function<void(Measurement&)> changes[] = {
      [](Measurement& m) { m.median_seconds = 1e7; },
      [](Measurement& m) { m.median_seconds = 1e300; },
      [](Measurement& m) { m.engine.workspace_bytes = std::numeric_limits<int64_t>::max(); },
      [](Measurement& m) { m.median_seconds = std::numeric_limits<double>::infinity(); }};
  // The limits themselves are numbers that a planner must bear.
  const std::function<void(Measurement&)> extremes[] = {
      [](Measurement& m) { m.median_seconds = kMaxMeasuredSeconds; },
      [](Measurement& m) { m.median_seconds = kMinMeasuredSeconds; },
      [](Measurement& m) { m.engine.workspace_bytes = kMaxMeasuredWorkspaceBytes; }};
  for (const auto& change : changes) {
    const std::string bad = directory.File("bad.db");
    std::filesystem::copy_file(good, bad, std::filesystem::copy_options::overwrite_existing);
    ChangeRows(bad, change);
    const Outcome outcome = RunNeap(plan(bad));
    INFO(outcome.err);
    CHECK(outcome.exit_code == 0);
    CHECK(std::count(outcome.err.begin(), outcome.err.end(), '\n') == 1);
    CHECK(outcome.err.find("neap: continuing without some of the measured times: " + bad +
                           ": rows that cannot be right are ignored") == 0);
    const Outcome listed = RunNeap(
        {"profile", "lenet", "--batch", "4", "--list", "--device", "cpu", "--database", bad});
    CHECK(listed.exit_code == 0);
    CHECK(listed.err.find("rows that cannot be right are ignored") != std::string::npos);
  }
  for (const auto& extreme : extremes) {
    const std::string file = directory.File("extreme.db");
    std::filesystem::copy_file(good, file, std::filesystem::copy_options::overwrite_existing);
    ChangeRows(file, extreme);
    const Outcome outcome = RunNeap(plan(file));
    INFO(outcome.err);
    CHECK(outcome.exit_code == 0);
    CHECK(outcome.err == "");
    CHECK(RunNeap(Joined(plan(file), {"--budget", "90%"})).exit_code == 0);
  }
}

TEST_CASE("absurd numbers in single rows neither crash nor stop the division of workspace") {
  const ScratchDirectory directory;
  const std::string path = directory.File("p.db");
  const std::vector<std::string> conv = {"bench",    "conv", "--set",      "resnet20",
                                         "--batch",  "4",    "--limits",   "8MiB",
                                         "--device", "cpu",  "--database", path};
  RunForJson(Joined(conv, {"--samples", "1", "--divisions", "power-of-two"}));
  int row = 0;
  ChangeRows(path, [&](Measurement& m) {
    if (++row % 3 == 0) m.engine.workspace_bytes = int64_t{1} << 62;
    if (row % 5 == 0) m.median_seconds = 1e-300;
    if (row % 7 == 0) m.median_seconds = 1e18;
  });
  const Outcome outcome = RunNeap(Joined(conv, {"--plan-only"}));
  INFO(outcome.err);
  CHECK(outcome.signal == 0);
  const bool is_done = outcome.exit_code == 0;
  CHECK((is_done || outcome.err.find("kernels were not measured") != std::string::npos));
}

}  // namespace
}  // namespace neap::testing
