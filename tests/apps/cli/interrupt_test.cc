// Commands that are told to stop, as processes of their own.
#include "apps/cli/interrupt.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "tests/apps/command.h"
#include "tests/skip.h"

namespace neap::testing {
namespace {

using Json = nlohmann::json;

std::vector<std::string> ProfileLenet(const std::string& database) {
  return {"profile",     "lenet",     "--device",  "cpu", "--batch",    "4",
          "--divisions", "undivided", "--samples", "20",  "--database", database};
}

// Longer than what counts as one signal.
void Pause() { std::this_thread::sleep_for(std::chrono::milliseconds(300)); }

std::vector<std::filesystem::path> ThreadsOf(const Process& process) {
  std::vector<std::filesystem::path> threads;
  std::error_code gone;
  const std::string folder = "/proc/" + std::to_string(process.id()) + "/task";
  for (const auto& thread : std::filesystem::directory_iterator(folder, gone))
    threads.push_back(thread.path());
  return threads;
}

// A training that runs until it is ended: it writes its weights, 1.7 MB, into a pipe from which
// nothing is read.
class BlockedTraining {
 public:
  BlockedTraining() {
    const std::string path = directory_.File("weights");
    REQUIRE(mkfifo(path.c_str(), 0600) == 0);
    pipe_ = open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    REQUIRE(pipe_ >= 0);
    process_.emplace(Process::Start({"train", "lenet", "--batch", "4", "--device", "cpu", "--data",
                                     "synthetic", "--steps", "1", "--weights-out", path}));
    pollfd written = {.fd = pipe_, .events = POLLIN, .revents = 0};
    while (process_->Running() && poll(&written, 1, 0) == 0) Pause();
    Pause();  // until the pipe is full
    REQUIRE(process_->Running());
  }
  ~BlockedTraining() { close(pipe_); }
  BlockedTraining(const BlockedTraining&) = delete;
  BlockedTraining& operator=(const BlockedTraining&) = delete;

  Process& process() { return *process_; }

