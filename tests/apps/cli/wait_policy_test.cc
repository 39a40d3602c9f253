#include "apps/cli/wait_policy.h"

#include <doctest/doctest.h>
#include <signal.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "tests/apps/command.h"
#include "tests/environment.h"
#include "tests/skip.h"

namespace neap::testing {
namespace {

constexpr char kSpinCount[] = "GOMP_SPINCOUNT = ";

// What libgomp says of itself, in each of the processes that loaded it: how often its threads turn
// round before they sleep. Empty for another OpenMP.
std::vector<std::string> SpinCounts(const Outcome& outcome) {
  std::vector<std::string> counts;
  size_t at = outcome.err.find(kSpinCount);
  for (; at != std::string::npos; at = outcome.err.find(kSpinCount, at + 1)) {
    const size_t begin = outcome.err.find('\'', at) + 1;
    counts.push_back(outcome.err.substr(begin, outcome.err.find('\'', begin) - begin));
  }
  return counts;
}

TEST_CASE("the command's OpenMP threads sleep while they wait, unless the user sets a policy") {
  const Environment shown("OMP_DISPLAY_ENV", "verbose");
  const Environment no_policy("OMP_WAIT_POLICY", nullptr), no_count("GOMP_SPINCOUNT", nullptr);
  const Outcome asleep = RunNeap({"--version"});
  CHECK(asleep.exit_code == 0);
  CHECK(asleep.out.starts_with("neap "));
  if (SpinCounts(asleep).empty()) return SkipCase("OpenMP is not libgomp's");
  CHECK(SpinCounts(asleep).size() == 2);
  CHECK(SpinCounts(asleep).back() == "0");
  {
    const Environment chosen("GOMP_SPINCOUNT", "123");
    CHECK(SpinCounts(RunNeap({"--version"})) == std::vector<std::string>{"123"});
  }
  const Environment active("OMP_WAIT_POLICY", "active");
  const std::vector<std::string> spinning = SpinCounts(RunNeap({"--version"}));
  CHECK(spinning.size() == 1);
  CHECK(spinning.front() != "0");
}

TEST_CASE("the command keeps its arguments and its name when it starts itself again") {
  const Environment no_policy("OMP_WAIT_POLICY", nullptr), no_count("GOMP_SPINCOUNT", nullptr);
  const std::string odd = "no such 'network'  \"\\";
  CheckRefused({"plan", odd}, 2, {odd});
  CheckRefused({"plan", ""}, 2, {"''"});
  Process training = Process::Start({"train", "lenet", "--device", "cpu", "--steps", "1000000"});
  while (training.Running() && training.Output().find("step 1/") == std::string::npos)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  const std::string process = "/proc/" + std::to_string(training.id());
  CHECK(ReadText(process + "/comm") ==
        std::filesystem::path(CommandPath()).filename().string() + "\n");
  CHECK(ReadText(process + "/environ").find("OMP_WAIT_POLICY=passive") != std::string::npos);
  training.Signal(SIGKILL);
  training.Wait();
}

TEST_CASE("the command can be run by the dynamic loader") {
  const Environment no_policy("OMP_WAIT_POLICY", nullptr), no_count("GOMP_SPINCOUNT", nullptr);
  const std::string loader = "/lib64/ld-linux-x86-64.so.2";
  if (!std::filesystem::exists(loader)) return SkipCase("there is no " + loader);
  const Outcome outcome = Process::StartCommand(loader, {CommandPath(), "--version"}).Wait();
  CHECK(outcome.exit_code == 0);
  CHECK(outcome.out == RunNeap({"--version"}).out);
}

}  // namespace
}  // namespace neap::testing
