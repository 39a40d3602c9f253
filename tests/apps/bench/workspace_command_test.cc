#include <doctest/doctest.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "apps/bench/conv_set.h"
#include "apps/bench/workspace_report.h"
#include "neap/core/base/units.h"
#include "neap/core/program/program.h"
#include "neap/core/step/signature_text.h"
#include "neap/layers/cuda/described_catalog.h"
#include "neap/layers/profile/profile_database.h"
#include "neap/nets/registry.h"
#include "tests/apps/command.h"
#include "tests/environment.h"
#include "tests/skip.h"

namespace neap::testing {
namespace {

using Json = nlohmann::json;
using Fields = std::vector<std::string>;

// LeNet on the CPU, in a budget that is too small and one that is not.
struct WorkspaceRuns {
  ScratchDirectory directory;

  std::vector<std::string> Command(const std::vector<std::string>& more) const {
    return Joined(
        {"bench", "workspace", "lenet", "--device", "cpu", "--budgets", "256MiB,64KiB", "--batches",
         "8,4", "--steps", "2", "--database", "none", "--csv", directory.File("workspace.csv")},
        more);
  }
  std::vector<Fields> Csv() const { return ReadCsv(directory.File("workspace.csv")); }
};

constexpr const char* kRules[] = {
    "best", "left-over", "gain", "limit 8.000 MiB", "limit 64.000 MiB", "limit 512.000 MiB"};

TEST_CASE("bench workspace trains every plan that fits, and marks the others") {
  const WorkspaceRuns bench;
  const Json report = RunForJson(bench.Command({})).at(0);
  const Json& runs = report.at("runs");
  REQUIRE(runs.size() == 2 * 2 * 6);
  for (size_t i = 0; i < runs.size(); ++i) {
    CAPTURE(i);
    const Json& run = runs.at(i);
    CHECK(run.at("budget_bytes") == (i < 12 ? 64 << 10 : 256 << 20));
    CHECK(run.at("batch") == (i / 6 % 2 == 0 ? 4 : 8));
    CHECK(run.at("rule") == kRules[i % 6]);
    CHECK(run.at("fits") == (i >= 12));
    if (i < 12) {
      CHECK(run.at("images_per_second").is_null());
      CHECK(run.at("steps").empty());
      continue;
    }
    CHECK(run.at("predicted_images_per_second").get<double>() > 0);
    // On the CPU every rule has one engine, so the plans are equal, and trained once.
    CHECK(run.at("images_per_second").get<double>() > 0);
    CHECK(run.at("images_per_second") == runs.at(i - i % 6).at("images_per_second"));
    REQUIRE(run.at("steps").size() == 5);
    CHECK(run.at("steps").at(0).at("layer") == "conv1");
    CHECK(run.at("steps").at(0).at("phase") == "forward");
  }
}

TEST_CASE("bench workspace writes the same values as CSV and as JSON") {
  const WorkspaceRuns bench;
  const Json report = RunForJson(bench.Command({})).at(0);
  const std::vector<Fields> lines = bench.Csv();
  size_t row = 1;
  for (const Json& run : report.at("runs")) {
    const Fields total = lines.at(row++);
    REQUIRE(total.size() == lines[0].size());
    CHECK(std::stoll(total[0]) == run.at("budget_bytes").get<int64_t>());
    CHECK(std::stoll(total[1]) == run.at("batch").get<int64_t>());
    CHECK(total[2] == run.at("rule").get<std::string>());
    const bool fits = run.at("fits");
    CHECK(total[3].empty() == !fits);
    CHECK(total[4].empty() == !fits);
    CHECK(total[5] == (fits ? run.at("offloaded_bytes").dump() : ""));
    for (const char* unknown : {"offloaded_bytes", "kernels", "measured_kernels"})
      CHECK(run.at(unknown).is_null() == !fits);
    CHECK(total[6].empty());
    for (const Json& step : run.at("steps")) {
      const Fields fields = lines.at(row++);
      REQUIRE(fields.size() == lines[0].size());
      CHECK(std::equal(fields.begin(), fields.begin() + 6, total.begin()));
      CHECK(fields[6] == step.at("layer").get<std::string>());
      CHECK(fields[7] == step.at("phase").get<std::string>());
      CHECK(std::stoll(fields[8]) == step.at("workspace_bytes").get<int64_t>());
      CHECK(fields[9] == step.at("configuration").get<std::string>());
    }
  }
  CHECK(row == lines.size());
}

TEST_CASE("bench workspace's tables have dashes for plans that do not fit, and steps on request") {
  const WorkspaceRuns bench;
  const Outcome plain = RunNeap(bench.Command({"--plan-only"}));
  const Outcome outcome = RunNeap(bench.Command({"--plan-only", "--per-step"}));
  CHECK(outcome.out.starts_with(plain.out));
  CHECK(plain.out.find("conv2") == std::string::npos);
  REQUIRE(outcome.exit_code == 0);
  CHECK(outcome.err.find("24/24 plans") != std::string::npos);
  std::vector<std::string> lines = absl::StrSplit(outcome.out, '\n');
  const auto begins = [&](const std::string& word) {
    return std::count_if(lines.begin(), lines.end(),
                         [&](const std::string& line) { return line.starts_with(word); });
  };
  CHECK(begins("lenet, fp32 nchw, policy superneurons, on ") == 1);
  CHECK(begins("64.000 KiB") == 1);
  CHECK(begins("256.000 MiB") == 1);
  CHECK(begins("workspaces in 256.000 MiB, rule best") == 1);
  CHECK(begins("workspaces in 64.000 KiB") == 0);
  CHECK(begins("conv2 backward_params") == 1);
  CHECK(outcome.out.find("       4                     -                     -") !=
        std::string::npos);
}

TEST_CASE("bench workspace --database none suggests no profile") {
  const WorkspaceRuns bench;
  const std::string none = RunNeap(bench.Command({"--plan-only"})).out;
  CHECK(none.find("neap profile") == std::string::npos);
  CHECK(
      none.ends_with("\nno measured times were read (--database none): predictions come from the "
                     "cost model\n"));
  const std::string folder = bench.directory.path();
  const Environment cache("XDG_CACHE_HOME", folder.c_str());
  const std::string absent = RunNeap({"bench", "workspace", "lenet", "--plan-only", "--device",
                                      "cpu", "--budgets", "256MiB", "--batches", "8,4"})
                                 .out;
  CHECK(
      absent.ends_with(" measures them:\n  neap profile lenet --device cpu --batch 4\n"
                       "  neap profile lenet --device cpu --batch 8\n"));
}

TEST_CASE("the profile that bench workspace suggests measures what its plans lack") {
  const ScratchDirectory directory;
  const std::string database = directory.File("my times.db");
  const std::vector<std::string> small = {"--device",   "cpu",    "--layout",    "nhwc",
                                          "--image",    "20",     "--classes",   "3",
                                          "--database", database, "--divisions", "undivided"};
  RunForJson(Joined({"profile", "lenet", "--batch", "1", "--samples", "1"}, small));
  const std::vector<std::string> bench = Joined(
      {"bench", "workspace", "lenet", "--plan-only", "--budgets", "256MiB", "--batches", "2,3"},
      small);
  const Outcome lacking = RunNeap(bench);
  REQUIRE(lacking.exit_code == 0);
  const std::string quoted = "'" + database + "'";
  int advised = 0;
  for (const auto line : absl::StrSplit(lacking.out, '\n')) {
    if (!absl::StartsWith(line, "  neap profile ")) continue;
    ++advised;
    REQUIRE(absl::StrContains(line, quoted));
    std::vector<std::string> words =
        absl::StrSplit(absl::StrReplaceAll(line, {{quoted, "DATABASE"}}), ' ', absl::SkipEmpty());
    std::replace(words.begin(), words.end(), std::string("DATABASE"), database);
    words.erase(words.begin());
    RunForJson(Joined(words, {"--samples", "1"}));
  }
  CHECK(advised == 2);
  CHECK(RunNeap(bench).out.find("neap profile") == std::string::npos);
}

TEST_CASE("an interrupted bench workspace reports what was completed") {
  if (!HasTerminals()) return SkipCase("no pseudo-terminals");
  const WorkspaceRuns bench;
  for (const std::string form : {"--per-step", "--json"}) {
    // In 64 KiB nothing fits; the first training would take days.
    Process process = Process::StartOnTerminal(bench.Command({"--steps", "1000000", form}));
    process.AwaitErrors("12/24 plans, 256.000 MiB, batch 4, best");
    process.Signal(SIGINT);
    const Outcome outcome = process.Wait();
    CHECK(outcome.exit_code == 130);
    CHECK(bench.Csv().size() == 1 + 12);
    if (form == "--json") {
      const Json report = Json::parse(outcome.out);
      CHECK(report.at("interrupted") == true);
      CHECK(report.at("plans") == 24);
      CHECK(report.at("runs").size() == 12);
    } else {
      CHECK(
          outcome.out.find("\ninterrupted after 12 of 24 plans; run again, the command begins with "
                           "the first\n") != std::string::npos);
    }
  }
}

TEST_CASE("an interrupted table ends with an incomplete row") {
  apps::WorkspaceReport report = {.net = "lenet", .rules = {"best", "gain"}, .plans = 8};
  const auto add = [&](int64_t batch, const std::string& rule, double speed) {
    report.runs.push_back({.budget_bytes = kMiB,
                           .batch = batch,
                           .rule = rule,
                           .speed = apps::Speed{.predicted = speed, .measured = 2 * speed}});
  };
  add(4, "best", 1);
  add(4, "gain", 2);
  add(8, "best", 3);
  const std::string text = ToText(report);
  CHECK(text.find("1.000 MiB\n"
                  "   batch                  best                  gain\n"
                  "       4             2.0 (1.0)             4.0 (2.0)\n"
                  "       8             6.0 (3.0)\n"
                  "\ninterrupted after 3 of 8 plans; ") != std::string::npos);
}

// Two engines for every convolution of LeNet's at this batch, the faster in more workspace.
void WriteLenetTimes(const std::string& path, const std::string& versions, int64_t batch) {
  const Graph graph = nets::Build("lenet", {.batch = batch}).value();
  const std::vector<apps::ConvKernel> kernels =
      apps::ConvolutionsOf(BuildProgram(graph, {}).value());
  ProfileDatabase database =
      ProfileDatabase::Open(path, {.name = "NVIDIA H200", .versions = versions}).value();
  for (const apps::ConvKernel& kernel : kernels) {
    for (const bool fast : {false, true}) {
      const Measurement measurement = {
          .batch = batch,
          .engine = {.id = fast ? "fast" : "slow", .workspace_bytes = fast ? kMiB : 0},
          .median_seconds = fast ? 1e-3 : 2e-3,
          .repeats = 7};
      REQUIRE(database.Record(SignatureText(kernel.signature), measurement).ok());
    }
  }
}

TEST_CASE("a device without its library has the engines that were measured") {
  const absl::StatusOr<std::unique_ptr<EngineCatalog>> catalog = DescribedCatalog("h200");
  if (!(*catalog)->Versions().empty()) return SkipCase("its library is here");
  const ScratchDirectory directory;
  const std::string database = directory.File("h200.db");
  WriteLenetTimes(database, "cuDNN 9", 32);
  const std::vector<std::string> command = {"bench",      "workspace", "lenet",     "--plan-only",
                                            "--database", database,    "--budgets", "256MiB",
                                            "--batches",  "32",        "--limits",  "1KiB"};
  for (const std::vector<std::string>& device :
       {std::vector<std::string>{}, std::vector<std::string>{"--device", "h200"}}) {
    const Json report = RunForJson(Joined(command, device)).at(0);
    CHECK(report.at("device") == "NVIDIA H200");
    CHECK(report.at("versions") == "cuDNN 9");
    CHECK(report.at("interrupted") == false);
    for (const Json& run : report.at("runs")) {
      CHECK(run.at("measured_kernels").get<int64_t>() >= 5);
      for (const Json& step : run.at("steps")) {
        CHECK(step.at("configuration") == (run.at("rule") == "limit 1.000 KiB" ? "slow" : "fast"));
      }
    }
  }
}

TEST_CASE("bench workspace plans for a device that is only described") {
  const Json report =
      RunForJson({"bench", "workspace", "alexnet", "--plan-only", "--device", "h200", "--database",
                  "none", "--budgets", "3GiB", "--batches", "100", "--limits", "8MiB", "--json"})
          .at(0);
  REQUIRE(report.at("runs").size() == 4);
  for (const Json& run : report.at("runs")) {
    CHECK(run.at("fits") == true);
    CHECK(run.at("images_per_second").is_null());
    CHECK(run.at("steps").size() == 14);
  }
}

TEST_CASE("a wrong command line of bench workspace ends with 2") {
  CheckRefused({"bench", "workspace"}, 2, {"NET is missing"});
  CheckRefused({"bench", "workspace", "alexnt", "--plan-only"}, 2, {"'alexnt'", "alexnet"});
  CheckRefused({"bench", "workspace", "lenet", "--budgets", "3GiB,"}, 2, {"--budgets"});
  CheckRefused({"bench", "workspace", "lenet", "--batches", "100,0"}, 2, {"--batches", "'0'"});
  CheckRefused({"bench", "workspace", "lenet", "--policy", "some"}, 2, {"--policy", "chen"});
  CheckRefused({"bench", "workspace", "lenet", "--device", "h200"}, 2, {"h200"});
}

}  // namespace
}  // namespace neap::testing
