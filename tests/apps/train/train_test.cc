#include <doctest/doctest.h>
#include <signal.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/apps/command.h"

namespace neap::testing {
namespace {

using Json = nlohmann::json;
using Args = std::vector<std::string>;

// A ResNet small enough to train a step in milliseconds.
const Args kTiny = {"train", "resnet-cifar", "--depth", "8",        "--image", "8", "--channels",
                    "1",     "--batch",      "16",      "--device", "cpu"};

Args With(Args args, const Args& more) {
  args.insert(args.end(), more.begin(), more.end());
  return args;
}

// "step 3/10  loss 2.5": without the speed, which is never the same.
std::vector<std::string> LossesOf(const std::vector<Json>& lines) {
  std::vector<std::string> losses;
  for (const Json& line : lines) {
    if (line.at("event") == "step") losses.push_back(line.at("loss_text"));
  }
  return losses;
}

void CheckPeaksAgree(const Args& args) {
  const std::vector<Json> lines = RunForJson(args);
  CHECK(lines.front().at("event") == "begin");
  const Json& end = lines.back();
  CHECK(end.at("event") == "end");
  CHECK(end.at("predicted_peak_bytes") == lines.front().at("predicted_peak_bytes"));
  CHECK(end.at("measured_peak_bytes") == end.at("predicted_peak_bytes"));
  CHECK(end.at("peaks_equal") == true);
  if (!lines.front().at("budget_bytes").is_null()) {
    CHECK(end.at("measured_peak_bytes") <= lines.front().at("budget_bytes"));
  }
}

TEST_CASE("the measured peak is the predicted one, whatever the network, policy and budget") {
  CheckPeaksAgree({"train", "lenet", "--device", "cpu", "--steps", "3"});
  CheckPeaksAgree(With(kTiny, {"--steps", "3"}));
  CheckPeaksAgree(With(kTiny, {"--steps", "3", "--budget", "60%"}));
  CheckPeaksAgree(With(kTiny, {"--steps", "3", "--policy", "keep-all"}));
  CheckPeaksAgree(With(kTiny, {"--steps", "3", "--placement", "first-fit", "--no-in-place"}));
}

// Tight enough that copies run in both directions.
const Args kMoving = {"--policy", "offload", "--budget", "80%"};

TEST_CASE("--trace-out writes what one step measured, and sets it against what was predicted") {
  const ScratchDirectory directory;
  const std::string file = directory.File("trace.json");
  const Args steps = With(With(kTiny, kMoving), {"--steps", "13", "--log-every", "1"});
  const std::vector<Json> lines = RunForJson(With(steps, {"--trace-out", file}));
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

TEST_CASE("of a short run the last step is timed; where no step is left, that is bad usage") {
  const ScratchDirectory directory;
  const std::string file = directory.File("trace.json");
  const std::string checkpoint = directory.File("c.safetensors");
  const Args traced = {"--steps", "2", "--trace-out", file};
  const Outcome text = RunNeap(With(With(kTiny, traced), {"--save", checkpoint}));
  REQUIRE(text.exit_code == 0);
  for (const char* part : {"timed step 2", "predicted", "measured", "compute runs"}) {
    INFO(part);
    CHECK(text.out.find(part) != std::string::npos);
  }
  CHECK(text.out.find("d2h runs") == std::string::npos);
  CHECK(Json::parse(ReadText(file)).at("traceEvents").size() > 3);
  const Outcome none = RunNeap(With(With(kTiny, traced), {"--resume", checkpoint}));
  CHECK(none.exit_code == 2);
  CHECK(none.err.find("--trace-out has no step to time") != std::string::npos);
  const Args beyond = {"--resume", checkpoint, "--steps",  "3",           "--save-every",
                       "1",        "--save",   checkpoint, "--trace-out", file};
  CHECK(RunForJson(With(kTiny, beyond)).back().at("timed_step").at("step") == 3);
}

TEST_CASE("budget, policy and placement leave the losses alone") {
  const std::vector<std::string> losses = LossesOf(RunForJson(With(kTiny, {"--steps", "8"})));
  CHECK(losses.size() == 8);
  for (const Args& other : {Args{"--budget", "55%"}, Args{"--policy", "keep-all"},
                            Args{"--placement", "exact-fit-first-fit"}, Args{"--no-in-place"}}) {
    CHECK(LossesOf(RunForJson(With(With(kTiny, {"--steps", "8"}), other))) == losses);
  }
}

TEST_CASE("a person reads natural peak, budget, predicted and measured peak, speed and accuracy") {
  const Outcome outcome = RunNeap(
      With(kTiny, {"--data", "idx:" + Digits(), "--steps", "4", "--budget", "60%", "--eval"}));
  REQUIRE(outcome.exit_code == 0);
  for (const char* part : {"natural peak", "budget", "predicted peak", "measured peak", "(equal)",
                           "images/s", "kernel times measured", "of 360 images"}) {
    INFO(part);
    CHECK(outcome.out.find(part) != std::string::npos);
  }
  CHECK(outcome.out.find('\r') == std::string::npos);
}

TEST_CASE("lines have the epoch, the learning rate and the time that is left") {
  // 1437 images: 89.8 batches of 16.
  const Args digits = With(kTiny, {"--data", "idx:" + Digits(), "--epochs", "2", "--log-every", "1",
                                   "--lr", "0.5", "--lr-schedule", "step", "--lr-period", "100"});
  const std::vector<Json> lines = RunForJson(digits);
  REQUIRE(lines.size() == 1 + 179 + 1);
  for (int64_t step = 1; step <= 179; ++step) {
    CAPTURE(step);
    const Json& line = lines.at(static_cast<size_t>(step));
    CHECK(line.at("step") == step);
    CHECK(line.at("epoch") == ((step - 1) * 16 < 1437 ? 1 : 2));
    CHECK(line.at("learning_rate").get<float>() == (step <= 100 ? 0.5F : 0.05F));
    CHECK((line.at("seconds_left").get<double>() > 0) == (step < 179));
  }
  const std::string text = RunNeap(digits).out;
  CHECK(text.find("step 1/179  epoch 1/2  loss ") != std::string::npos);
  CHECK(text.find("  lr 0.05  ") != std::string::npos);
  CHECK(text.find(" images/s  0 s left  arena ") != std::string::npos);

  const Args repeated = With(kTiny, {"--steps", "1", "--repeat-batch"});
  CHECK(RunForJson(repeated).at(1).at("epoch").is_null());
  CHECK(RunNeap(repeated).out.find("epoch") == std::string::npos);
}

TEST_CASE("with a budget a person reads what is done to fit, and what that costs") {
  const Args moving =
      With(kTiny, {"--steps", "1", "--policy", "superneurons", "--budget", "1100KiB"});
  const Json moved = RunForJson(moving).front().at("fit");
  CHECK(moved.at("offloaded_bytes") > 0);
  CHECK(moved.at("prefetched_bytes") > 0);
  CHECK(moved.at("slowdown").get<double>() ==
        doctest::Approx(moved.at("predicted_ms").get<double>() /
                        moved.at("predicted_ms_unlimited").get<double>()));
  CHECK(moved.at("slowdown") >= 1);
  CHECK(RunNeap(moving).out.find(" to the host, ") != std::string::npos);

  const Args rebuilding = With(kTiny, {"--steps", "1", "--policy", "recompute-memory"});
  const Json rebuilt = RunForJson(rebuilding).front().at("fit");
  CHECK(rebuilt.at("extra_forwards") > 0);
  CHECK(rebuilt.at("slowdown") > 1);
  CHECK(RunNeap(rebuilding).out.find(" forward steps run again; predicted ") != std::string::npos);

  const Args roomy = With(kTiny, {"--steps", "1", "--budget", "1GiB"});
  CHECK(RunForJson(roomy).front().at("fit").at("slowdown") == 1);
  const std::string nothing = "  to fit           nothing moves, nothing is run again; predicted ";
  CHECK(RunNeap(roomy).out.find(nothing) != std::string::npos);
  CHECK(RunNeap(roomy).out.find(" ms a step (+0.0% against no budget)\n") != std::string::npos);
  const Args free = With(kTiny, {"--steps", "1"});
  CHECK(RunForJson(free).front().at("fit").is_null());
  CHECK(RunNeap(free).out.find("to fit") == std::string::npos);
}

TEST_CASE("the mean counts the last steps as it does the others") {
  const Json end = RunForJson(With(kTiny, {"--steps", "12"})).back();  // ten of them the warm-up
  CHECK(end.at("images_per_second_mean").get<double>() ==
        doctest::Approx(end.at("images_per_second").get<double>()));
}

TEST_CASE("every test image counts once, also those of a last batch that is not full") {
  const ScratchDirectory directory;
  const std::string checkpoint = directory.File("c.safetensors");
  const Args digits = With(kTiny, {"--data", "idx:" + Digits(), "--eval", "--steps", "60"});
  const Json trained = RunForJson(With(digits, {"--save", checkpoint})).back();
  CHECK(trained.at("test_images") == 360);
  CHECK(trained.at("correct") > 180);
  for (const char* batch : {"7", "64", "360", "500"}) {  // no steps are left: this only evaluates
    const Json end = RunForJson(With(digits, {"--resume", checkpoint, "--batch", batch})).back();
    CHECK(end.at("steps") == 0);
    CHECK(end.at("test_images") == 360);
    CHECK(end.at("correct") == trained.at("correct"));
  }
}

TEST_CASE("a network that labels pixels is trained and tested on synthetic ones") {
  const Args unet = {"train", "unet",    "--image", "16",       "--batch",
                     "2",     "--steps", "2",       "--device", "cpu"};
  CheckPeaksAgree(unet);
  CHECK(RunNeap(With(unet, {"--data", "idx:" + Digits()})).exit_code != 0);
}

TEST_CASE("a batch from a file is learnt by heart") {
  const ScratchDirectory directory;
  const std::string file = directory.File("batch");
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  std::string bytes;
  const auto append = [&bytes](const auto& value) {
    std::array<char, 4> raw = {};
    std::memcpy(raw.data(), &value, 4);
    bytes.append(raw.data(), 4);
  };
  for (int i = 0; i < 16 * 64; ++i) append(normal(random));
  for (int32_t i = 0; i < 16; ++i) append(i % 10);
  WriteText(file, bytes);
  const std::vector<Json> lines =
      RunForJson(With(kTiny, {"--batch-file", file, "--steps", "40", "--lr", "0.05"}));
  CHECK(lines.back().at("loss").get<double>() < 0.2);
  CHECK(lines.back().at("loss").get<double>() < lines.at(1).at("loss").get<double>());
}

TEST_CASE("--repeat-batch trains on the first batch of the dataset") {
  const std::vector<std::string> once = LossesOf(RunForJson(With(kTiny, {"--steps", "1"})));
  const std::vector<Json> again =
      RunForJson(With(kTiny, {"--steps", "20", "--repeat-batch", "--lr", "0.05"}));
  CHECK(LossesOf(again).front() == once.front());
  CHECK(again.back().at("loss").get<double>() < again.at(1).at("loss").get<double>());
}

// What resuming must reproduce.
Args Resumable(const std::string& checkpoint) {
  return With(kTiny,
              {"--data", "idx:" + Digits(), "--augment", "--lr-schedule", "cosine", "--steps", "30",
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
  Process training = Process::Start(resuming ? With(Resumable(checkpoint), {"--resume", checkpoint})
                                             : Resumable(checkpoint));
  std::this_thread::sleep_for(after);
  // An empty one may also be there for a moment when training starts, to see whether it can be.
  while (saving && training.Running() && !HasBytes(half_written)) {
  }
  training.Signal(SIGKILL);
  const Outcome outcome = training.Wait();
  CHECK(outcome.err.empty());
  return saving && HasBytes(half_written);
}

TEST_CASE("kill -9 at any moment, saving included, then --resume: the same bytes in the end") {
  constexpr int kRounds = 10;
  constexpr int kMostRounds = 100;
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
  for (int round = kRounds; half_written == 0 && round < kMostRounds; ++round) {
    std::filesystem::remove(broken);
    half_written += TrainAndKill(broken, {}, true) ? 1 : 0;
  }
  MESSAGE("rounds that left a half-written file: ", half_written);
  CHECK(half_written > 0);
  const bool begun = std::filesystem::exists(broken);
  REQUIRE(RunNeap(begun ? With(Resumable(broken), {"--resume", broken}) : Resumable(broken))
              .exit_code == 0);
  CHECK(ReadText(broken) == ReadText(whole));
}

TEST_CASE("Ctrl-C finishes the step, saves and exits with 130; resuming continues bit for bit") {
  const ScratchDirectory directory;
  const std::string whole = directory.File("whole.safetensors");
  const std::string stopped = directory.File("stopped.safetensors");
  const auto train = [](const std::string& checkpoint) {
    return With(kTiny, {"--steps", "150", "--save", checkpoint, "--log-every", "1"});
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

  REQUIRE(RunNeap(With(train(stopped), {"--resume", stopped})).exit_code == 0);
  CHECK(ReadText(stopped) == ReadText(whole));
}

// Starts a training and interrupts it before its first step. The signal must come while the plan is
// made: what is earlier kills the process, what is later lets it take a step. So try again, later
// each time after the former, until it does.
Outcome InterruptBeforeTheFirstStep(const Args& args) {
  constexpr int kMostTries = 60;
  std::chrono::milliseconds delay(20);
  Outcome outcome;
  for (int i = 0; i < kMostTries; ++i) {
    Process training = Process::Start(args);
    std::this_thread::sleep_for(delay);
    training.Signal(SIGINT);
    outcome = training.Wait();
    if (outcome.exit_code == 130 && outcome.out.find("after 0 steps") != std::string::npos) break;
    delay = outcome.signal == SIGINT ? delay * 5 / 4 : delay / 2;
  }
  return outcome;
}

TEST_CASE("a run that is interrupted before its first step saves nothing over what was there") {
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

TEST_CASE("a run with no step left saves the checkpoint that it resumed, under another name too") {
  const ScratchDirectory directory;
  const std::string first = directory.File("first.safetensors");
  const std::string second = directory.File("second.safetensors");
  REQUIRE(RunNeap(With(kTiny, {"--steps", "2", "--save", first})).exit_code == 0);
  REQUIRE(RunNeap(With(kTiny, {"--steps", "2", "--resume", first, "--save", second})).exit_code ==
          0);
  CHECK(ReadText(second) == ReadText(first));
}

TEST_CASE("a signal while evaluating ends with the summary, without an accuracy") {
  const Args slow = With(kTiny, {"--data", "idx:" + Digits(), "--eval", "--depth", "110", "--batch",
                                 "2", "--steps", "1"});
  Process training = Process::Start(slow);
  while (training.Running() && training.Output().find("step 1/1") == std::string::npos) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  training.Signal(SIGTERM);
  const Outcome outcome = training.Wait();
  CHECK(outcome.exit_code == 143);
  CHECK(outcome.err == kStopping);
  CHECK(outcome.out.find("interrupted after 1 steps") != std::string::npos);
  CHECK(outcome.out.find("measured peak") != std::string::npos);
  CHECK(outcome.out.find("test accuracy") == std::string::npos);
}

TEST_CASE("a resumed run keeps the seed of the run that it continues") {
  const ScratchDirectory directory;
  const std::string whole = directory.File("whole.safetensors");
  const std::string half = directory.File("half.safetensors");
  const Args train = With(kTiny, {"--lr", "0.02"});
  REQUIRE(RunNeap(With(train, {"--seed", "5", "--steps", "6", "--save", whole})).exit_code == 0);
  REQUIRE(RunNeap(With(train, {"--seed", "5", "--steps", "3", "--save", half})).exit_code == 0);
  REQUIRE(RunNeap(With(train, {"--steps", "6", "--resume", half, "--save", half})).exit_code == 0);
  CHECK(ReadText(half) == ReadText(whole));
}

}  // namespace
}  // namespace neap::testing
