// Files that neap train reads and writes: checkpoints, through kill -9 and Ctrl-C, and traces.
#include <doctest/doctest.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/apps/command.h"
#include "tests/apps/train/tiny_training.h"

namespace neap::testing {
namespace {

using Json = nlohmann::json;

// What resuming must reproduce.
Args Resumable(const std::string& checkpoint) {
  return Joined(
      kTiny, {"--data", "idx:" + Digits(), "--augment", "--lr-schedule", "cosine", "--steps", "30",
              "--save", checkpoint, "--save-every", "1", "--log-every", "1"});
}

bool HasBytes(const std::string& path) {
  std::error_code none;
  const uintmax_t size = std::filesystem::file_size(path, none);
  return !none && size > 0;
}

// Kills training after a while, or in the middle of the save after that. Returns whether a save was
// hit and left a half-written file.
bool TrainAndKill(const std::string& checkpoint, std::chrono::microseconds after, bool saving) {
  const std::string half_written = checkpoint + ".tmp";
  if (saving) std::filesystem::remove(half_written);  // the other rounds find what is left of it
  const bool resuming = std::filesystem::exists(checkpoint);
  Process training = Process::Start(
      resuming ? Joined(Resumable(checkpoint), {"--resume", checkpoint}) : Resumable(checkpoint));
  std::this_thread::sleep_for(after);
  // An empty one may also be there for a moment when training starts, to see whether it can be.
  while (saving && training.Running() && !HasBytes(half_written)) {
  }
  training.Signal(SIGKILL);
  const Outcome outcome = training.Wait();
  CHECK(outcome.err.empty());
  return saving && HasBytes(half_written);
}

TEST_CASE("kill -9 at any moment, even while saving, then --resume gives the same final bytes") {
  constexpr int kRounds = 10;
  constexpr int kMaxRounds = 100;
  const ScratchDirectory directory;
  const std::string whole = directory.File("whole.safetensors");
  const std::string broken = directory.File("broken.safetensors");
  const auto start = std::chrono::steady_clock::now();
  REQUIRE(RunNeap(Resumable(whole)).exit_code == 0);
  const auto longest = std::chrono::duration_cast<std::chrono::microseconds>(
      std::chrono::steady_clock::now() - start);

  const unsigned seed = std::random_device()();
  MESSAGE("seed ", seed);
  std::mt19937 random(seed);
  std::uniform_int_distribution<int64_t> moment(0, longest.count() / 2);
  int half_written = 0;
  for (int round = 0; round < kRounds; ++round) {
    const std::chrono::microseconds after(moment(random));
    half_written += TrainAndKill(broken, after, round % 2 == 1) ? 1 : 0;
  }
  // However long a save takes here: one must be hit, in a run with all of them before it.
  for (int round = kRounds; half_written == 0 && round < kMaxRounds; ++round) {
    std::filesystem::remove(broken);
    half_written += TrainAndKill(broken, {}, true) ? 1 : 0;
  }
  MESSAGE("rounds that left a half-written file: ", half_written);
  CHECK(half_written > 0);
  const bool begun = std::filesystem::exists(broken);
  REQUIRE(RunNeap(begun ? Joined(Resumable(broken), {"--resume", broken}) : Resumable(broken))
              .exit_code == 0);
  CHECK(ReadText(broken) == ReadText(whole));
}

TEST_CASE("Ctrl-C finishes the step, saves and exits with 130; resuming continues bit for bit") {
  const ScratchDirectory directory;
  const std::string whole = directory.File("whole.safetensors");
  const std::string stopped = directory.File("stopped.safetensors");
  const auto train = [](const std::string& checkpoint) {
    return Joined(kTiny, {"--steps", "150", "--save", checkpoint, "--log-every", "1"});
  };
  REQUIRE(RunNeap(train(whole)).exit_code == 0);

  Process training = Process::Start(train(stopped));
  while (training.Running() && training.Output().find("step 5/") == std::string::npos) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  training.Signal(SIGINT);
  const Outcome outcome = training.Wait();
  CHECK(outcome.exit_code == 130);
  CHECK(outcome.err == kStopping);
  CHECK(outcome.out.find("interrupted after ") != std::string::npos);
  CHECK(ReadText(stopped) != ReadText(whole));

  REQUIRE(RunNeap(Joined(train(stopped), {"--resume", stopped})).exit_code == 0);
  CHECK(ReadText(stopped) == ReadText(whole));
}

// Starts a training and interrupts it before its first step. The signal must come while the plan is
// made: what is earlier kills the process, what is later lets it take a step. So try again, later
// each time after the former, until it does.
Outcome InterruptBeforeTheFirstStep(const Args& args) {
  constexpr int kMaxTries = 60;
  std::chrono::milliseconds delay(20);
  Outcome outcome;
  for (int i = 0; i < kMaxTries; ++i) {
    Process training = Process::Start(args);
    std::this_thread::sleep_for(delay);
    training.Signal(SIGINT);
    outcome = training.Wait();
    if (outcome.exit_code == 130 && outcome.out.find("after 0 steps") != std::string::npos) break;
    delay = outcome.signal == SIGINT ? delay * 5 / 4 : delay / 2;
  }
  return outcome;
}

TEST_CASE("a run that is interrupted before its first step leaves existing files unchanged") {
  const ScratchDirectory directory;
  const std::string checkpoint = directory.File("c.safetensors");
  const std::string weights = directory.File("w.safetensors");
  // Planning takes a while, a step even longer.
  const Args slow = {"train",   "resnet50", "--device", "cpu",      "--batch",       "2",
                     "--image", "64",       "--budget", "70%",      "--policy",      "superneurons",
                     "--steps", "2",        "--save",   checkpoint, "--weights-out", weights};
  WriteText(weights, "good weights");
  WriteText(checkpoint, "a good checkpoint");
  const Outcome outcome = InterruptBeforeTheFirstStep(slow);
  INFO(outcome.out);
  INFO(outcome.err);
  REQUIRE(outcome.exit_code == 130);
  REQUIRE(outcome.out.find("after 0 steps") != std::string::npos);
  CHECK(ReadText(checkpoint) == "a good checkpoint");
  CHECK(ReadText(weights) == "good weights");
}

TEST_CASE(
    "a resumed run says where it goes on; another seed and a wrong file are refused at once") {
  const ScratchDirectory directory;
  const std::string saved = directory.File("c.safetensors");
  const std::string weights = directory.File("w.safetensors");
  REQUIRE(RunNeap(Joined(kTiny, {"--steps", "3", "--save", saved, "--weights-out", weights}))
              .exit_code == 0);
  const Args resume = Joined(kTiny, {"--steps", "5", "--resume", saved});
  CHECK(RunNeap(resume).out.find("  resumed          after step 3 of 5, from " + saved + "\n") !=
        std::string::npos);
  CHECK(RunForJson(Joined(resume, {"--seed", "1"})).front().at("resumed_step") == 3);
  CheckRefused(Joined(resume, {"--seed", "9"}), 2, {"--seed 9", saved, "with seed 1"});
  // Planning this takes minutes.
  const Args large = {"train", "densenet201", "--budget", "2GiB", "--device", "cpu"};
  CheckRefused(Joined(large, {"--resume", saved}), 1, {saved, "does not belong to this network"});
  CheckRefused(Joined(large, {"--resume", weights}), 1, {weights, "--weights-in"});
  CheckRefused(Joined(large, {"--resume", directory.File("no")}), 1, {"no"});
  CheckRefused(Joined(large, {"--weights-in", weights}), 1, {weights, "does not belong"});
  CheckRefused(Joined(kTiny, {"--depth", "14", "--resume", saved}), 1, {saved, "is missing"});
}

TEST_CASE("a schedule that ends later on a resumed run says how the learning rate goes on") {
  const ScratchDirectory directory;
  const std::string saved = directory.File("c.safetensors");
  const Args args = Joined(kTiny, {"--lr", "0.1", "--lr-schedule", "cosine", "--save", saved});
  REQUIRE(RunNeap(Joined(args, {"--steps", "10"})).exit_code == 0);
  const Args resume = Joined(args, {"--steps", "20", "--resume", saved});
  // Half of a cosine over 20 steps is done after 10.
  CHECK(RunForJson(resume).front().at("notices").back() ==
        "the learning rate goes on at 0.05, where the schedule of " + saved +
            " has 0: its period is 20 steps now, not 10; --lr-period 10 keeps it");
  REQUIRE(RunNeap(Joined(args, {"--steps", "10"})).exit_code == 0);
  CHECK(RunForJson(Joined(resume, {"--lr-period", "10"}))
            .front()
            .at("notices")
            .dump()
            .find("learning rate") == std::string::npos);
}

TEST_CASE("a run with no step left saves the checkpoint that it resumed under another name") {
  const ScratchDirectory directory;
  const std::string first = directory.File("first.safetensors");
  const std::string second = directory.File("second.safetensors");
  REQUIRE(RunNeap(Joined(kTiny, {"--steps", "2", "--save", first})).exit_code == 0);
  REQUIRE(RunNeap(Joined(kTiny, {"--steps", "2", "--resume", first, "--save", second})).exit_code ==
          0);
  CHECK(ReadText(second) == ReadText(first));
}

TEST_CASE("a resumed run keeps the seed of the run that it continues") {
  const ScratchDirectory directory;
  const std::string whole = directory.File("whole.safetensors");
  const std::string half = directory.File("half.safetensors");
  const Args train = Joined(kTiny, {"--lr", "0.02"});
  REQUIRE(RunNeap(Joined(train, {"--seed", "5", "--steps", "6", "--save", whole})).exit_code == 0);
  REQUIRE(RunNeap(Joined(train, {"--seed", "5", "--steps", "3", "--save", half})).exit_code == 0);
  REQUIRE(RunNeap(Joined(train, {"--steps", "6", "--resume", half, "--save", half})).exit_code ==
          0);
  CHECK(ReadText(half) == ReadText(whole));
}

TEST_CASE("--trace-out writes the timeline of one step and compares it with the predicted one") {
  const ScratchDirectory directory;
  const std::string file = directory.File("trace.json");
  const Args steps = Joined(Joined(kTiny, kMoving), {"--steps", "13", "--log-every", "1"});
  const std::vector<Json> lines = RunForJson(Joined(steps, {"--trace-out", file}));
  CHECK(LossesOf(lines) == LossesOf(RunForJson(steps)));
  const Json& timed = lines.back().at("timed_step");
  CHECK(timed.at("step") == 11);
  CHECK(lines.back().at("steps") == 13);
  const Json& measured = timed.at("measured");
  for (const char* field : {"total_us", "compute_us", "d2h_us", "h2d_us", "copying_us"}) {
    CHECK(measured.at(field) > 0);
    CHECK(timed.at("predicted").at(field) > 0);
  }
  CHECK(measured.at("hidden_us") <= measured.at("copying_us"));
  CHECK(measured.at("hidden_both_ways_us") <= measured.at("both_ways_us"));
  double busy_us = 0;
  double end_us = 0;
  const Json trace = Json::parse(ReadText(file));
  for (const Json& event : trace.at("traceEvents")) {
    if (event.at("ph") != "X") continue;
    busy_us += event.at("dur").get<double>();
    end_us = std::max(end_us, event.at("ts").get<double>() + event.at("dur").get<double>());
  }
  CHECK(end_us == doctest::Approx(measured.at("total_us").get<double>()));
  CHECK(busy_us ==
        doctest::Approx(measured.at("compute_us").get<double>() +
                        measured.at("d2h_us").get<double>() + measured.at("h2d_us").get<double>()));
}

TEST_CASE("--trace-out times the last step of a short run, and is bad usage if no step is left") {
  const ScratchDirectory directory;
  const std::string file = directory.File("trace.json");
  const std::string checkpoint = directory.File("c.safetensors");
  const Args traced = {"--steps", "2", "--trace-out", file};
  const Outcome text = RunNeap(Joined(Joined(kTiny, traced), {"--save", checkpoint}));
  REQUIRE(text.exit_code == 0);
  for (const char* part : {"timed step 2", "predicted", "measured", "compute runs"}) {
    INFO(part);
    CHECK(text.out.find(part) != std::string::npos);
  }
  CHECK(text.out.find("d2h runs") == std::string::npos);
  CHECK(Json::parse(ReadText(file)).at("traceEvents").size() > 3);
  const Outcome none = RunNeap(Joined(Joined(kTiny, traced), {"--resume", checkpoint}));
  CHECK(none.exit_code == 2);
  CHECK(none.err.find("--trace-out has no step to time") != std::string::npos);
  const Args beyond = {"--resume", checkpoint, "--steps",  "3",           "--save-every",
                       "1",        "--save",   checkpoint, "--trace-out", file};
  CHECK(RunForJson(Joined(kTiny, beyond)).back().at("timed_step").at("step") == 3);
}

}  // namespace
}  // namespace neap::testing
