// The flags that change a network's loss.
#include <doctest/doctest.h>

#include <string>

#include "tests/apps/command.h"
#include "tests/apps/train/tiny_training.h"
#include "tests/scratch_directory.h"

namespace neap::testing {
namespace {

using Json = nlohmann::json;

// The network and the data of kTiny for another subcommand.
Args Evaluating(const std::string& weights, const Args& more) {
  Args args = Joined(kTiny, {"--data", "idx:" + Digits(), "--weights", weights});
  args.front() = "eval";
  return Joined(args, more);
}

TEST_CASE("with label smoothing, the losses of training and its evaluation are smoothed") {
  const ScratchDirectory directory;
  const std::string weights = directory.File("digits.safetensors");
  const Args args =
      Joined(kTiny, {"--data", "idx:" + Digits(), "--steps", "20", "--lr", "0.1", "--eval"});
  const std::vector<Json> plain = RunForJson(args);
  const Args smoothed = {"--label-smoothing", "0.4"};
  const std::vector<Json> lines = RunForJson(Joined(Joined(args, smoothed), {"--save", weights}));
  CHECK(LossesOf(lines) != LossesOf(plain));
  const Json reported = lines.back().at("evaluation");
  CHECK(RunForJson(Evaluating(weights, smoothed)).at(0).at("loss") == reported.at("loss"));
  const Json unsmoothed = RunForJson(Evaluating(weights, {})).at(0);
  CHECK(unsmoothed.at("loss") != reported.at("loss"));
  CHECK(unsmoothed.at("correct") == reported.at("correct"));
}

TEST_CASE("a label smoothing of 0 changes nothing") {
  const Args args = Joined(kTiny, {"--steps", "2"});
  CHECK(LossesOf(RunForJson(Joined(args, {"--label-smoothing", "0"}))) ==
        LossesOf(RunForJson(args)));
}

TEST_CASE("classes are learned with losses against targets, too") {
  const ScratchDirectory directory;
  for (const char* const loss : {"mse", "bce"}) {
    CAPTURE(loss);
    const std::string weights = directory.File(loss);
    const std::vector<Json> lines =
        RunForJson(Joined(kTiny, {"--data", "idx:" + Digits(), "--steps", "200", "--lr", "0.2",
                                  "--eval", "--save", weights, "--loss", loss}));
    const Json reported = lines.back().at("evaluation");
    CHECK(reported.at("accuracy") > 0.6);
    const Json evaluated = RunForJson(Evaluating(weights, {"--loss", loss})).at(0);
    CHECK(evaluated.at("loss") == reported.at("loss"));
    CHECK(evaluated.at("correct") == reported.at("correct"));
    // The class with the largest prediction is the same, whatever the loss.
    CHECK(RunForJson(Evaluating(weights, {})).at(0).at("correct") == reported.at("correct"));
  }
}

TEST_CASE("only cross-entropy has labels to smooth") {
  const Outcome outcome =
      RunNeap(Joined(kTiny, {"--loss", "mse", "--label-smoothing", "0.1", "--steps", "1"}));
  CHECK(outcome.exit_code == 2);
  CHECK(outcome.err.find("--label-smoothing needs --loss cross-entropy, not mse") !=
        std::string::npos);
}

TEST_CASE("auxiliary classifiers are trained and saved") {
  const ScratchDirectory directory;
  const std::string weights = directory.File("googlenet.safetensors");
  const Args plain = {"train",     "googlenet", "--batch",  "2",   "--image", "64",
                      "--classes", "4",         "--device", "cpu", "--steps", "1"};
  const Args with = Joined(plain, {"--aux-logits"});
  const double alone = std::stod(LossesOf(RunForJson(plain)).at(0));
  const double sum =
      std::stod(LossesOf(RunForJson(Joined(with, {"--weights-out", weights}))).at(0));
  CHECK(sum > alone + 0.3);
  RunForJson(Joined(with, {"--weights-in", weights}));
  CHECK(RunNeap(Joined(plain, {"--weights-in", weights})).err.find("aux1.conv.conv.weight") !=
        std::string::npos);
}

}  // namespace
}  // namespace neap::testing
