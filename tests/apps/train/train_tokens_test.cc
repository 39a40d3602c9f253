// neap plan, train and eval on networks of tokens.
#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <vector>

#include "tests/apps/command.h"
#include "tests/apps/train/tiny_training.h"

namespace neap::testing {
namespace {

using Json = nlohmann::json;

// A GPT-2 of one block, on sequences of 8 of the 50 words of the sentences.
Args TrainGpt2(const Args& more) {
  return Joined({"train", "gpt2", "--depth", "1", "--image", "8", "--classes", "50", "--batch", "2",
                 "--device", "cpu", "--optimizer", "adamw", "--lr", "0.001"},
                more);
}
std::string Sentences() { return "tokens:" + (SourceTree() / "examples/data/sentences").string(); }

TEST_CASE("GPT-2 trains on a text, and its evaluation has a perplexity") {
  const ScratchDirectory directory;
  const std::string weights = directory.File("gpt2.safetensors");
  const std::vector<Json> lines =
      RunForJson(TrainGpt2({"--data", Sentences(), "--steps", "20", "--save", weights}));
  CHECK(lines.back().at("peaks_equal") == true);
  const Json evaluation =
      RunForJson({"eval", "--weights", weights, "--data", Sentences(), "--split", "val"}).at(0);
  CHECK(evaluation.at("labels") == 255 * 8);
  const double loss = evaluation.at("loss");
  CHECK(loss < std::log(50.0));
  CHECK(evaluation.at("perplexity") == doctest::Approx(std::exp(loss)));
  const Outcome predicted = RunNeap({"predict", "--weights", weights, "--data", Sentences()});
  CHECK(predicted.exit_code == 2);
  CHECK(predicted.err.find("gpt2 reads tokens, for which there is neap eval") != std::string::npos);
}

TEST_CASE("GPT-2 trains on tokens that are made for it") {
  const std::vector<Json> lines = RunForJson(TrainGpt2({"--data", "synthetic", "--steps", "2"}));
  CHECK(lines.back().at("peaks_equal") == true);
}

TEST_CASE("GPT-2 is planned, and a text does not change its vocabulary") {
  const Json plan = RunForJson({"plan", "gpt2", "--batch", "1", "--image", "16"}).at(0);
  CHECK(plan.at("net") == "gpt2");
  CHECK(RunNeap({"plan", "gpt2", "--channels", "3"}).err.find("takes no channels") !=
        std::string::npos);
}

}  // namespace
}  // namespace neap::testing
