#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "neap/core/run/session.h"
#include "neap/memory/create_session.h"
#include "neap/nets/unet.h"
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

TEST_CASE("predictions are probabilities that agree with the results of evaluation") {
  const auto device = OpenCpu();
  Session session = MakeSession(*device, {}, {.learning_rate = {.base = 0.05F}});
  Train(session, 30);
  const Batch batch = MakeBatch(1000);
  const Prediction prediction = session.Predict(batch.images).value();
  const int64_t classes = prediction.shape.c();
  REQUIRE(prediction.shape.n() == batch.size);
  REQUIRE(static_cast<int64_t>(prediction.probabilities.size()) == batch.size * classes);
  int64_t correct = 0;
  double loss = 0;
  for (int64_t image = 0; image < batch.size; ++image) {
    const float* const row = &prediction.probabilities[static_cast<size_t>(image * classes)];
    float sum = 0;
    int64_t largest = 0;
    for (int64_t c = 0; c < classes; ++c) {
      sum += row[c];
      if (row[c] > row[largest]) largest = c;
    }
    CHECK(sum == doctest::Approx(1));
    const int32_t label = batch.labels[static_cast<size_t>(image)];
    correct += largest == label ? 1 : 0;
    loss -= std::log(static_cast<double>(row[label]));
  }
  const StepResult evaluated = session.Evaluate(batch).value();
  CHECK(evaluated.correct == correct);
  CHECK(evaluated.loss == doctest::Approx(loss / static_cast<double>(batch.size)).epsilon(1e-4));
}

TEST_CASE("fewer images than the batch are evaluated and predicted as they are in a whole batch") {
  const auto device = OpenCpu();
  Session session = MakeSession(*device, {});
  Train(session, 3);
  const Batch batch = MakeBatch(7);
  const Prediction all = session.Predict(batch.images).value();
  double loss = 0;
  int64_t correct = 0;
  for (int64_t count = 1; count <= batch.size; ++count) {
    const Batch part = FirstImages(batch, count);
    const Prediction some = session.Predict(part.images).value();
    CHECK(some.shape.n() == count);
    CHECK(std::equal(some.probabilities.begin(), some.probabilities.end(),
                     all.probabilities.begin()));
    const StepResult evaluated = session.Evaluate(part).value();
    loss = evaluated.loss;
    correct = evaluated.correct;
    CHECK(std::isfinite(loss));
  }
  CHECK(session.Evaluate(batch)->loss == static_cast<float>(loss));
  CHECK(session.Evaluate(batch)->correct == correct);
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
  CHECK(session.memory().arena_bytes < trained.memory().arena_bytes);
  CHECK(absl::IsFailedPrecondition(session.TrainStep(MakeBatch(1)).status()));
  const std::string path = "predict_test.safetensors";
  REQUIRE(trained.SaveWeights(path).ok());
  REQUIRE(session.Load(path).ok());
  std::remove(path.c_str());
  const Batch batch = MakeBatch(9);
  CHECK(SameBits(session.Predict(batch.images)->probabilities,
                 trained.Predict(batch.images)->probabilities));
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
