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

}  // namespace

TEST_CASE("flags of one optimizer or schedule are refused with another") {
  CheckRefused(Joined(kTiny, {"--optimizer", "adam"}), 2, {"adamw"});
  CheckRefused(Joined(kTiny, {"--optimizer", "adamw", "--nesterov"}), 2,
               {"--nesterov needs --optimizer sgd"});
  CheckRefused(Joined(kTiny, {"--optimizer", "adamw", "--momentum", "0"}), 2,
               {"--momentum needs --optimizer sgd"});
  CheckRefused(Joined(kTiny, {"--beta1", "0.5"}), 2, {"--beta1 needs --optimizer adamw"});
  CheckRefused(Joined(kTiny, {"--nesterov", "--momentum", "0"}), 2,
               {"--nesterov needs --momentum"});
  CheckRefused(Joined(kTiny, {"--optimizer", "adamw", "--beta2", "1"}), 2, {"--beta2"});
  CheckRefused(Joined(kTiny, {"--lr-factor", "0.5"}), 2,
               {"--lr-factor needs --lr-schedule step or exponential"});
  CheckRefused(Joined(kTiny, {"--lr-schedule", "step", "--lr-min", "1"}), 2,
               {"--lr-min needs --lr-schedule cosine"});
  CheckRefused(Joined(kTiny, {"--warmup-start", "0.5"}), 2, {"--warmup-start needs --warmup"});
  CheckRefused(Joined(kTiny, {"--shard-optimizer", "--ema", "0.9"}), 2,
               {"--shard-optimizer excludes"});
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

TEST_CASE("gradients that are summed over batches are those of one batch in as many sub-batches") {
  const ScratchDirectory directory;
  const auto train = [&](const std::string& name, const Args& flags) {
    const Args lenet = {
        "train",           "lenet",         "--device",           "cpu",         "--data",
        "idx:" + Digits(), "--weights-out", directory.File(name), "--log-every", "1"};
    return RunForJson(Joined(lenet, flags));
  };
  const std::vector<Json> whole =
      train("whole", {"--batch", "32", "--sub-batches", "4", "--epochs", "1"});
  const std::vector<Json> summed =
      train("summed", {"--batch", "8", "--accumulate", "4", "--epochs", "1"});
  CHECK(ReadText(directory.File("whole")) == ReadText(directory.File("summed")));
  REQUIRE(LossesOf(whole).size() == LossesOf(summed).size());
  for (size_t i = 0; i < LossesOf(whole).size(); ++i)
    CHECK(std::stod(LossesOf(whole)[i]) == doctest::Approx(std::stod(LossesOf(summed)[i])));
}

TEST_CASE("training with summed gradients resumes with the same bits") {
  const ScratchDirectory directory;
  const auto train = [&](const Args& flags) {
    return LossesOf(RunForJson(Joined(
        Joined(kTiny, {"--data", "idx:" + Digits(), "--accumulate", "2", "--log-every", "1"}),
        flags)));
  };
  const std::string file = directory.File("state");
  const std::vector<std::string> all = train({"--steps", "6"});
  std::vector<std::string> parts = train({"--steps", "3", "--save", file});
  for (const std::string& loss : train({"--steps", "6", "--resume", file})) parts.push_back(loss);
  CHECK(parts == all);
  CheckRefused(Joined(kTiny, {"--accumulate", "2", "--trace-out", file}), 2, {"--trace-out"});
  // A share of the peak is that of the plan with the sums.
  CHECK(train({"--steps", "6", "--budget", "80%"}) == all);
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
