// Small transformers learn, and every plan trains them to the same bits.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "neap/core/data/synthetic_tokens.h"
#include "neap/core/data/token_windows.h"
#include "neap/core/vision/loader.h"
#include "neap/core/vision/synthetic.h"
#include "neap/memory/create_session.h"
#include "neap/nets/transformers/gpt2.h"
#include "neap/nets/transformers/swin.h"
#include "neap/nets/transformers/vision_transformer.h"
#include "tests/small_training.h"
#include "tests/source_tree.h"

namespace neap::nets {
namespace {

constexpr int64_t kExamples = 4, kWords = 12, kVocabularySize = 17, kViewed = 32, kKinds = 4;
constexpr TrainingOptions kTrainingOfTransformers = {.optimizer = {.rule = Optimizer::Rule::kAdamW},
                                                     .learning_rate = {.base = 0.01F}};

struct TransformerCase {
  std::string name;
  std::function<Graph(DType, Layout)> make;
  std::unique_ptr<Dataset> dataset;
};

std::unique_ptr<Dataset> Images() {
  return SyntheticDataset::Create(
             {.shape = {.c = 3, .h = kViewed, .w = kViewed}, .classes = kKinds, .size = 8})
      .value();
}

std::vector<TransformerCase> Cases() {
  std::vector<TransformerCase> cases;
  cases.push_back(
      {"gpt2",
       [](DType dtype, Layout layout) {
         return Gpt2({.variant = {"tiny", 2, 2, 16},
                      .tokens = kWords,
                      .vocabulary = kVocabularySize,
                      .batch = kExamples,
                      .dtype = dtype,
                      .layout = layout,
                      .dropout = 0.1F});
       },
       SyntheticTokens::Create({.tokens = kWords, .classes = kVocabularySize}).value()});
  cases.push_back({"vit",
                   [](DType dtype, Layout layout) {
                     return VisionTransformer({.variant = {"tiny", 2, 2, 16},
                                               .image = kViewed,
                                               .classes = kKinds,
                                               .batch = kExamples,
                                               .dtype = dtype,
                                               .layout = layout});
                   },
                   Images()});
  cases.push_back({"swin",
                   [](DType dtype, Layout layout) {
                     return Swin({.variant = {"tiny", {1, 2, 1, 1}, {1, 2, 2, 4}, 8, 0.1F},
                                  .image = kViewed,
                                  .classes = kKinds,
                                  .batch = kExamples,
                                  .dtype = dtype,
                                  .layout = layout});
                   },
                   Images()});
  return cases;
}

float StepOf(Session& session, const Dataset& dataset) {
  const auto batch = BatchOfStep(dataset, {.batch = kExamples, .shuffle = false}, session.step());
  REQUIRE_MESSAGE(batch.ok(), batch.status().ToString());
  const absl::StatusOr<float> loss = session.TrainStep(*batch);
  REQUIRE_MESSAGE(loss.ok(), loss.status().ToString());
  return *loss;
}

TEST_CASE("small transformers learn on the CPU") {
  const auto device = OpenCpu();
  for (const TransformerCase& one : Cases()) {
    for (const DType dtype : {DType::kFp32, DType::kBf16}) {
      CAPTURE(one.name);
      CAPTURE(Name(dtype));
      Session session =
          Opened(one.make(dtype, Layout::kChannelsLast), *device, {}, kTrainingOfTransformers);
      const float first = StepOf(session, *one.dataset);
      float last = 0;
      for (int step = 1; step < 150; ++step) last = StepOf(session, *one.dataset);
      CHECK(first > 1.3F);
      CHECK(last < 0.8F * first);
    }
  }
}

TEST_CASE(
    "a small GPT-2 learns more of the sentences of the examples than how frequent words are") {
  const auto device = OpenCpu();
  const std::string folder = SourceTree() / "examples/data/sentences";
  const auto open = [&](Split split) {
    auto text = TokenWindows::Open(folder, {.split = split, .tokens = 16, .classes = 50});
    REQUIRE_MESSAGE(text.ok(), text.status().ToString());
    return *std::move(text);
  };
  const auto train = open(Split::kTrain), validation = open(Split::kValidation);
  const Graph net = Gpt2({.variant = {"tiny", 2, 2, 32},
                          .tokens = 16,
                          .vocabulary = 50,
                          .batch = 8,
                          .layout = Layout::kChannelsLast});
  TrainingOptions training = kTrainingOfTransformers;
  training.learning_rate.base = 0.005F;
  Session session = Opened(net, *device, {}, training);
  const Batch unseen = ReadBatch(*validation, 0, 8).value();
  CHECK(session.Evaluate(unseen)->loss == doctest::Approx(std::log(50.0)).epsilon(0.02));
  for (int step = 0; step < 300; ++step) {
    const auto batch = BatchOfStep(*train, {.batch = 8, .crop = true}, step);
    REQUIRE_MESSAGE(batch.ok(), batch.status().ToString());
    REQUIRE(session.TrainStep(*batch).ok());
  }
  // exp(3.48) = 32.5 are as uncertain as the frequencies of words, 8.0 as those of pairs.
  CHECK(std::exp(session.Evaluate(unseen)->loss) < 16);
}

// The losses, and then every persistent tensor, after three steps.
Trained StateAfter(const Graph& net, Device& device, const Dataset& dataset,
                   const PlannerOptions& planning, int64_t* minimum_budget = nullptr) {
  Session session = Opened(net, device, planning, kTrainingOfTransformers);
  if (minimum_budget != nullptr) *minimum_budget = session.planning().minimum_budget_bytes;
  Trained trained(1);
  for (int step = 0; step < 3; ++step) trained[0].push_back(StepOf(session, dataset));
  AppendState(trained, session);
  return trained;
}

TEST_CASE("small transformers train to the same bits in a budget that needs recomputation") {
  const auto device = OpenCpu();
  for (const TransformerCase& one : Cases()) {
    for (const Layout layout : {Layout::kChannelsFirst, Layout::kChannelsLast}) {
      CAPTURE(one.name);
      CAPTURE(Name(layout));
      const Graph net = one.make(DType::kFp32, layout);
      const Trained want = StateAfter(net, *device, *one.dataset,
                                      {.policy = "keep-all", .in_place = false, .strict = true});
      for (const char* const policy : {"superneurons", "chen", "auto"}) {
        CAPTURE(policy);
        PlannerOptions planning = {.policy = policy, .sub_batches = 1, .strict = true};
        int64_t least = 0;
        CHECK(AreSame(StateAfter(net, *device, *one.dataset, planning, &least), want));
        planning.budget_bytes = least;
        CHECK(AreSame(StateAfter(net, *device, *one.dataset, planning), want));
      }
    }
  }
}

}  // namespace
}  // namespace neap::nets
