// Training against targets instead of labels.
#include "neap/layers/target_loss.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "neap/core/base/philox.h"
#include "neap/core/run/parallel_session.h"
#include "neap/core/run/session.h"
#include "neap/layers/activation.h"
#include "neap/layers/collectives/local_ranks.h"
#include "neap/layers/convolution.h"
#include "neap/memory/create_session.h"
#include "neap/memory/planner.h"
#include "neap/nets/with_loss.h"
#include "tests/small_training.h"

namespace neap {
namespace {

constexpr int64_t kTargetBatch = 4;
constexpr int64_t kPixels = 3 * 5;
constexpr int64_t kChannels = 2;  // of predictions
constexpr TrainingOptions kTargetTraining = {.learning_rate = {.base = 0.1F}};

// Predicts two values for each pixel of images with three channels.
Graph ImageToImage(const GraphOptions& options, const Layer& loss) {
  Graph net(options);
  std::string x = net.Input({3, 3, 5});
  x = net.Add("conv1", Convolution{.out_channels = 8}, {x});
  x = net.Add("relu1", LeakyRelu{.negative_slope = 0.5F}, {x});
  x = net.Add("conv2", Convolution{.out_channels = kChannels}, {x});
  net.TargetLoss(x, loss, {kChannels, 3, 5});
  return net;
}

// The first target of a pixel is a mean of its channels, and the second one their difference; both
// from 0 to 1.
Batch PixelBatch(uint64_t seed, int64_t images = kTargetBatch) {
  Batch batch = {.images = std::vector<float>(static_cast<size_t>(images * 3 * kPixels)),
                 .size = images,
                 .targets = std::vector<float>(static_cast<size_t>(images * kChannels * kPixels))};
  for (int64_t image = 0; image < images; ++image) {
    for (int64_t pixel = 0; pixel < kPixels; ++pixel) {
      const auto at = [&](int64_t channels, int64_t c) {
        return static_cast<size_t>((image * channels + c) * kPixels + pixel);
      };
      for (int64_t c = 0; c < 3; ++c)
        batch.images[at(3, c)] = ToUnitFloat(Philox({seed, 1, at(3, c)})[0]);
      const float a = batch.images[at(3, 0)], b = batch.images[at(3, 1)];
      batch.targets[at(kChannels, 0)] = (a + b) / 2;
      batch.targets[at(kChannels, 1)] = (1 + a - b) / 2;
    }
  }
  return batch;
}

std::vector<float> LossesOf(Session& session, uint64_t steps) {
  std::vector<float> losses;
  for (uint64_t step = 0; step < steps; ++step) {
    const absl::StatusOr<float> loss = session.TrainStep(PixelBatch(step));
    REQUIRE_MESSAGE(loss.ok(), loss.status().ToString());
    losses.push_back(*loss);
  }
  return losses;
}

TEST_CASE("a network learns targets in every type and layout") {
  const auto device = OpenCpu();
  for (const DType dtype : {DType::kFp32, DType::kFp16, DType::kBf16}) {
    for (const Layout layout : {Layout::kChannelsFirst, Layout::kChannelsLast}) {
      CAPTURE(Name(dtype));
      CAPTURE(Name(layout));
      const GraphOptions options = {.batch = kTargetBatch, .dtype = dtype, .layout = layout};
      Session squared =
          Opened(ImageToImage(options, MeanSquaredError{}), *device, {}, kTargetTraining);
      const std::vector<float> losses = LossesOf(squared, 100);
      CHECK(losses.back() < losses.front() / 20);
      Session binary =
          Opened(ImageToImage(options, BinaryCrossEntropy{}), *device, {}, kTargetTraining);
      LossesOf(binary, 100);
      const Batch batch = PixelBatch(1000);
      const Prediction prediction = binary.Predict(batch.images).value();
      double error = 0;
      for (size_t i = 0; i < batch.targets.size(); ++i)
        error += std::abs(static_cast<double>(prediction.probabilities[i] - batch.targets[i]));
      CHECK(error / static_cast<double>(batch.targets.size()) < 0.1);
    }
  }
}

TEST_CASE("labels stand for targets of 1 and 0") {
  const auto device = OpenCpu();
  for (const Layout layout : {Layout::kChannelsFirst, Layout::kChannelsLast}) {
    const Graph net = nets::WithTargetLoss(SmallNet(layout), BinaryCrossEntropy{}).value();
    Session by_labels = Opened(net, *device, {}, kTargetTraining),
            by_targets = Opened(net, *device, {}, kTargetTraining);
    Batch labelled = MakeBatch(1);
    labelled.labels[5] = kNoLabel;
    Batch targeted = labelled;
    targeted.labels.clear();
    for (const int32_t label : labelled.labels) {
      for (int32_t c = 0; c < 4; ++c) {
        const float target = label == c ? 1.0F : 0.0F;
        targeted.targets.push_back(label == kNoLabel ? kNoTarget : target);
      }
    }
    for (int step = 0; step < 3; ++step)
      CHECK(by_labels.TrainStep(labelled).value() == by_targets.TrainStep(targeted).value());
    CheckSameState(by_labels, by_targets);
    Prediction prediction;
    const StepResult result = by_labels.Evaluate(labelled, &prediction).value();
    int64_t correct = 0;
    for (size_t i = 0; i < labelled.labels.size(); ++i) {
      const float* const logits = &prediction.logits[4 * i];
      correct += std::max_element(logits, logits + 4) - logits == labelled.labels[i] ? 1 : 0;
    }
    CHECK(result.correct == correct);
  }
}

TEST_CASE("a smaller batch is evaluated by its own elements that have targets") {
  const auto device = OpenCpu();
  const GraphOptions options = {.batch = kTargetBatch};
  Session session = Opened(ImageToImage(options, MeanSquaredError{}), *device, {}, kTargetTraining);
  Batch batch = PixelBatch(7, 3);
  batch.targets[3] = kNoTarget;
  Prediction prediction;
  const StepResult result = session.Evaluate(batch, &prediction).value();
  REQUIRE(prediction.shape == Shape{3, kChannels, 3, 5});
  double loss = 0;
  for (size_t i = 0; i < batch.targets.size(); ++i) {
    if (i != 3) loss += std::pow(static_cast<double>(prediction.logits[i] - batch.targets[i]), 2);
  }
  CHECK(result.labels == std::ssize(batch.targets) - 1);
  CHECK(result.loss == doctest::Approx(loss / static_cast<double>(result.labels)).epsilon(1e-5));
  CHECK(prediction.probabilities == prediction.logits);
}

TEST_CASE("sub-batches and ranks share the mean over all elements") {
  const auto device = OpenCpu();
  const auto net = [](int64_t batch) {
    return ImageToImage({.batch = batch}, BinaryCrossEntropy{});
  };
  Session whole = Opened(net(kTargetBatch), *device, {}, kTargetTraining);
  const std::vector<float> losses = LossesOf(whole, 5);
  Session in_parts = Opened(net(kTargetBatch), *device, {.sub_batches = 2}, kTargetTraining);
  const std::vector<float> of_parts = LossesOf(in_parts, 5);
  const auto five = [&](int64_t sub_batches) {
    Session session = Opened(net(5), *device, {.sub_batches = sub_batches}, kTargetTraining);
    std::vector<float> steps;
    for (uint64_t step = 0; step < 5; ++step)
      steps.push_back(session.TrainStep(PixelBatch(step, 5)).value());
    return steps;
  };
  const std::vector<float> of_five = five(1), of_uneven_parts = five(2);  // 3 + 2
  for (size_t step = 0; step < of_five.size(); ++step)
    CHECK(of_uneven_parts[step] == doctest::Approx(of_five[step]).epsilon(1e-5));

  LocalRanks group(2, std::chrono::seconds(20));
  const auto second = OpenCpu();
  std::vector<std::unique_ptr<Communicator>> communicators;
  std::vector<ParallelSession::Rank> ranks;
  for (CpuDevice* const of_rank : {device.get(), second.get()}) {
    communicators.push_back(group.Join(static_cast<int>(ranks.size()), *of_rank));
    ranks.push_back({.images = kTargetBatch / 2,
                     .device = of_rank,
                     .planner = PlannerFor({.policy = "liveness"}),
                     .communicator = communicators.back().get()});
  }
  absl::StatusOr<ParallelSession> parallel = ParallelSession::Create(net, ranks, kTargetTraining);
  REQUIRE_MESSAGE(parallel.ok(), parallel.status().ToString());
  for (size_t step = 0; step < losses.size(); ++step) {
    CAPTURE(step);
    CHECK(of_parts[step] == doctest::Approx(losses[step]).epsilon(1e-5));
    CHECK(parallel->TrainStep(PixelBatch(step)).value() ==
          doctest::Approx(losses[step]).epsilon(1e-5));
  }
}

TEST_CASE("targets of the wrong number are refused") {
  const auto device = OpenCpu();
  Session session = Opened(ImageToImage({.batch = kTargetBatch}, MeanSquaredError{}), *device, {},
                           kTargetTraining);
  Batch few = PixelBatch(1);
  few.targets.pop_back();
  CHECK(session.Begin(few).message() ==
        "the batch has 4 images, 119 targets and 180 image values; the network's input is 4x3x3x5, "
        "its targets 4x2x3x5");
  CHECK(session.Evaluate(few).status().message() ==
        "the batch has 4 images, 180 image values and 119 targets; the network takes 1 to 4 images "
        "of 45 values with 15 labels or 30 targets each");
  Batch both = PixelBatch(1);
  both.labels.resize(4 * 15);
  CHECK(absl::IsInvalidArgument(session.Begin(both)));
  Session of_labels = MakeSession(*device, {});
  Batch targeted = MakeBatch(1);
  targeted.labels.clear();
  targeted.targets.resize(8 * 4);
  CHECK(of_labels.Begin(targeted).message() ==
        "the batch has 8 images, 32 targets and 1536 image values; the network's input is 8x3x8x8, "
        "its labels 8");
}

}  // namespace
}  // namespace neap
