#include <doctest/doctest.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "neap/core/program/passes.h"
#include "neap/core/step/signature_text.h"
#include "neap/layers/cpu/cpu_device.h"
#include "neap/layers/cuda/described_catalog.h"
#include "neap/layers/profile/profile_database.h"
#include "neap/layers/profile/profiled_timings.h"
#include "neap/memory/planner.h"
#include "neap/nets/registry.h"
#include "tests/apps/command.h"
#include "tests/environment.h"
#include "tests/scratch_directory.h"

namespace neap::testing {
namespace {

using Json = nlohmann::json;
using Args = std::vector<std::string>;

// Measures whole batches only, which is enough for most tests.
std::vector<std::string> Profile(const std::string& database) {
  return {"profile",     "lenet",     "--device",  "cpu", "--batch",    "2",
          "--divisions", "undivided", "--samples", "1",   "--database", database};
}

TEST_CASE("a second profile measures nothing, and plans are made by what was measured") {
  const ScratchDirectory directory;
  const std::string database = directory.File("profile.db");
  const std::vector<std::string> profile = Joined(Profile(database), {"--divisions", "all"});
  const Json first = RunForJson(profile).at(0);
  CHECK(first.at("interrupted") == false);
  CHECK(first.at("known") == 0);
  CHECK(first.at("failed") == 0);
  CHECK(first.at("measured").get<int>() > first.at("operations").get<int>());
  const Json second = RunForJson(profile).at(0);
  CHECK(second.at("measured") == 0);
  CHECK(second.at("known") == first.at("measured"));
  const std::vector<std::string> plan = {"plan", "lenet", "--device", "cpu", "--batch", "2"};
  const Json measured = RunForJson(Joined(plan, {"--database", database})).at(0);
  CHECK(measured.at("measured_runs") == measured.at("runs"));
  const Json other_batch =
      RunForJson(Joined(plan, {"--database", database, "--batch", "8", "--per-step"})).at(0);
  CHECK(other_batch.at("measured_runs").get<int>() < other_batch.at("runs").get<int>());
  const Json& steps = other_batch.at("per_step");
  CHECK(std::count_if(steps.begin(), steps.end(), [](const Json& step) {
          return step.at("measured").get<bool>();
        }) == other_batch.at("measured_runs").get<int>());
  CHECK(RunForJson(Joined(plan, {"--database", "none"})).at(0).at("measured_runs") == 0);
}

TEST_CASE("the steps of another optimizer are measured, too") {
  const ScratchDirectory directory;
  const std::string database = directory.File("profile.db");
  const Args optimizer = {"--optimizer", "adamw", "--clip-norm", "1", "--ema", "0.9"};
  const Args plan = {"plan", "lenet", "--device", "cpu", "--batch", "2", "--database", database};
  CHECK(RunForJson(Profile(database)).at(0).at("failed") == 0);
  const Json before = RunForJson(Joined(plan, optimizer)).at(0);
  CHECK(before.at("measured_runs").get<int>() < before.at("runs").get<int>());
  CHECK(RunForJson(Joined(Profile(database), optimizer)).at(0).at("failed") == 0);
  const Json after = RunForJson(Joined(plan, optimizer)).at(0);
  CHECK(after.at("measured_runs") == after.at("runs"));
  CheckRefused(Joined(Profile(database), {"--optimizer", "adamw", "--momentum", "0.9"}), 2,
               {"--momentum needs --optimizer sgd"});
}

TEST_CASE("a killed profile loses at most one measurement, two concurrent profiles lose none") {
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

TEST_CASE("plans of evaluation programs use measured times too") {
  const std::unique_ptr<CpuDevice> device = CpuDevice::Open().value();
  for (const bool is_lenet : {true, false}) {
    const std::string net = is_lenet ? "lenet" : "resnet-cifar";
    CAPTURE(net);
    const ScratchDirectory directory;
    const std::string path = directory.File("profile.db");
    std::vector<std::string> command = {"profile",     net,         "--device",   "cpu",
                                        "--batch",     "2",         "--samples",  "1",
                                        "--divisions", "undivided", "--database", path};
    nets::NetOptions options = {.batch = 2};
    if (!is_lenet) {
      command = Joined(command, {"--depth", "8", "--image", "8"});
      options.depth = 8;
      options.image = 8;
    }
    CHECK(RunForJson(command).at(0).at("interrupted") == false);
    const Program program =
        Lower(nets::Build(net, options).value(), {.mode = Mode::kInference}, device->description())
            .value();
    ProfileDatabase database = ProfileDatabase::OpenToRead(
                                   path, {device->description().name, device->backend().Versions()})
                                   .value();
    PlannerOptions planning;
    planning.kernels.timings = std::make_shared<ProfiledTimings>(std::move(database));
    const PlanResult result =
        MakePlan(program, planning, device->description(), device->backend()).value();
    CHECK(!result.costs.compute_seconds.empty());
    CHECK(result.stats.measured_runs == std::ssize(result.costs.compute_seconds));
  }
}

// Of the list, engines that have a time.
int CountTimed(const Json& list) {
  int count = 0;
  for (const Json& kernel : list.at("kernels")) {
    for (const Json& engine : kernel.at("engines"))
      count += engine.at("median_ms").is_null() ? 0 : 1;
  }
  return count;
}

TEST_CASE("--list prints a network's engines with the measured times and measures none") {
  const ScratchDirectory directory;
  const std::string database = directory.File("profile.db");
  const std::vector<std::string> list = {"profile", "lenet", "--list",     "--device", "cpu",
                                         "--batch", "2",     "--database", database};
  CheckRefused(list, 1, {"profile.db"});  // who names a file wants it read
  RunForJson({"profile", "lenet", "--device", "cpu", "--batch", "1", "--samples", "1",
              "--divisions", "undivided", "--database", database});
  const Json before = RunForJson(list).at(0);
  const Json profiled = RunForJson(Profile(database)).at(0);
  const std::string csv = directory.File("engines.csv");
  const Json after = RunForJson(Joined(list, {"--csv", csv})).at(0);
  CHECK(CountTimed(after) > CountTimed(before));
  CHECK(CountTimed(after) - CountTimed(before) == profiled.at("measured").get<int>());
  CHECK(after.at("versions") == profiled.at("versions"));
  CHECK(after.at("kernels").size() == before.at("kernels").size());
  bool found = false;
  size_t lines = 1;
  for (const Json& kernel : after.at("kernels")) {
    double last_ms = 0;
    REQUIRE(!kernel.at("engines").empty());
    for (const Json& engine : kernel.at("engines")) {
      CHECK(engine.at("median_ms").get<double>() >= last_ms);
      CHECK(engine.at("spread").get<double>() >= 0);
      CHECK(engine.at("listed") == true);
      last_ms = engine.at("median_ms");
      ++lines;
    }
    found = found || (kernel.at("name") == "conv2 forward" && kernel.at("batch") == 2 &&
                      kernel.at("engines").size() > 1);
  }
  CHECK(found);
  const std::string table = ReadText(csv);
  CHECK(static_cast<size_t>(std::count(table.begin(), table.end(), '\n')) == lines);
  const std::string text = RunNeap(list).out;
  CHECK(text.find("\nconv2 forward, batch 2: convolution forward training") != std::string::npos);
  CHECK(text.find("deterministic") != std::string::npos);
}

TEST_CASE("--list prints the engines of a device that is only described") {
  const ScratchDirectory directory;
  const std::string path = directory.File("h200.db");
  const std::vector<std::string> list = {"profile", "lenet", "--list", "--device", "h200"};
  const Outcome plain = RunNeap(list);
  CHECK(plain.exit_code == 0);
  CHECK(plain.out.find("NVIDIA H200") != std::string::npos);
  CHECK(plain.out.find("conv1 forward, batch 32") != std::string::npos);
  CHECK(RunForJson(list).at(0).at("engines_known") == KnowsEnginesOfH200());
  CHECK((plain.out.find("\nengines are placeholders, one for each step") == std::string::npos) ==
        KnowsEnginesOfH200());
  const Graph graph = nets::Build("lenet", {.batch = 32}).value();
  const Program program = BuildProgram(graph, {}).value();
  const absl::StatusOr<std::unique_ptr<EngineCatalog>> catalog = DescribedCatalog("h200");
  const bool has_library = !(*catalog)->Versions().empty();
  ProfileDatabase database =
      ProfileDatabase::Open(path, {.name = "NVIDIA H200",
                                   .versions = has_library ? (*catalog)->Versions() : "cuDNN 9"})
          .value();
  const std::string operation = SignatureText(program.Signature(program.steps.front()));
  const auto record = [&](const std::string& engine, double seconds, const std::string& failure) {
    REQUIRE(database
                .Record(operation, {.batch = 32,
                                    .engine = {.id = engine, .deterministic = false},
                                    .median_seconds = seconds,
                                    .spread = seconds > 0 ? 0.01 : 0,
                                    .repeats = seconds > 0 ? 7 : 0,
                                    .failure = failure})
                .ok());
  };
  record("slow", 2e-3, "");
  record("fast", 1e-3, "");
  record("broken", 0, "no such kernel");
  const Json report = RunForJson(Joined(list, {"--database", path})).at(0);
  CHECK(CountTimed(report) == 2);
  CHECK(report.at("engines_known") == true);
  const Json& engines = report.at("kernels").at(0).at("engines");
  CHECK(engines.at(0).at("engine") == "fast");
  CHECK(engines.at(0).at("median_ms") == doctest::Approx(1));
  CHECK(engines.at(0).at("deterministic") == false);
  CHECK(engines.at(0).at("listed") == !has_library);
  CHECK(engines.at(1).at("engine") == "slow");
  CHECK(engines.back().at("failure") == "no such kernel");
  const std::string text = RunNeap(Joined(list, {"--database", path})).out;
  CHECK(text.find("failed: no such kernel\n") != std::string::npos);
  const std::string other = directory.File("cpu.db");  // measured, but not on this device
  RunForJson(Profile(other));
  CHECK(CountTimed(RunForJson(Joined(list, {"--database", other})).at(0)) == 0);
}

TEST_CASE("--list prints engines that add in fp16 on request, listed or measured") {
  const ScratchDirectory directory;
  const std::string path = directory.File("h200.db");
  const Args list = {"profile", "lenet", "--list",     "--device", "h200",
                     "--dtype", "fp16",  "--database", path};
  const Graph graph = nets::Build("lenet", {.batch = 32, .dtype = DType::kFp16}).value();
  const Program program = BuildProgram(graph, {}).value();
  const std::string versions = DescribedCatalog("h200").value()->Versions();
  ProfileDatabase database =
      ProfileDatabase::Open(
          path, {.name = "NVIDIA H200", .versions = versions.empty() ? "cuDNN 9" : versions})
          .value();
  const std::string operation = SignatureText(program.Signature(program.steps.front()));
  for (const char* engine : {"full", "half:measured"}) {
    REQUIRE(database
                .Record(operation, {.batch = 32,
                                    .engine = {.id = engine},
                                    .median_seconds = 1e-3,
                                    .spread = 0.01,
                                    .repeats = 7})
                .ok());
  }
  const auto engines = [&](const Args& flags) {
    std::map<bool, int64_t> count;  // by whether they add in fp16
    const Json report = RunForJson(Joined(list, flags)).at(0);
    for (const Json& engine : report.at("kernels").at(0).at("engines"))
      ++count[engine.at("engine").get<std::string>().starts_with("half:")];
    return count;
  };
  auto without = engines({}), with = engines({"--half-accumulation"});
  CHECK(without[true] == 0);
  CHECK(with[true] >= (KnowsEnginesOfH200() ? 2 : 1));
  CHECK(with[false] == without[false]);
}

TEST_CASE("--list prints engines without times if there is no default database") {
  const ScratchDirectory directory;
  const std::string folder = directory.path();
  const Environment home("HOME", nullptr);
  const std::vector<std::string> list = {"profile", "lenet", "--list", "--device", "cpu"};
  for (const char* const cache : {static_cast<const char*>(nullptr), folder.c_str()}) {
    const Environment place("XDG_CACHE_HOME", cache);
    const Outcome outcome = RunNeap(list);
    CHECK(outcome.exit_code == 0);
    CHECK(outcome.err.starts_with("neap: listing without times: "));
    CHECK(outcome.out.find(", no times\n") != std::string::npos);
    CHECK(outcome.out.find("\nconv2 forward, batch 32: ") != std::string::npos);
    CHECK(RunForJson(list).at(0).at("database").is_null());
  }
}

TEST_CASE("profile counts measurements with a wide spread, unless each has a single sample") {
  const ScratchDirectory directory;
  const std::string csv = directory.File("all.csv"), database = directory.File("one.db");
  const std::vector<std::string> command = {"profile", "lenet", "--device",    "cpu",
                                            "--batch", "1",     "--divisions", "undivided"};
  const Json result = RunForJson(Joined(command, {"--samples", "3", "--csv", csv, "--database",
                                                  directory.File("three.db")}))
                          .at(0);
  const std::vector<std::vector<std::string>> lines = ReadCsv(csv);
  // Counted from the end: the libraries' versions before it have a comma.
  const auto spread = std::find(lines[0].rbegin(), lines[0].rend(), "spread") - lines[0].rbegin();
  const auto wide = std::count_if(lines.begin() + 1, lines.end(), [&](const auto& fields) {
    return std::stod(*(fields.rbegin() + spread)) > 0.1;
  });
  CHECK(result.at("wide_spreads") == wide);

  const std::vector<std::string> once = Joined(command, {"--samples", "1", "--database", database});
  CHECK(RunNeap(once).out.find("\nthe new measurements have one sample each") != std::string::npos);
  CHECK(RunNeap(once).out.find("the new measurements") == std::string::npos);  // there are none
  CHECK(RunForJson(once).at(0).at("wide_spreads").is_null());
}

TEST_CASE("databases are merged and written as a table without a network or a device") {
  const ScratchDirectory directory;
  const std::string from = directory.File("from.db"), to = directory.File("to.db");
  const Json profiled = RunForJson(Profile(from)).at(0);
  const std::string csv = directory.File("all.csv");
  const Json merged =
      RunForJson({"profile", "--database", to, "--merge", from, "--csv", csv}).at(0);
  CHECK(merged.at("merged") == profiled.at("measured"));
  const std::string table = ReadText(csv);
  CHECK(std::count(table.begin(), table.end(), '\n') == profiled.at("measured").get<int>() + 1);
  CHECK(merged.at("rows") == profiled.at("measured"));
  // A device that is not there is not asked for.
  const Outcome again =
      RunNeap({"profile", "--device", "cuda:99", "--database", to, "--merge", from});
  CHECK(again.exit_code == 0);
  CHECK(again.out.find(" rows of all devices; 0 merged\n") != std::string::npos);
}

TEST_CASE("--csv writes a table of an existing database and creates no database") {
  const ScratchDirectory directory;
  const std::string absent = directory.File("typo.db"), csv = directory.File("all.csv");
  CheckRefused({"profile", "--csv", csv, "--database", absent}, 1, {"typo.db"});
  CHECK(!std::filesystem::exists(absent));
  CHECK(!std::filesystem::exists(csv));
  const std::string database = directory.File("profile.db");
  const Json profiled = RunForJson(Profile(database)).at(0);
  CHECK(RunForJson({"profile", "--csv", csv, "--database", database}).at(0).at("rows") ==
        profiled.at("measured"));
  const std::string table = ReadText(csv);
  CHECK(std::count(table.begin(), table.end(), '\n') == profiled.at("measured").get<int>() + 1);
}

TEST_CASE("a file that is not a database is set aside by profile and refused by plan") {
  const ScratchDirectory directory;
  const std::string path = directory.File("profile.db");
  const std::string text = "this was never a database, whatever its name says";
  std::ofstream(path) << text;
  CheckRefused({"plan", "lenet", "--device", "cpu", "--database", path}, 1, {"profile.db"});
  CHECK(ReadText(path) == text);
  CheckRefused({"plan", "lenet", "--device", "cpu", "--database", directory.File("absent.db")}, 1,
               {"absent.db"});
  CHECK(RunForJson(Profile(path)).at(0).at("interrupted") == false);
  CHECK(ReadText(path + ".set-aside-1") == text);
}

TEST_CASE("a time that was changed in the file is no longer used, and plan prints why") {
  const ScratchDirectory directory;
  const std::string path = directory.File("neap/profile.db");
  REQUIRE(RunForJson(Profile(path)).at(0).at("interrupted") == false);
  REQUIRE(SqliteConnection::Open(path, SqliteAccess::kReadWrite)
              ->RunScript("UPDATE measurements SET median_seconds = 1e-9 WHERE operation = 2")
              .ok());
  const std::vector<std::string> plan = {"plan", "lenet", "--batch", "2", "--device", "cpu"};
  const std::string why = "does not match its checksum";
  CheckRefused(Joined(plan, {"--database", path}), 1, {path, why});
  // The default one need not be there, and what it cannot give is done without.
  REQUIRE(setenv("XDG_CACHE_HOME", directory.path().c_str(), 1) == 0);
  const Outcome without = RunNeap(plan);
  unsetenv("XDG_CACHE_HOME");
  CHECK(without.exit_code == 0);
  CHECK(without.err.find("planning without measured times: " + path) != std::string::npos);
  CHECK(without.err.find(why) != std::string::npos);
  CHECK(!std::filesystem::exists(path + ".set-aside-1"));
  const Outcome again = RunNeap(Profile(path));  // measures, so it begins anew
  CHECK(again.exit_code == 0);
  CHECK(again.err.find(why + ": set aside as " + path + ".set-aside-1") != std::string::npos);
}

TEST_CASE("profile refuses what it cannot do in one line") {
  CheckRefused({"profile"}, 2, {"nothing to do"});
  CheckRefused({"profile", "lenet", "--device", "h200"}, 2, {"h200", "not run on"});
  CheckRefused({"profile", "--list"}, 2, {"--list", "network"});
  CheckRefused({"profile", "lenet", "--list", "--merge", "other.db"}, 2, {"--list", "--merge"});
  CheckRefused({"profile", "lenet", "--divisions", "thirds"}, 2, {"divisions", "thirds"});
  CheckRefused({"profile", "--device", "cpu", "--merge", "/nowhere/at/all.db"}, 1, {"all.db"});
}

}  // namespace
}  // namespace neap::testing
