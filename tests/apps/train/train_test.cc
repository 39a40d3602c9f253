#include <doctest/doctest.h>
#include <signal.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "tests/apps/command.h"
#include "tests/apps/train/tiny_training.h"

namespace neap::testing {
namespace {

using Json = nlohmann::json;

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

TEST_CASE("the measured peak equals the predicted one for every network, policy and budget") {
  CheckPeaksAgree({"train", "lenet", "--device", "cpu", "--steps", "3"});
  CheckPeaksAgree(Joined(kTiny, {"--steps", "3"}));
  CheckPeaksAgree(Joined(kTiny, {"--steps", "3", "--budget", "60%"}));
  CheckPeaksAgree(Joined(kTiny, {"--steps", "3", "--policy", "keep-all"}));
  CheckPeaksAgree(Joined(kTiny, {"--steps", "3", "--placement", "first-fit", "--no-in-place"}));
}

TEST_CASE("budget, policy and placement do not change the losses") {
  const std::vector<std::string> losses = LossesOf(RunForJson(Joined(kTiny, {"--steps", "8"})));
  CHECK(losses.size() == 8);
  for (const Args& other : {Args{"--budget", "55%"}, Args{"--policy", "keep-all"},
                            Args{"--placement", "exact-fit-first-fit"}, Args{"--no-in-place"}}) {
    CHECK(LossesOf(RunForJson(Joined(Joined(kTiny, {"--steps", "8"}), other))) == losses);
  }
}

TEST_CASE("the text has natural peak, budget, predicted and measured peak, speed and accuracy") {
  const Outcome outcome = RunNeap(
      Joined(kTiny, {"--data", "idx:" + Digits(), "--steps", "4", "--budget", "60%", "--eval"}));
  REQUIRE(outcome.exit_code == 0);
  for (const char* part : {"natural peak", "budget", "predicted peak", "measured peak", "(equal)",
                           "images/s", "kernel times measured", "of 360 images"}) {
    INFO(part);
    CHECK(outcome.out.find(part) != std::string::npos);
  }
  CHECK(outcome.out.find('\r') == std::string::npos);
}

TEST_CASE("progress has the mean loss and accuracy of the epoch so far") {
  const std::vector<Json> lines = RunForJson(Joined(
      kTiny, {"--data", "idx:" + Digits(), "--epochs", "2", "--log-every", "1", "--lr", "0.05"}));
  double loss = 0, correct = 0;
  int64_t steps = 0, epoch = 0;
  for (const Json& line : lines) {
    if (line.at("event") != "step") continue;
    if (line.at("epoch") != epoch) loss = correct = static_cast<double>(steps = 0);
    epoch = line.at("epoch");
    ++steps;
    loss += line.at("loss").get<double>();
    correct += line.at("correct").get<double>();
    CHECK(line.at("mean_loss").get<double>() == doctest::Approx(loss / static_cast<double>(steps)));
    CHECK(line.at("mean_accuracy").get<double>() ==
          doctest::Approx(correct / static_cast<double>(16 * steps)));
  }
  CHECK(epoch == 2);
}

TEST_CASE("without measured times the speed is compared with no prediction") {
  const std::string text = RunNeap(Joined(kTiny, {"--steps", "2", "--database", "none"})).out;
  const size_t predicted = text.find("  predicted        without measured times: 0 of ");
  REQUIRE(predicted != std::string::npos);
  CHECK(text.substr(predicted, text.find('\n', predicted) - predicted).find('%') ==
        std::string::npos);
}

TEST_CASE("the data are named, and what is unexpected of them is said") {
  const auto begin = [](const Args& more) { return RunForJson(Joined(kTiny, more)).front(); };
  const Json digits = begin({"--data", "idx:" + Digits(), "--steps", "1"});
  CHECK(digits.at("data") == "idx:" + Digits() + ", 1437 images of 1x8x8, 10 classes");
  CHECK(digits.at("notices").dump().find("synthetic") == std::string::npos);
  const Json noise = begin({"--steps", "1"});
  CHECK(noise.at("data") == "synthetic, 50000 images of 1x8x8, 10 classes");
  CHECK(noise.at("notices").dump().find("synthetic images are noise") != std::string::npos);
  const Args few = {"--data", "idx:" + Digits(), "--batch", "1500", "--epochs", "1"};
  CHECK(begin(few).at("notices").dump().find("a step takes 1500 images, more than the 1437 of an "
                                             "epoch; --batch 1437") != std::string::npos);
}

TEST_CASE("the end names the commands that evaluate, predict and continue, which run as they are") {
  const ScratchDirectory directory;
  const std::string saved = directory.File("c.safetensors");
  const std::string text =
      RunNeap(Joined(kTiny, {"--data", "idx:" + Digits(), "--steps", "2", "--save", saved})).out;
  for (const char* what : {"  to evaluate      ", "  to predict       "}) {
    const size_t begin = text.find(what + CommandPath() + " ");
    REQUIRE(begin != std::string::npos);
    const size_t words = begin + std::string(what).size() + CommandPath().size() + 1;
    Args args;
    std::istringstream line(text.substr(words, text.find('\n', words) - words));
    for (std::string word; line >> word;) args.push_back(word);
    const Outcome outcome = RunNeap(Joined(args, {"--device", "cpu"}));
    CHECK_MESSAGE(outcome.exit_code == 0, outcome.err);
  }
  CHECK(text.find("  to train on      the same command with --resume " + saved) !=
        std::string::npos);
}

TEST_CASE("a run that saves nothing says so at its start") {
  const ScratchDirectory directory;
  const std::string note =
      "the weights are not saved: --save FILE or --weights-out FILE keeps them";
  const auto notices = [](const Args& more) {
    return RunForJson(Joined(Joined(kTiny, {"--steps", "1"}), more)).front().at("notices").dump();
  };
  CHECK(notices({}).find(note) != std::string::npos);
  CHECK(notices({"--save", directory.File("c")}).find(note) == std::string::npos);
  CHECK(notices({"--weights-out", directory.File("w")}).find(note) == std::string::npos);
  CHECK(RunNeap(Joined(kTiny, {"--steps", "1"})).out.find("  note             " + note) !=
        std::string::npos);
}

TEST_CASE("progress lines have the epoch, the learning rate and the remaining time") {
  // 1437 images: 89.8 batches of 16.
  const Args digits =
      Joined(kTiny, {"--data", "idx:" + Digits(), "--epochs", "2", "--log-every", "1", "--lr",
                     "0.5", "--lr-schedule", "step", "--lr-period", "100"});
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

  const Args repeated = Joined(kTiny, {"--steps", "1", "--repeat-batch"});
  CHECK(RunForJson(repeated).at(1).at("epoch").is_null());
  CHECK(RunNeap(repeated).out.find("epoch") == std::string::npos);
}

TEST_CASE("with a budget the text has what is moved and recomputed to fit, and the slowdown") {
  const Args moving = Joined(kTiny, {"--steps", "1", "--policy", "superneurons", "--budget",
                                     "1100KiB", "--host-budget", "1GiB"});
  const Json moved = RunForJson(moving).front().at("fit");
  CHECK(moved.at("offloaded_bytes") > 0);
  CHECK(moved.at("prefetched_bytes") > 0);
  CHECK(moved.at("slowdown").get<double>() ==
        doctest::Approx(moved.at("predicted_ms").get<double>() /
                        moved.at("predicted_ms_unlimited").get<double>()));
  CHECK(moved.at("slowdown") >= 1);
  CHECK(RunNeap(moving).out.find(" to the host, ") != std::string::npos);

  const Args rebuilding = Joined(kTiny, {"--steps", "1", "--policy", "chen", "--budget", "1GiB"});
  const Json rebuilt = RunForJson(rebuilding).front().at("fit");
  CHECK(rebuilt.at("extra_forwards") > 0);
  CHECK(rebuilt.at("slowdown") > 1);
  CHECK(RunNeap(rebuilding).out.find(" forward steps run again; predicted ") != std::string::npos);

  const Args roomy = Joined(kTiny, {"--steps", "1", "--budget", "1GiB"});
  CHECK(RunForJson(roomy).front().at("fit").at("slowdown") == 1);
  const std::string nothing = "  to fit           nothing moves, nothing is run again; predicted ";
  CHECK(RunNeap(roomy).out.find(nothing) != std::string::npos);
  CHECK(RunNeap(roomy).out.find(" ms a step (+0.0% against no budget)\n") != std::string::npos);
  const Args parts = {"train",     "lenet",    "--batch",       "8",       "--data",
                      "synthetic", "--device", "cpu",           "--steps", "1",
                      "--budget",  "1GiB",     "--sub-batches", "2"};
  CHECK(RunForJson(parts).front().at("fit").at("sub_batches") == 2);
  CHECK(RunNeap(parts).out.find("  to fit           the batch in 2 parts; predicted ") !=
        std::string::npos);
  const Args normalised = Joined(kTiny, {"--steps", "1", "--budget", "1GiB", "--sub-batches", "2"});
  CHECK(RunNeap(normalised).err.find("(--batch-norm-in-parts)") != std::string::npos);
  CHECK(RunNeap(Joined(normalised, {"--batch-norm-in-parts"}))
            .out.find("  to fit           the batch in 2 parts, batch norms of each alone; ") !=
        std::string::npos);
  const Args free = Joined(kTiny, {"--steps", "1"});
  CHECK(RunForJson(free).front().at("fit").is_null());
  CHECK(RunNeap(free).out.find("to fit") == std::string::npos);
}

TEST_CASE("the mean speed weighs the last steps like all others") {
  const Json end = RunForJson(Joined(kTiny, {"--steps", "12"})).back();  // ten of them the warm-up
  CHECK(end.at("images_per_second_mean").get<double>() ==
        doctest::Approx(end.at("images_per_second").get<double>()));
}

TEST_CASE("every test image counts once, including those of an incomplete last batch") {
  const ScratchDirectory directory;
  const std::string checkpoint = directory.File("c.safetensors");
  const Args digits = Joined(kTiny, {"--data", "idx:" + Digits(), "--eval", "--steps", "60"});
  const Json trained = RunForJson(Joined(digits, {"--save", checkpoint})).back();
  const Json& evaluation = trained.at("evaluation");
  CHECK(evaluation.at("images") == 360);
  CHECK(evaluation.at("correct") > 180);
  for (const char* batch : {"7", "64", "360", "500"}) {  // no steps are left: this only evaluates
    const Json end = RunForJson(Joined(digits, {"--resume", checkpoint, "--batch", batch})).back();
    CHECK(end.at("steps") == 0);
    CHECK(end.at("evaluation").at("images") == 360);
    CHECK(end.at("evaluation").at("correct") == evaluation.at("correct"));
  }
}

TEST_CASE("a network that labels pixels is trained and tested on synthetic ones") {
  const Args unet = {"train", "unet",    "--image", "16",       "--batch",
                     "2",     "--steps", "2",       "--device", "cpu"};
  CheckPeaksAgree(unet);
  CHECK(RunNeap(Joined(unet, {"--data", "idx:" + Digits()})).exit_code != 0);
}

TEST_CASE("training on one batch from a file reduces its loss to almost 0") {
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
      RunForJson(Joined(kTiny, {"--batch-file", file, "--steps", "40", "--lr", "0.05"}));
  CHECK(lines.back().at("loss").get<double>() < 0.2);
  CHECK(lines.back().at("loss").get<double>() < lines.at(1).at("loss").get<double>());
}

TEST_CASE("--repeat-batch trains on the first batch of the dataset") {
  const std::vector<std::string> once = LossesOf(RunForJson(Joined(kTiny, {"--steps", "1"})));
  const std::vector<Json> again =
      RunForJson(Joined(kTiny, {"--steps", "20", "--repeat-batch", "--lr", "0.05"}));
  CHECK(LossesOf(again).front() == once.front());
  CHECK(again.back().at("loss").get<double>() < again.at(1).at("loss").get<double>());
}

TEST_CASE("a signal while evaluating ends with the summary, without an accuracy") {
  const Args slow = {"train",  "densenet-cifar",  "--depth", "40",         "--image", "8",
                     "--data", "idx:" + Digits(), "--eval",  "--channels", "1",       "--batch",
                     "2",      "--steps",         "1",       "--device",   "cpu"};
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

}  // namespace
}  // namespace neap::testing
