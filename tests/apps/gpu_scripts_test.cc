// scripts/gpu_*.sh where a stopped command stands in for `neap`: they need no GPU for that.
#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>

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

// A tree with the scripts, and with stand-ins for what they look for, except `neap`.
fs::path TreeWithScripts(const ScratchDirectory& directory) {
  const fs::path root = directory.path();
  fs::copy(SourceTree() / "scripts", root / "scripts");
  WriteProgram(root / "bin/nvidia-smi", "echo GPU 0\n");
  WriteProgram(root / "build/deps/cuda/lib/libcudnn.so.9", "");  // so none is looked for
  return root;
}

// The tree, and the environment in which its scripts run `jobs` commands at a time.
struct GpuScripts {
  explicit GpuScripts(const char* jobs_at_a_time) : jobs("JOBS", jobs_at_a_time) {}

  Outcome Run(const std::string& script) const {
    return Process::StartCommand("/bin/bash", {(root / "scripts" / script).string()}).Wait();
  }

  ScratchDirectory directory;
  fs::path root = TreeWithScripts(directory);
  std::string path = (root / "bin").string() + ":" + std::getenv("PATH");
  Environment programs{"PATH", path.c_str()};
  Environment logs{"OUT", nullptr};
  Environment jobs;
};

// Whether the process runs; one that has ended and is not waited for does not.
bool Runs(const std::string& process) {
  std::string status;
  std::getline(std::ifstream("/proc/" + process + "/stat"), status);
  const size_t name_end = status.rfind(')');
  return name_end != std::string::npos && status[name_end + 2] != 'Z';
}

TEST_CASE("a GPU script whose command is stopped prints its output and returns its exit code") {
  const GpuScripts tree("1");
  const fs::path& root = tree.root;
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
      const Outcome outcome = tree.Run(name);
      INFO(outcome.err);
      CHECK(outcome.exit_code == code);
      CHECK(outcome.out.find("done: 3 of 14\n") != std::string::npos);
      const std::string called = ReadText(calls.string());
      CHECK(std::count(called.begin(), called.end(), '\n') == 1);
    }
  }
  CHECK(scripts >= 6);
}

TEST_CASE("a stopped command of gpu_test.sh ends those that run at the same time") {
  const GpuScripts tree("3");
  const fs::path& root = tree.root;
  const std::string calls = (root / "calls").string();
  // The first of three is stopped once the others run.
  WriteProgram(root / "build/bundle/neap",
               "[ $1 = devices ] && exit\necho $$ >>" + calls + "\nmkdir " + calls +
                   ".first 2>/dev/null || exec sleep 300\nwhile [ $(wc -l <" + calls +
                   ") -lt 3 ]; do sleep 0.05; done\nexit 130\n");
  const Outcome outcome = tree.Run("gpu_test.sh");
  INFO(outcome.err);
  CHECK(outcome.exit_code == 130);
  std::istringstream processes(ReadText(calls));
  int started = 0;
  for (std::string process; processes >> process; ++started) {
    for (int waits = 0; waits < 100 && Runs(process); ++waits)
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    CHECK(!Runs(process));
  }
  CHECK(started == 3);
}

TEST_CASE(
    "gpu_test.sh fails for races in neap's kernels, not for libraries', and says what failed") {
  const GpuScripts tree("2");
  const fs::path& root = tree.root;
  WriteProgram(root / "build/bundle/neap", "exit 0\n");
  const std::string summary = "========= RACECHECK SUMMARY: 1 hazard displayed\n";
  struct Report {
    std::string text;
    int exit_code;
    std::string result;
  };
  for (const Report& report :
       {Report{"between Write access at void neap::kernels::Sum<float>(float)\n" + summary, 0,
               "FAILED, compute-sanitizer has found faults (exit code 9)"},
        Report{"between Write access at cudnn::engines::sm90_tma(float)\n" + summary, 0, "ok"},
        Report{"========= Internal Sanitizer Error\n" + summary, 0,
               "FAILED, compute-sanitizer itself has failed"},
        Report{"by itself\n", 0, "FAILED, compute-sanitizer itself has failed"},
        Report{"========= Target application returned an error\n" + summary, 1,
               "FAILED, the command has failed under compute-sanitizer"}}) {
    CAPTURE(report.text);
    WriteProgram(root / "bin/compute-sanitizer", "cat <<'END'\n========= Error: Race reported " +
                                                     report.text + "END\nexit " +
                                                     std::to_string(report.exit_code) + "\n");
    const Outcome outcome = tree.Run("gpu_test.sh");
    const std::string line = "gpu_test: sanitizer_resnet20_fp16_racecheck: " + report.result;
    CHECK(outcome.out.find(line) != std::string::npos);
  }
}

TEST_CASE("gpu_test.sh runs racecheck when nothing else runs") {
  const GpuScripts tree("3");
  const fs::path& root = tree.root;
  const std::string running = (root / "running").string();
  // Each command lists itself while it runs; racecheck fails if another one does.
  const std::string listed = "mkdir -p " + running + "\ntouch " + running + "/$$\nsleep 0.05\n";
  const std::string end = "rm " + running + "/$$\nexit $code\n";
  WriteProgram(root / "build/bundle/neap", "code=0\n" + listed + end);
  WriteProgram(root / "bin/compute-sanitizer",
               "code=0\n" + listed +
                   "echo ERROR SUMMARY: 0 errors\ncase $2 in\nracecheck)\n[ $(ls " + running +
                   " | wc -l) -eq 1 ] || code=1 ;;\nesac\n" + end);
  const Outcome outcome = tree.Run("gpu_test.sh");
  INFO(outcome.out);
  for (const char* net : {"lenet", "resnet50_fp16", "vgg16_parts"}) {
    CHECK(outcome.out.find("sanitizer_" + std::string(net) + "_racecheck: ok") !=
          std::string::npos);
  }
}

TEST_CASE("gpu_test.sh refuses to run no command at a time") {
  const GpuScripts tree("0");
  const fs::path& root = tree.root;
  WriteProgram(root / "build/bundle/neap", "exit 0\n");
  const Outcome outcome = tree.Run("gpu_test.sh");
  CHECK(outcome.exit_code == 2);
  CHECK(outcome.err == "gpu_test: JOBS must be a number of at least 1, not '0'\n");
}

}  // namespace
}  // namespace neap::testing
