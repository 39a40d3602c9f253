#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "neap/core/checkpoint/safetensors.h"
#include "neap/core/run/session.h"
#include "neap/memory/create_session.h"
#include "neap/nets/segmentation/unet.h"
#include "tests/scratch_directory.h"
#include "tests/small_training.h"

namespace neap {
namespace {

Batch FirstImages(const Batch& batch, int64_t count) {
  const auto part = [&](const auto& values) {
    return values.size() / static_cast<size_t>(batch.size) * static_cast<size_t>(count);
  };
  Batch first = batch;
  first.size = count;
  first.images.resize(part(batch.images));
  first.labels.resize(part(batch.labels));
  return first;
}

// The mean loss of the labels that are classes and how many are correct, computed from the
// probabilities as torch.nn.CrossEntropyLoss does.
StepResult ResultOf(const Prediction& prediction, const std::vector<int32_t>& labels) {
  const int64_t classes = prediction.shape.c();
  StepResult result;
  double loss = 0;
  for (size_t image = 0; image < labels.size(); ++image) {
    if (labels[image] == kNoLabel) continue;
    ++result.labels;
    const auto row =
        prediction.probabilities.begin() + static_cast<std::ptrdiff_t>(image) * classes;
    const auto largest = std::max_element(row, row + classes);
    result.correct += largest - row == labels[image] ? 1 : 0;
    loss -= std::log(static_cast<double>(row[labels[image]]));
  }
  result.loss = static_cast<float>(loss / static_cast<double>(result.labels));
  return result;
}

TEST_CASE("predictions are probabilities that agree with the results of evaluation") {
  const auto device = OpenCpu();
  Session session = MakeSession(*device, {}, {.learning_rate = {.base = 0.05F}});
  Train(session, 30);
  const Batch batch = MakeBatch(1000);
  const Prediction prediction = session.Predict(batch.images).value();
  const int64_t classes = prediction.shape.c();
  REQUIRE(prediction.shape.n() == batch.size);
  REQUIRE(static_cast<int64_t>(prediction.probabilities.size()) == batch.size * classes);
  for (auto row = prediction.probabilities.begin(); row != prediction.probabilities.end();
       row += classes) {
    CHECK(std::accumulate(row, row + classes, 0.0F) == doctest::Approx(1));
  }
  const StepResult want = ResultOf(prediction, batch.labels);
  const StepResult evaluated = session.Evaluate(batch).value();
  CHECK(evaluated.correct == want.correct);
  CHECK(evaluated.loss == doctest::Approx(want.loss).epsilon(1e-4));
}

TEST_CASE("the loss of an evaluation is the mean over the images that have a class") {
  const auto device = OpenCpu();
  Session session = MakeSession(*device, {});
  Train(session, 3);
  Batch batch = MakeBatch(5);
  for (const size_t image : {1U, 2U, 6U}) batch.labels[image] = kNoLabel;
  for (const int64_t count : {8, 4, 1}) {
    CAPTURE(count);
    const Batch part = FirstImages(batch, count);
    Prediction prediction;
    const StepResult evaluated = session.Evaluate(part, &prediction).value();
    const StepResult want = ResultOf(prediction, part.labels);
    CHECK(evaluated.labels == want.labels);
    CHECK(evaluated.correct == want.correct);
    CHECK(evaluated.loss == doctest::Approx(want.loss).epsilon(1e-5));
  }
  std::fill(batch.labels.begin(), batch.labels.end(), kNoLabel);
  const StepResult none = session.Evaluate(batch).value();
  CHECK(none.labels == 0);
  CHECK(none.loss == 0);
}

TEST_CASE("the probabilities of a prediction are the softmax of its logits") {
  const auto device = OpenCpu();
  Session session = MakeSession(*device, {});
  Train(session, 3);
  const Batch batch = FirstImages(MakeBatch(3), 2);
  const Prediction prediction = session.Predict(batch.images).value();
  const auto classes = static_cast<size_t>(prediction.shape.c());
  REQUIRE(prediction.logits.size() == prediction.probabilities.size());
  for (size_t first = 0; first < prediction.logits.size(); first += classes) {
    double sum = 0;
    for (size_t c = first; c < first + classes; ++c) sum += std::exp(prediction.logits[c]);
    for (size_t c = first; c < first + classes; ++c)
      CHECK(prediction.probabilities[c] == doctest::Approx(std::exp(prediction.logits[c]) / sum));
  }
}

TEST_CASE("weights are those that a session saves, with the names and shapes of PyTorch") {
  const auto device = OpenCpu();
  for (const bool inference_only : {false, true}) {
    Session session = MakeSession(*device, {}, {.inference_only = inference_only});
    const ScratchDirectory directory;
    const std::string path = directory.File("weights.safetensors");
    REQUIRE(session.SaveWeights(path).ok());
    const SafetensorsReader reader = SafetensorsReader::Open(path).value();
    const std::vector<NamedTensor> weights = session.Weights().value();
    for (const NamedTensor& tensor : weights) {
      const SafetensorsEntry entry = reader.Find(tensor.name).value();
      const Shape::Dims& dims = tensor.shape.dims();
      CHECK(entry.shape == std::vector<int64_t>(dims.begin(), dims.end()));
      CHECK(SameBits(tensor.values, session.Values(tensor.name).value()));
    }
    const auto counts = std::count_if(
        reader.entries().begin(), reader.entries().end(),
        [](const SafetensorsEntry& e) { return e.name.ends_with(".num_batches_tracked"); });
    CHECK(weights.size() + static_cast<size_t>(counts) == reader.entries().size());
  }
}

TEST_CASE("fewer images than the batch are evaluated and predicted as they are in a whole batch") {
  const auto device = OpenCpu();
  Session session = MakeSession(*device, {});
  Train(session, 3);
  const Batch batch = MakeBatch(7);
  const Prediction all = session.Predict(batch.images).value();
  for (int64_t count = 1; count <= batch.size; ++count) {
    const Batch part = FirstImages(batch, count);
    const Prediction some = session.Predict(part.images).value();
    CHECK(some.shape.n() == count);
    CHECK(std::equal(some.probabilities.begin(), some.probabilities.end(),
                     all.probabilities.begin()));
    const StepResult want = ResultOf(some, part.labels);
    const StepResult evaluated = session.Evaluate(part).value();
    CHECK(evaluated.correct == want.correct);
    CHECK(evaluated.loss == doctest::Approx(want.loss).epsilon(1e-4));
  }
}

TEST_CASE("a batch need not state its size, but what it states must be true") {
  const auto device = OpenCpu();
  Session session = MakeSession(*device, {});
  Batch batch = MakeBatch(3);
  const StepResult stated = session.Evaluate(batch).value();
  Batch smaller = FirstImages(batch, 2);
  smaller.size = 0;
  CHECK(session.Evaluate(smaller)->loss == session.Evaluate(FirstImages(batch, 2))->loss);
  batch.size = 0;
  CHECK(session.Evaluate(batch)->loss == stated.loss);
  CHECK(session.TrainStep(batch).ok());
  batch.size = 7;
  CHECK(absl::IsInvalidArgument(session.Evaluate(batch).status()));
  CHECK(absl::IsInvalidArgument(session.TrainStep(batch).status()));
}

TEST_CASE("predictions have the same bits under every budget, and do not change training") {
  const auto device = OpenCpu();
  Session plain = MakeSession(*device, {});
  Session tight = MakeSession(*device, Tight(*device));
  const Batch batch = MakeBatch(5);
  for (int step = 0; step < 3; ++step) {
    Train(plain, 1);
    Train(tight, 1);
    CHECK(SameBits(plain.Predict(batch.images)->probabilities,
                   tight.Predict(batch.images)->probabilities));
  }
  CheckSameState(plain, tight);
}

TEST_CASE("a network that labels pixels is predicted pixel by pixel") {
  const auto device = OpenCpu();
  const Graph net = nets::UNet({.image = 32, .classes = 3, .batch = 2});
  Session session = CreateSession(net, *device, {}, {.inference_only = true}).value();
  const std::vector<float> image(32 * 32, 0.25F);
  const absl::StatusOr<Prediction> prediction = session.Predict(image);
  REQUIRE_MESSAGE(prediction.ok(), prediction.status().ToString());
  CHECK(prediction->shape == Shape{1, 3, 32, 32});
}

TEST_CASE("a session for inference only takes no memory for training, and refuses to train") {
  const auto device = OpenCpu();
  Session trained = MakeSession(*device, {});
  Train(trained, 3);
  Session session = MakeSession(*device, {}, {.inference_only = true});
  // As if there was no optimizer.
  const Session without =
      MakeSession(*device, {}, {.optimizer = {.momentum = 0}, .inference_only = true});
  CHECK(session.memory().arena_bytes == without.memory().arena_bytes);
  CHECK(session.memory().arena_bytes < trained.memory().arena_bytes);
  CHECK(absl::IsFailedPrecondition(session.TrainStep(MakeBatch(1)).status()));
  const ScratchDirectory directory;
  const std::string path = directory.File("trained.safetensors");
  CHECK(absl::IsFailedPrecondition(session.Save(path)));
  const Batch batch = MakeBatch(9);
  const std::vector<float> want = trained.Predict(batch.images)->probabilities;
  for (const bool with_optimizer : {false, true}) {
    Session loaded = MakeSession(*device, {}, {.inference_only = true});
    REQUIRE((with_optimizer ? trained.Save(path) : trained.SaveWeights(path)).ok());
    REQUIRE(loaded.Load(path).ok());
    CHECK(SameBits(loaded.Predict(batch.images)->probabilities, want));
    CHECK(loaded.SaveWeights(path).ok());
  }
}

TEST_CASE("weights that were trained without momentum can be used for inference") {
  const auto device = OpenCpu();
  Session trained = MakeSession(*device, {}, {.optimizer = {.momentum = 0}});
  Train(trained, 3);
  const ScratchDirectory directory;
  const std::string path = directory.File("trained.safetensors");
  REQUIRE(trained.Save(path).ok());
  Session session = MakeSession(*device, {}, {.inference_only = true});
  REQUIRE(session.Load(path).ok());
  const Batch batch = MakeBatch(9);
  CHECK(SameBits(session.Predict(batch.images)->probabilities,
                 trained.Predict(batch.images)->probabilities));
}

TEST_CASE("a session for training only plans no evaluation, and refuses to evaluate") {
  const auto device = OpenCpu();
  Session both = MakeSession(*device, {});
  Session session = MakeSession(*device, {}, {.training_only = true});
  CHECK(session.plan() == both.plan());
  CHECK(session.memory().arena_bytes == session.plan().arena_bytes);
  CHECK(absl::IsFailedPrecondition(session.Evaluate(MakeBatch(1)).status()));
  CHECK(absl::IsFailedPrecondition(session.Predict(MakeBatch(1).images).status()));
  CHECK(Train(session, 3) == Train(both, 3));
  REQUIRE(session.SetBudget(session.planning().minimum_budget_bytes).ok());
  CHECK(Train(session, 1) == Train(both, 1));
  CheckSameState(session, both);
  const absl::StatusOr<Session> neither =
      CreateSession(SmallNet(), *device, {}, {.inference_only = true, .training_only = true});
  CHECK(absl::IsInvalidArgument(neither.status()));
}

TEST_CASE("images that are not whole, none, or more than the batch are refused") {
  const auto device = OpenCpu();
  Session session = MakeSession(*device, {});
  std::vector<float> images = MakeBatch(1).images;
  const size_t whole = images.size();
  for (const size_t values : {size_t{0}, whole - 1, whole + 1, 2 * whole}) {
    images.resize(values);
    CHECK(absl::IsInvalidArgument(session.Predict(images).status()));
  }
  images.resize(whole);
  CHECK(session.Predict(images).ok());
}

}  // namespace
}  // namespace neap
