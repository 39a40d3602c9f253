// Training and evaluation of segmentation losses on volumes.
#include "neap/layers/loss/dice_loss.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "neap/core/base/philox.h"
#include "neap/core/run/session.h"
#include "neap/layers/activation.h"
#include "neap/layers/convolution.h"
#include "neap/layers/join.h"
#include "neap/layers/norm/group_norm.h"
#include "neap/layers/transposed_convolution.h"
#include "neap/memory/create_session.h"
#include "tests/small_training.h"

namespace neap {
namespace {

constexpr int64_t kVolumes = 4;
constexpr int64_t kEdge = 6;
constexpr int64_t kVoxels = kEdge * kEdge * kEdge;
constexpr TrainingOptions kDiceTraining = {.learning_rate = {.base = 0.05F}};

// Two classes for each voxel, predicted at the full resolution and, in training, at half of it.
Graph TwoResolutions(const GraphOptions& options, const DiceLoss& loss) {
  Graph net(options);
  const std::string image = net.Input({1, kEdge, kEdge, kEdge});
  const auto convolve = [&](const std::string& name, Convolution layer, std::string x) {
    x = net.Add(name, layer, {x});
    x = net.Add(name + ".norm", InstanceNorm{.affine = true}, {x});
    return net.Add(name + ".relu", LeakyRelu{}, {x});
  };
  const std::string fine = convolve("fine", {.out_channels = 4, .kernel = 3, .padding = 1}, image);
  const std::string coarse =
      convolve("coarse", {.out_channels = 8, .kernel = 3, .stride = 2, .padding = 1}, fine);
  const TransposedConvolution enlarge = {.out_channels = 4, .kernel = 2, .stride = 2};
  std::string x = net.Add("cat", Concat{}, {net.Add("up", enlarge, {coarse}), fine});
  x = convolve("last", {.out_channels = 4, .kernel = 3, .padding = 1}, x);
  const std::string half = net.Add("half", Convolution{.out_channels = 2}, {coarse});
  net.PixelLoss(net.Add("whole", Convolution{.out_channels = 2}, {x}), loss, {kEdge, kEdge, kEdge});
  DiceLoss weighted = loss;
  weighted.weight = 0.5F;
  net.AuxiliaryLoss(half, weighted);
  return net;
}

// Voxels above 0.5 are of class 1 where their neighbours along W are, too, on average.
struct Volumes {
  explicit Volumes(uint64_t seed, int64_t count = kVolumes) {
    for (int64_t i = 0; i < count * kVoxels; ++i) {
      const auto at = static_cast<uint64_t>(i);
      const float a = ToUnitFloat(Philox({seed, 1, at / 4})[0]);  // in blocks of four
      images.push_back(a);
      labels.push_back(a > 0.5F ? 1 : 0);
    }
  }
  Feeds feeds() const {
    return {{.name = "input", .floats = images}, {.name = "labels", .integers = labels}};
  }
  std::vector<float> images;
  std::vector<int32_t> labels;
};

TEST_CASE("a network of volumes learns by Dice and cross-entropy at two resolutions") {
  const auto device = OpenCpu();
  for (const Layout layout : {Layout::kChannelsFirst, Layout::kChannelsLast}) {
    const GraphOptions options = {.batch = kVolumes, .layout = layout};
    Session session = Opened(TwoResolutions(options, NnUNetLoss()), *device, {}, kDiceTraining);
    std::vector<float> losses;
    for (uint64_t step = 0; step < 60; ++step) {
      const absl::StatusOr<StepResult> result = session.Step(Volumes(step).feeds());
      REQUIRE_MESSAGE(result.ok(), result.status().ToString());
      losses.push_back(result->loss);
    }
    CHECK(losses.back() < losses.front() - 0.8F);
    const StepResult evaluated = session.Evaluate(Volumes(1000).feeds()).value();
    CHECK(evaluated.losses.size() == 1);  // that at the full resolution
    CHECK(evaluated.correct > 0.85 * static_cast<double>(kVolumes * kVoxels));
  }
}

TEST_CASE("Dice of images has the same bits in sub-batches, and Dice of the batch is refused") {
  const auto device = OpenCpu();
  const GraphOptions options = {.batch = kVolumes};
  Session whole = Opened(TwoResolutions(options, NnUNetLoss()), *device, {}, kDiceTraining);
  Session parts =
      Opened(TwoResolutions(options, NnUNetLoss()), *device, {.sub_batches = 2}, kDiceTraining);
  for (uint64_t step = 0; step < 3; ++step) {
    CHECK(parts.Step(Volumes(step).feeds())->loss ==
          doctest::Approx(whole.Step(Volumes(step).feeds())->loss).epsilon(1e-5));
  }
  DiceLoss of_batch = NnUNetLoss();
  of_batch.batch = true;
  const absl::StatusOr<Session> refused =
      CreateSession(TwoResolutions(options, of_batch), *device, {.sub_batches = 2}, kDiceTraining);
  REQUIRE(!refused.ok());
  CHECK(std::string(refused.status().message()).find("it couples the images of a batch") !=
        std::string::npos);
}

TEST_CASE("fewer volumes than the batch are evaluated by themselves") {
  const auto device = OpenCpu();
  for (const bool batch : {false, true}) {
    CAPTURE(batch);
    DiceLoss loss = NnUNetLoss();
    loss.batch = batch;
    Session four = Opened(TwoResolutions({.batch = 4}, loss), *device, {}, kDiceTraining);
    Session two = Opened(TwoResolutions({.batch = 2}, loss), *device, {}, kDiceTraining);
    Volumes volumes(5, 2);
    for (size_t i = 0; i < 100; ++i) volumes.labels[i] = kNoLabel;
    const StepResult of_four = four.Evaluate(volumes.feeds()).value();
    const StepResult of_two = two.Evaluate(volumes.feeds()).value();
    CHECK(of_four.loss == doctest::Approx(of_two.loss).epsilon(1e-5));
    CHECK(of_four.correct == of_two.correct);
    CHECK(of_four.losses[0].labels == 2 * kVoxels - 100);
    CHECK(of_four.counted == 2);  // volumes
  }
}

}  // namespace
}  // namespace neap
