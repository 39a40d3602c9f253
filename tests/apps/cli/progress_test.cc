#include "apps/cli/progress.h"

#include <doctest/doctest.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "neap/layers/profile/sqlite.h"
#include "tests/apps/command.h"
#include "tests/skip.h"

namespace neap::testing {
namespace {

using std::chrono::seconds;
using Args = std::vector<std::string>;

// Of steps that take `each`, after how many a log has a line.
std::vector<int64_t> LoggedOf(int64_t total, std::chrono::milliseconds each) {
  apps::LogPace pace;
  apps::LogPace::Time now = {};
  std::vector<int64_t> logged;
  for (int64_t done = 0; done <= total; ++done, now += each) {
    if (pace.IsDue(done, total, now)) logged.push_back(done);
  }
  return logged;
}

TEST_CASE("a log has a line for each tenth of slow work, and else for every half minute") {
  const std::vector<int64_t> tenths = {0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20};
  CHECK(LoggedOf(20, seconds(3600)) == tenths);
  CHECK(LoggedOf(20, seconds(15)) == tenths);
  CHECK(LoggedOf(100, seconds(1)) == std::vector<int64_t>{0, 30, 60, 90});
  CHECK(LoggedOf(3, seconds(60)) == std::vector<int64_t>{0, 1, 2, 3});
  CHECK(LoggedOf(100000, std::chrono::milliseconds(0)) == std::vector<int64_t>{0});
  CHECK(LoggedOf(0, seconds(1)) == std::vector<int64_t>{0});
}

TEST_CASE("progress is one line on a terminal, and in a log its first and its last") {
  const ScratchDirectory directory;
  const auto command = [&](const std::string& database) -> std::vector<std::string> {
    return {"profile",     "lenet",     "--device",   "cpu",
            "--batch",     "2",         "--samples",  "1",
            "--divisions", "undivided", "--database", directory.File(database)};
  };
  const Outcome logged = RunNeap(command("log.db"));
  REQUIRE(logged.exit_code == 0);
  CHECK(logged.err.find('\r') == std::string::npos);
  CHECK(logged.err.starts_with("profile lenet: 0/"));
  CHECK(std::count(logged.err.begin(), logged.err.end(), '\n') == 2);
  const std::string last = logged.err.substr(logged.err.find('\n') + 1);
  const size_t steps = last.find('/');
  REQUIRE(steps != std::string::npos);
  const std::string total = last.substr(steps + 1, last.find(' ', steps) - steps - 1);
  CHECK(last.starts_with("profile lenet: " + total + "/" + total + " steps, "));

  if (!HasTerminals()) return SkipCase("no pseudo-terminals");
  const Outcome shown = Process::StartOnTerminal(command("terminal.db")).Wait();
  REQUIRE(shown.exit_code == 0);
  CHECK(shown.err.starts_with("\rprofile lenet [................................] 0/" + total));
  CHECK(shown.err.find("\rprofile lenet [################................] ") != std::string::npos);
  CHECK(shown.err.find("\rprofile lenet [################################] " + total + "/" +
                       total) != std::string::npos);
  CHECK(std::count(shown.err.begin(), shown.err.end(), '\n') == 1);
  CHECK(shown.err.ends_with('\n'));
  CHECK(shown.out.find("terminal.db: ") != std::string::npos);
}

TEST_CASE("a progress line is shorter than the terminal, so that it can be overwritten") {
  if (!HasTerminals()) return SkipCase("no pseudo-terminals");
  constexpr uint16_t kColumns = 48;
  const std::vector<std::string> command = {"bench",     "workspace", "lenet",      "--plan-only",
                                            "--device",  "cpu",       "--budgets",  "256MiB",
                                            "--batches", "4,8",       "--database", "none"};
  const Outcome outcome = Process::StartOnTerminal(command, kColumns).Wait();
  REQUIRE(outcome.exit_code == 0);
  const std::vector<std::string> shown = absl::StrSplit(outcome.err, absl::ByAnyChar("\r\n"));
  CHECK(shown.size() > 3);
  for (const std::string& line : shown) CHECK(line.size() < kColumns);
}

TEST_CASE("a search shows what it tries on a terminal, and nothing of it is left") {
  const Args search = {"peak-batch", "lenet", "--device", "cpu", "--budget", "8MiB"};
  CHECK(RunNeap(search).err.empty());
  if (!HasTerminals()) return SkipCase("no pseudo-terminals");
  const Outcome shown = Process::StartOnTerminal(search).Wait();
  REQUIRE(shown.exit_code == 0);
  CHECK(shown.err.starts_with("\rpeak-batch lenet: "));
  CHECK(shown.err.find("\rpeak-batch lenet: trying batch 2; batch 1 fits the budget\r") !=
        std::string::npos);
  CHECK(shown.err.find("\rpeak-batch lenet: planning batch ") != std::string::npos);
  CHECK(shown.err.find('\n') == std::string::npos);
  const size_t last = shown.err.rfind('\r', shown.err.size() - 2);
  CHECK(shown.err.ends_with('\r'));
  CHECK(shown.err.find_first_not_of(' ', last + 1) == shown.err.size() - 1);
}

TEST_CASE("a curve shows how far it is and the best speed so far, and nothing of it is left") {
  const Args curve = {"plan",    "resnet-cifar", "--depth", "8",          "--image",
                      "8",       "--channels",   "1",       "--device",   "cpu",
                      "--curve", "--policy",     "auto",    "--database", "none"};
  CHECK(RunNeap(curve).err.empty());
  if (!HasTerminals()) return SkipCase("no pseudo-terminals");
  const Outcome shown = Process::StartOnTerminal(curve).Wait();
  REQUIRE(shown.exit_code == 0);
  CHECK(shown.err.starts_with("\rplan resnet8: plan 1 of at most "));
  CHECK(shown.err.find(", auto in ") != std::string::npos);
  CHECK(shown.err.find(" images/s so far") != std::string::npos);
  CHECK(shown.err.find('\n') == std::string::npos);
  CHECK(shown.err.ends_with('\r'));
}

TEST_CASE("an error while progress is shown begins on a new line") {
  if (!HasTerminals()) return SkipCase("no pseudo-terminals");
  const ScratchDirectory directory;
  const std::string database = directory.File("profile.db");
  const std::vector<std::string> net = {"lenet", "--device", "cpu", "--database", database};
  RunForJson(
      Joined({"profile", "--batch", "16", "--samples", "1", "--divisions", "undivided"}, net));
  std::vector<int> batches(16);
  std::iota(batches.begin(), batches.end(), 1);
  Process process = Process::StartOnTerminal(
      Joined({"bench", "workspace", "--plan-only", "--budgets", "256MiB", "--limits", "1KiB",
              "--batches", absl::StrJoin(batches, ",")},
             net));
  process.AwaitErrors("] 0/64 plans");
  process.Signal(SIGSTOP);  // some operations, of pooling, are those of 16 images alone
  REQUIRE(SqliteConnection::Open(database, SqliteAccess::kReadWrite)
              ->RunScript("UPDATE measurements SET median_seconds = 1e-9")
              .ok());
  process.Signal(SIGCONT);
  const Outcome outcome = process.Wait();
  CHECK(outcome.exit_code == 0);
  CHECK(outcome.err.find("\nneap: continuing without some of the measured times: " + database) !=
        std::string::npos);
}

}  // namespace
}  // namespace neap::testing
