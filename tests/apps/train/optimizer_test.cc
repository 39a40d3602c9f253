// Optimizers and learning rates on the command line.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tests/apps/command.h"
#include "tests/apps/train/tiny_training.h"
#include "tests/scratch_directory.h"

namespace neap::testing {
namespace {

using Json = nlohmann::json;

void CheckRefusedFlags(const Args& flags, const std::string& error) {
  const Outcome outcome = RunNeap(Joined(kTiny, flags));
  CHECK(outcome.exit_code == 2);
  INFO(outcome.err);
  CHECK(outcome.err.find(error) != std::string::npos);
}

}  // namespace

TEST_CASE("flags of one optimizer or schedule are refused with another") {
  CheckRefusedFlags({"--optimizer", "adam"}, "adamw");
  CheckRefusedFlags({"--optimizer", "adamw", "--nesterov"}, "--nesterov needs --optimizer sgd");
  CheckRefusedFlags({"--optimizer", "adamw", "--momentum", "0"},
                    "--momentum needs --optimizer sgd");
  CheckRefusedFlags({"--beta1", "0.5"}, "--beta1 needs --optimizer adamw");
  CheckRefusedFlags({"--nesterov", "--momentum", "0"}, "--nesterov needs --momentum");
  CheckRefusedFlags({"--optimizer", "adamw", "--beta2", "1"}, "--beta2");
  CheckRefusedFlags({"--lr-factor", "0.5"}, "--lr-factor needs --lr-schedule step or exponential");
  CheckRefusedFlags({"--lr-schedule", "step", "--lr-min", "1"},
                    "--lr-min needs --lr-schedule cosine");
  CheckRefusedFlags({"--warmup-start", "0.5"}, "--warmup-start needs --warmup");
  CheckRefusedFlags({"--shard-optimizer", "--ema", "0.9"}, "--shard-optimizer excludes");
}

TEST_CASE("every optimizer trains the digits, in a budget to the same losses") {
  for (const Args& optimizer :
       {Args{"--nesterov", "--lr", "0.02"},
        Args{"--optimizer", "adamw", "--lr", "0.005", "--weight-decay", "0.05"},
        Args{"--optimizer", "adamw", "--lr", "0.005", "--clip-norm", "0.5", "--ema", "0.5"}}) {
    const Args flags =
        Joined(Joined(kTiny, {"--data", "idx:" + Digits(), "--steps", "40", "--log-every", "1"}),
               optimizer);
    const std::vector<std::string> losses = LossesOf(RunForJson(flags));
    REQUIRE(losses.size() == 40);
    CHECK(std::stod(losses.back()) < 0.8 * std::stod(losses.front()));
    CHECK(LossesOf(RunForJson(Joined(flags, {"--budget", "70%"}))) == losses);
  }
}

TEST_CASE("with averages, they are what is evaluated and written as weights") {
  const ScratchDirectory directory;
  const std::string weights = directory.File("weights.safetensors");
  const std::string checkpoint = directory.File("run.safetensors");
  const std::vector<Json> lines =
      RunForJson(Joined(kTiny, {"--data", "idx:" + Digits(), "--steps", "30", "--ema", "0.9",
                                "--eval", "--weights-out", weights, "--save", checkpoint}));
  const auto loss_of = [](const std::string& file) {
    const Args net(kTiny.begin() + 1, kTiny.end());
    const Args eval =
        Joined(Joined({"eval"}, net), {"--data", "idx:" + Digits(), "--weights", file});
    return RunForJson(eval).back().at("loss").get<double>();
  };
  CHECK(loss_of(weights) == lines.back().at("evaluation").at("loss"));
  CHECK(loss_of(checkpoint) != loss_of(weights));  // the parameters themselves
}

TEST_CASE("a plan has the optimizer's tensors") {
  const ScratchDirectory directory;
  const std::string file = directory.File("plan.json");
  const auto optimizer_bytes = [&](const Args& flags) {
    const Args plan = {"plan", "lenet", "--batch", "4", "--device", "cpu", "--plan-out", file};
    REQUIRE(RunNeap(Joined(plan, flags)).exit_code == 0);
    int64_t bytes = 0;
    const Json written = Json::parse(ReadText(file));
    for (const Json& tensor : written.at("tensors")) {
      if (tensor.at("role") == "optimizer") bytes += tensor.at("bytes").get<int64_t>();
    }
    return bytes;
  };
  const int64_t sgd = optimizer_bytes({});
  CHECK(optimizer_bytes({"--optimizer", "adamw"}) == 2 * sgd);
  CHECK(optimizer_bytes({"--optimizer", "adamw", "--ema", "0.9"}) == 3 * sgd);
  CHECK(optimizer_bytes({"--momentum", "0", "--ema", "0.9"}) == sgd);
}

}  // namespace neap::testing
