// Lists of a GPU's engines, which commands keep for the next one.
#include <doctest/doctest.h>

#include <filesystem>
#include <string>

#include "tests/apps/command.h"
#include "tests/scratch_directory.h"
#include "tests/skip.h"

namespace neap::testing {
namespace {

// Without the times of planning itself.
nlohmann::json PlannedWithCache(const std::string& folder) {
  const Outcome outcome =
      Process::StartCommand("/usr/bin/env", {"XDG_CACHE_HOME=" + folder, CommandPath(), "plan",
                                             "lenet", "--device", "h200", "--json"})
          .Wait();
  INFO(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  nlohmann::json plan = nlohmann::json::parse(outcome.out);
  for (const char* const time : {"engines_ms", "planning_ms", "verify_ms"}) plan.erase(time);
  return plan;
}

TEST_CASE("engines that one command has listed are there for the next, which plans the same") {
  if (!KnowsEnginesOfH200()) return SkipCase("this build does not know a GPU's engines");
  const ScratchDirectory directory;
  const std::string file = directory.File("neap/engines.db");
  const nlohmann::json first = PlannedWithCache(directory.path());
  REQUIRE(std::filesystem::exists(file));
  // Only the first has something to keep.
  const std::string bytes = ReadText(file);
  CHECK(bytes.find("eng") != std::string::npos);
  CHECK(PlannedWithCache(directory.path()) == first);
  CHECK(ReadText(file) == bytes);
  // A file that cannot be is none.
  WriteText(directory.File("no_folder"), "");
  CHECK(PlannedWithCache(directory.File("no_folder")) == first);
}

}  // namespace
}  // namespace neap::testing
