// What plans for an absent GPU say where no engines can be listed. The stubs are in tests/stubs.
#include <doctest/doctest.h>

#include <filesystem>
#include <string>

#include "tests/apps/command.h"
#include "tests/environment.h"
#include "tests/skip.h"

namespace neap::testing {
namespace {

// Plans with the stub of this name in the place of cuDNN.
Outcome PlanWith(const std::string& stub) {
  const std::filesystem::path folder =
      std::filesystem::path(CommandPath()).parent_path() / "tests" / stub;
  REQUIRE(std::filesystem::exists(folder / "libcudnn.so.9"));
  const Environment libraries("LD_LIBRARY_PATH", folder.c_str());
  return RunNeap({"plan", "lenet", "--device", "h200", "--database", "none"});
}

TEST_CASE("where cuDNN cannot be used, a plan has placeholders for engines, and says why") {
  if (!KnowsEnginesOfH200()) return SkipCase("there is no cuDNN here");
  const Outcome old = PlanWith("old_cudnn");
  CHECK_MESSAGE(old.exit_code == 0, old.err);
  CHECK(
      old.out.find("placeholders, one for each step, without workspace: there is no cuDNN here to "
                   "list those of NVIDIA H200 (the cuDNN found is version 90500; 90800 or newer "
                   "is needed)\n") != std::string::npos);
  const Outcome incomplete = PlanWith("incomplete_cudnn");
  CHECK_MESSAGE(incomplete.exit_code == 0, incomplete.err);
  CHECK(incomplete.out.find(" (libcudnn.so.9 has no cudnnCreate, ") != std::string::npos);
}

TEST_CASE("what needs no GPU does not look for cuDNN") {
  const Environment libraries("LD_DEBUG", "libs");
  const Outcome trained =
      RunNeap({"train", "lenet", "--device", "cpu", "--batch", "2", "--steps", "1"});
  CHECK(trained.exit_code == 0);
  CHECK(trained.err.find("libm.so") != std::string::npos);
  for (const char* library : {"libcudnn", "libcublas"})
    CHECK(trained.err.find(library) == std::string::npos);
}

}  // namespace
}  // namespace neap::testing
