// How many classes neap train gives a network, and reads data for.
#include <doctest/doctest.h>

#include <cstdint>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/train/batch_source.h"
#include "apps/train/train_flags.h"
#include "apps/train/training_data.h"
#include "neap/core/program/passes.h"
#include "neap/layers/cpu/cpu_device.h"
#include "neap/layers/tokens/embedding.h"
#include "neap/layers/tokens/linear_cross_entropy.h"
#include "tests/scratch_directory.h"

namespace neap::testing {
namespace {

constexpr int64_t kPositions = 4, kVocabulary = 300;

// A text whose largest token is 299.
std::string TextIn(const ScratchDirectory& directory) {
  std::ofstream file(directory.File("train.bin"), std::ios::binary);
  for (const int token : {7, 299, 0, 256, 1, 2, 3, 4, 5}) {
    file.put(static_cast<char>(token % 256));
    file.put(static_cast<char>(token / 256));
  }
  return "tokens:" + directory.path();
}

Program LanguageModel(Mode mode) {
  Graph net({.name = "tiny", .batch = 2});
  net.Input("ids", {kPositions}, DType::kInt32);
  net.Input("next", {kPositions}, DType::kInt32);
  net.Add("wte", Embedding{.vocabulary = kVocabulary, .channels = 8}, {"ids"});
  net.Loss("loss", LinearCrossEntropy{.classes = kVocabulary}, {"wte", "next"});
  const auto device = CpuDevice::Open().value();
  return Lower(net, {.mode = mode}, device->description()).value();
}

TEST_CASE("a network without logits reads all tokens of its vocabulary") {
  const ScratchDirectory directory;
  const std::string text = TextIn(directory);
  for (const Mode mode : {Mode::kTraining, Mode::kInference}) {
    const apps::NetInput input = apps::InputOf(LanguageModel(mode)).value();
    CHECK(input.classes == kVocabulary);
    CHECK(input.labels == kPositions);
    const std::unique_ptr<Dataset> dataset =
        apps::OpenSplit(text, input, Split::kTrain, {}).value();
    std::vector<int32_t> tokens(kPositions), labels(kPositions);
    CHECK(dataset->ReadTokens(0, nullptr, tokens.data(), labels.data()).ok());
    CHECK(labels == std::vector<int32_t>{299, 0, 256, 1});
  }
}

TEST_CASE("a network keeps its vocabulary, whatever tokens a text has") {
  const ScratchDirectory directory;
  apps::TrainFlags flags;
  flags.net.name = "gpt2";
  flags.batches.data = TextIn(directory);
  CHECK(apps::TakeClasses(flags).ok());
  CHECK(!flags.net.options.classes.has_value());
  flags.net.options.classes = 512;
  CHECK(apps::TakeClasses(flags).ok());
  CHECK(flags.net.options.classes == 512);
}

}  // namespace
}  // namespace neap::testing
