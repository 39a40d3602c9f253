// scripts/gpu_*.sh where a stopped command stands in for `neap`: they need no GPU for that.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/apps/command.h"
#include "tests/environment.h"

namespace neap::testing {
namespace {

namespace fs = std::filesystem;

void WriteProgram(const fs::path& path, const std::string& script) {
  fs::create_directories(path.parent_path());
  std::ofstream(path) << "#!/bin/sh\n" << script;
  fs::permissions(path, fs::perms::owner_all);
}

TEST_CASE("a GPU script whose command is stopped prints its output and returns its exit code") {
  const ScratchDirectory directory;
  const fs::path root = directory.path();
  fs::copy(SourceTree() / "scripts", root / "scripts");
  WriteProgram(root / "bin/nvidia-smi", "echo GPU 0\n");
  WriteProgram(root / "build/deps/cuda/lib/libcudnn.so.9", "");  // so none is looked for
  const std::string path = (root / "bin").string() + ":" + std::getenv("PATH");
  const Environment programs("PATH", path.c_str()), logs("OUT", nullptr), jobs("JOBS", "1");
  int scripts = 0;
  for (const fs::directory_entry& script : fs::directory_iterator(root / "scripts")) {
    const std::string name = script.path().filename();
    if (!name.starts_with("gpu_") || name == "gpu_environment.sh") continue;
    ++scripts;
    for (const int code : {130, 143}) {
      CAPTURE(name);
      const fs::path neap = root / "build/bundle/neap", calls = root / "calls";
      WriteProgram(neap, "[ $1 = devices ] && exit\necho $1 >>" + calls.string() +
                             "\necho done: 3 of 14\nexit " + std::to_string(code));
      fs::remove(calls);
      const Outcome outcome = Process::StartCommand("/bin/bash", {script.path().string()}).Wait();
      INFO(outcome.err);
      CHECK(outcome.exit_code == code);
      CHECK(outcome.out.find("done: 3 of 14\n") != std::string::npos);
      const std::string called = ReadText(calls.string());
      CHECK(std::count(called.begin(), called.end(), '\n') == 1);
    }
  }
  CHECK(scripts >= 6);
}

}  // namespace
}  // namespace neap::testing