 private:
  ScratchDirectory directory_;
  int pipe_ = -1;
  std::optional<Process> process_;
};

TEST_CASE("the first Ctrl-C is acknowledged at once, the second ends the process") {
  BlockedTraining training;
  Process& process = training.process();
  process.Signal(SIGINT);
  process.Signal(SIGINT);  // as timeout(1) does: still the first
  process.AwaitErrors(kStopping);
  Pause();
  CHECK(process.Running());
  process.Signal(SIGINT);
  const Outcome outcome = process.Wait();
  CHECK(outcome.signal == SIGINT);
  CHECK(outcome.err.ends_with(kStopping));
}

TEST_CASE("a second SIGTERM changes nothing, and Ctrl-C after it ends the process") {
  BlockedTraining training;
  Process& process = training.process();
  process.Signal(SIGTERM);
  process.AwaitErrors(kStopping);
  Pause();
  process.Signal(SIGTERM);
  Pause();
  CHECK(process.Running());
  process.Signal(SIGINT);
  const Outcome outcome = process.Wait();
  CHECK(outcome.signal == SIGINT);
  CHECK(outcome.err.find(kStopping) == outcome.err.rfind(kStopping));
}

// The line of a thread's /proc/PID/task/TID/status that begins with `name`, a mask of signals.
uint64_t MaskOf(const std::filesystem::path& thread, const std::string& name) {
  std::ifstream status(thread / "status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(name)) return std::stoull(line.substr(name.size()), nullptr, 16);
  }
  FAIL("no line " << name);
  return 0;
}

TEST_CASE("signal handlers do not run on threads that compute") {
  BlockedTraining training;
  Process& process = training.process();
  constexpr uint64_t kTaken = uint64_t{1} << (SIGINT - 1) | uint64_t{1} << (SIGTERM - 1);
  int64_t taking = 0;
  for (const std::filesystem::path& thread : ThreadsOf(process)) {
    CHECK((MaskOf(thread, "SigCgt:") & kTaken) == 0);
    taking += (MaskOf(thread, "SigBlk:") & kTaken) == kTaken ? 0 : 1;
  }
  CHECK(taking == 1);
  process.Signal(SIGKILL);
  process.Wait();
}

TEST_CASE("a signal ends a command that does not handle it") {
  for (const int signal : {SIGINT, SIGTERM}) {
    CAPTURE(signal);
    Process process = Process::Start({"peak-depth", "resnet", "--batch", "16", "--budget", "12GiB",
                                      "--policy", "superneurons", "--device", "cpu"});
    Pause();
    process.Signal(signal);
    CHECK(process.Wait().signal == signal);
  }
}

TEST_CASE("an ignored signal stays ignored, and the other one is handled") {
  const ScratchDirectory directory;
  for (const int ignored : {SIGINT, SIGTERM}) {
    CAPTURE(ignored);
    Process process = Process::StartIgnoring(
        ignored, Joined(ProfileLenet(directory.File(std::to_string(ignored) + ".db")),
                        {"--samples", "1000"}));
    process.AwaitErrors("profile lenet: 0/");
    process.Signal(ignored);
    Pause();
    CHECK(process.Running());
    CHECK(process.Errors().find(kStopping) == std::string::npos);
    process.Signal(ignored == SIGINT ? SIGTERM : SIGINT);
    const Outcome outcome = process.Wait();
    CHECK(outcome.exit_code == (ignored == SIGINT ? 143 : 130));
    CHECK(outcome.err.find(kStopping) != std::string::npos);
  }
}

TEST_CASE("an interrupted profile prints how far it came, and the next one continues there") {
  if (!HasTerminals()) return SkipCase("no pseudo-terminals");
  const ScratchDirectory directory;
  const std::string database = directory.File("profile.db");
  const std::vector<std::string> command = ProfileLenet(database);
  Process first = Process::StartOnTerminal(command);
  first.AwaitErrors(" 1/");
  first.Signal(SIGINT);
  const Outcome outcome = first.Wait();
  CHECK(outcome.exit_code == 130);
  CHECK(outcome.err.find("\n" + std::string(kStopping)) != std::string::npos);
  CHECK(outcome.out.find("\ninterrupted after ") != std::string::npos);
  CHECK(outcome.out.ends_with(" steps; run again, the command continues from here\n"));

  Process second = Process::StartOnTerminal(Joined(command, {"--json"}));
  second.AwaitErrors(", 3 engines");
  second.Signal(SIGTERM);
  const Outcome stopped = second.Wait();
  CHECK(stopped.exit_code == 143);
  const Json report = Json::parse(stopped.out);
  CHECK(report.at("interrupted") == true);
  CHECK(report.at("steps_done").get<int>() >= 1);
  CHECK(report.at("steps_done").get<int>() < report.at("steps").get<int>());
  CHECK(report.at("measured").get<int>() >= 3);

  const Json whole = RunForJson(Joined(command, {"--samples", "1"})).at(0);
  CHECK(whole.at("interrupted") == false);
  CHECK(whole.at("steps_done") == whole.at("steps"));
  CHECK(whole.at("known") == report.at("rows"));
}

TEST_CASE("bench conv that is interrupted while it measures says so and writes no table") {
  if (!HasTerminals()) return SkipCase("no pseudo-terminals");
  const ScratchDirectory directory;
  const std::string csv = directory.File("conv.csv");
  const std::vector<std::string> command = {"bench",       "conv",
                                            "--set",       "lenet",
                                            "--batch",     "4",
                                            "--device",    "cpu",
                                            "--database",  directory.File("profile.db"),
                                            "--csv",       csv,
                                            "--chart",     directory.File("conv.svg"),
                                            "--divisions", "undivided",
                                            "--samples"};
  Process process = Process::StartOnTerminal(Joined(command, {"20"}));
  process.AwaitErrors(", 1 engines");
  process.Signal(SIGINT);
  const Outcome outcome = process.Wait();
  CHECK(outcome.exit_code == 130);
  CHECK(outcome.out.starts_with("convolutions of lenet, batch 4"));
  CHECK(outcome.out.ends_with(" steps of measuring; run again, the command continues from here\n"));
  CHECK(!std::filesystem::exists(csv));
  CHECK(!std::filesystem::exists(directory.File("conv.svg")));
  CHECK(RunForJson(Joined(command, {"1"})).at(0).at("interrupted") == false);
}

TEST_CASE("bench conv that is interrupted while it executes reports the completed kernels") {
  if (!HasTerminals()) return SkipCase("no pseudo-terminals");
  const ScratchDirectory directory;
  const std::string csv = directory.File("conv.csv");
  const std::vector<std::string> command = {
      "bench",    "conv", "--set",       "lenet",     "--batch",    "4",
      "--device", "cpu",  "--divisions", "undivided", "--database", directory.File("profile.db")};
  REQUIRE(RunNeap(Joined(command, {"--samples", "1"})).exit_code == 0);
  const std::vector<std::string> slow =
      Joined(command, {"--csv", csv, "--samples", "100", "--json"});
  Process process = Process::StartOnTerminal(slow);
  process.AwaitErrors("] 1/5 kernels");
  process.Signal(SIGINT);
  const Outcome outcome = process.Wait();
  CHECK(outcome.exit_code == 130);
  const Json report = Json::parse(outcome.out);
  CHECK(report.at("interrupted") == true);
  CHECK(report.at("steps_done") == report.at("steps"));
  CHECK(report.at("kernels_asked") == 5);
  const size_t done = report.at("kernels").size();
  CHECK((done >= 1 && done < 5));
  CHECK(report.at("totals").empty());
  CHECK(report.at("workspace_division").is_null());
  CHECK(ReadCsv(csv).size() == 1 + 3 * done);
}

}  // namespace
}  // namespace neap::testing
