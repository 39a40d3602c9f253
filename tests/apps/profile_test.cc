#include <doctest/doctest.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "tests/apps/command.h"
#include "tests/core/scratch_directory.h"

namespace neap::testing {
namespace {

using Json = nlohmann::json;

std::vector<std::string> Profile(const std::string& database) {
  return {"profile", "lenet",     "--device", "cpu",        "--batch",
          "4",       "--samples", "1",        "--database", database};
}

TEST_CASE("a second profile measures nothing, and plans are made by what was measured") {
  const ScratchDirectory directory;
  const std::string database = directory.File("profile.db");
  const Json first = RunForJson(Profile(database)).at(0);
  CHECK(first.at("complete") == true);
  CHECK(first.at("known") == 0);
  CHECK(first.at("failed") == 0);
  CHECK(first.at("measured").get<int>() > first.at("operations").get<int>());
  const Json second = RunForJson(Profile(database)).at(0);
  CHECK(second.at("measured") == 0);
  CHECK(second.at("known") == first.at("measured"));
  const std::vector<std::string> plan = {"plan", "lenet", "--device", "cpu", "--batch", "4"};
  const Json measured = RunForJson(Joined(plan, {"--database", database})).at(0);
  CHECK(measured.at("measured_runs") == measured.at("runs"));
  const Json other_batch = RunForJson(Joined(plan, {"--database", database, "--batch", "8"})).at(0);
  CHECK(other_batch.at("measured_runs").get<int>() < other_batch.at("runs").get<int>());
  CHECK(RunForJson(Joined(plan, {"--database", "none"})).at(0).at("measured_runs") == 0);
}

TEST_CASE("a profile that is killed loses at most the measurement at hand, two at once lose none") {
  const ScratchDirectory directory;
  const std::string database = directory.File("profile.db");
  Process killed = Process::Start(Joined(Profile(database), {"--samples", "40"}));
  while (killed.Running() && !std::filesystem::exists(database))
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  killed.Signal(SIGKILL);
  killed.Wait();
  Process one = Process::Start(Profile(database));
  Process two = Process::Start(Profile(database));
  CHECK(one.Wait().exit_code == 0);
  CHECK(two.Wait().exit_code == 0);
  const Json whole = RunForJson(Profile(database)).at(0);
  CHECK(whole.at("measured") == 0);
  const Json alone = RunForJson(Profile(directory.File("alone.db"))).at(0);
  CHECK(whole.at("known") == alone.at("measured"));
}

TEST_CASE("databases are merged and written as a table without a network") {
  const ScratchDirectory directory;
  const std::string from = directory.File("from.db"), to = directory.File("to.db");
  const Json profiled = RunForJson(Profile(from)).at(0);
  const std::string csv = directory.File("all.csv");
  const Json merged =
      RunForJson({"profile", "--device", "cpu", "--database", to, "--merge", from, "--csv", csv})
          .at(0);
  CHECK(merged.at("merged") == profiled.at("measured"));
  const std::string table = ReadText(csv);
  CHECK(std::count(table.begin(), table.end(), '\n') == profiled.at("measured").get<int>() + 1);
}

TEST_CASE("a database that is none is set aside by who measures, and refused by who plans") {
  const ScratchDirectory directory;
  const std::string path = directory.File("profile.db");
  const std::string text = "this was never a database, whatever its name says";
  std::ofstream(path) << text;
  CheckRefused({"plan", "lenet", "--device", "cpu", "--database", path}, 1, {"profile.db"});
  CHECK(ReadText(path) == text);
  CheckRefused({"plan", "lenet", "--device", "cpu", "--database", directory.File("absent.db")}, 1,
               {"absent.db"});
  CHECK(RunForJson(Profile(path)).at(0).at("complete") == true);
  CHECK(ReadText(path + ".set-aside-1") == text);
}

TEST_CASE("what profile cannot do is said in one line") {
  CheckRefused({"profile"}, 2, {"nothing to do"});
  CheckRefused({"profile", "lenet", "--device", "h200"}, 2, {"h200", "not trained on"});
  CheckRefused({"profile", "lenet", "--divisions", "thirds"}, 2, {"divisions", "thirds"});
  CheckRefused({"profile", "--device", "cpu", "--merge", "/nowhere/at/all.db"}, 1, {"all.db"});
}

}  // namespace
}  // namespace neap::testing
