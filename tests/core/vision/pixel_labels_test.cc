// Networks that label every pixel, from the dataset to the trained weights.
#include <doctest/doctest.h>

#include <cmath>
#include <set>

#include "neap/core/run/initialize.h"
#include "neap/core/run/session.h"
#include "neap/core/vision/loader.h"
#include "neap/layers/activation.h"
#include "neap/layers/convolution.h"
#include "neap/layers/cpu/cpu_device.h"
#include "neap/layers/crop.h"
#include "neap/layers/join.h"
#include "neap/layers/pooling.h"
#include "neap/layers/softmax_cross_entropy.h"
#include "neap/layers/transposed_convolution.h"
#include "neap/memory/create_session.h"

namespace neap {
namespace {

constexpr int64_t kImage = 16;
constexpr int64_t kClasses = 3;
constexpr int64_t kBatch = 4;

// Down, up again past the image's size, cropped, and joined with what stayed at it.
Graph SmallNet(Layout layout) {
  Graph net({.name = "pixels", .batch = kBatch, .layout = layout});
  std::string x = net.Input({3, kImage, kImage});
  x = net.Add("conv1", Convolution{.out_channels = 8, .kernel = 3, .padding = 1}, {x});
  const std::string fine = net.Add("relu1", Relu{}, {x});
  x = net.Add("pool", MaxPool{}, {fine});
  x = net.Add("conv2", Convolution{.out_channels = 8, .kernel = 3, .padding = 1}, {x});
  x = net.Add("relu2", Relu{}, {x});
  x = net.Add("up", TransposedConvolution{.out_channels = 8, .kernel = 4, .stride = 2}, {x});
  x = net.Add("crop", Crop{.size = kImage, .offset = 1}, {x});
  x = net.Add("cat", Concat{}, {fine, x});
  x = net.Add("score", Convolution{.out_channels = kClasses}, {x});
  net.PixelLoss(x, SoftmaxCrossEntropy{}, {kImage, kImage});
  return net;
}

std::unique_ptr<Dataset> Fields(Split split = Split::kTrain) {
  auto dataset = OpenDataset("synthetic", {.split = split,
                                           .shape = {{3, kImage, kImage}},
                                           .label_pixels = true,
                                           .classes = kClasses,
                                           .size = 64});
  REQUIRE_MESSAGE(dataset.ok(), dataset.status().ToString());
  return *std::move(dataset);
}

Session MakeSession(Device& device, PlannerOptions planning,
                    Layout layout = Layout::kChannelsFirst) {
  absl::StatusOr<Session> session = CreateSession(SmallNet(layout), device, std::move(planning),
                                                  {.learning_rate = {.base = 0.1F}});
  REQUIRE_MESSAGE(session.ok(), session.status().ToString());
  return *std::move(session);
}

float Train(Session& session, const Dataset& dataset, int steps) {
  float loss = 0;
  for (int i = 0; i < steps; ++i) {
    const auto batch = BatchOfStep(dataset, {.batch = kBatch}, session.step());
    REQUIRE(batch.ok());
    const absl::StatusOr<float> result = session.TrainStep(*batch);
    REQUIRE_MESSAGE(result.ok(), result.status().ToString());
    loss = *result;
  }
  return loss;
}

TEST_CASE("a network learns to label pixels, in both layouts") {
  const auto device = CpuDevice::Open();
  REQUIRE(device.ok());
  const auto dataset = Fields();
  for (Layout layout : {Layout::kChannelsFirst, Layout::kChannelsLast}) {
    Session session = MakeSession(**device, {}, layout);
    const float first = Train(session, *dataset, 1);
    CHECK(Train(session, *dataset, 80) < 0.5F * first);
    const auto test = ReadBatch(*Fields(Split::kTest), 0, kBatch);
    REQUIRE(test.ok());
    const absl::StatusOr<StepResult> evaluated = session.Evaluate(*test);
    REQUIRE(evaluated.ok());
    CHECK(evaluated->correct > kBatch * kImage * kImage * 8 / 10);
    CHECK(evaluated->correct <= kBatch * kImage * kImage);
  }
}

TEST_CASE("policy, placement and in-place results do not change training on pixels") {
  const auto device = CpuDevice::Open();
  REQUIRE(device.ok());
  const auto dataset = Fields();
  Session reference = MakeSession(**device, {.policy = "keep-all", .in_place = false});
  const float loss = Train(reference, *dataset, 5);
  for (const PlacementMethod placement : {PlacementMethod::kFirstFit, PlacementMethod::kOffline}) {
    Session session = MakeSession(**device, {.placement = placement});
    CHECK(Train(session, *dataset, 5) == loss);
    CHECK(*session.Values("up.weight") == *reference.Values("up.weight"));
    CHECK(session.memory().measured_peak_bytes == session.memory().predicted_peak_bytes);
  }
}

TEST_CASE("a batch with one label per image is refused if every pixel needs one") {
  const auto device = CpuDevice::Open();
  REQUIRE(device.ok());
  Session session = MakeSession(**device, {});
  Batch batch = {.images = std::vector<float>(kBatch * 3 * kImage * kImage),
                 .labels = std::vector<int32_t>(kBatch),
                 .size = kBatch};
  const absl::Status status = session.TrainStep(batch).status();
  CHECK(absl::IsInvalidArgument(status));
  CHECK(std::string(status.message()).find("its labels 4x16x16") != std::string::npos);
}

TEST_CASE("a pixel's label that is not a class is refused, naming the pixel") {
  const auto device = CpuDevice::Open();
  REQUIRE(device.ok());
  Session session = MakeSession(**device, {});
  Batch batch = {.images = std::vector<float>(kBatch * 3 * kImage * kImage),
                 .labels = std::vector<int32_t>(kBatch * kImage * kImage),
                 .size = kBatch};
  CHECK(session.TrainStep(batch).ok());
  batch.labels[2 * kImage * kImage + 3 * kImage + 1] = 3;
  for (const absl::Status& status :
       {session.TrainStep(batch).status(), session.Evaluate(batch).status()}) {
    CHECK(absl::IsInvalidArgument(status));
    CHECK(std::string(status.message()) ==
          "the batch labels the pixel at row 3, column 1 of image 2 with 3; the network has 3 "
          "classes, from 0");
  }
}

TEST_CASE("synthetic pixels have the colour of their class, apart from the noise") {
  const auto dataset = Fields();
  CHECK(dataset->labels() == kImage * kImage);
  std::vector<float> pixels(3 * kImage * kImage);
  std::vector<int32_t> labels(kImage * kImage);
  std::vector<double> low(kClasses, 1e9), high(kClasses, -1e9);
  std::set<int32_t> seen;
  for (int64_t index = 0; index < 8; ++index) {
    REQUIRE(dataset->Read(index, pixels.data(), labels.data()).ok());
    for (size_t i = 0; i < labels.size(); ++i) {
      const size_t label = static_cast<size_t>(labels[i]);
      REQUIRE(label < kClasses);
      seen.insert(labels[i]);
      low[label] = std::min(low[label], static_cast<double>(pixels[i]));
      high[label] = std::max(high[label], static_cast<double>(pixels[i]));
      CHECK(labels[i] == labels[i / (2 * kImage) * 2 * kImage + i % kImage / 2 * 2]);  // 2x2 fields
    }
  }
  CHECK(seen.size() == kClasses);
  for (size_t c = 0; c < kClasses; ++c) CHECK(high[c] - low[c] <= 2.001);  // only the noise
}

TEST_CASE("the planes of synthetic volumes have the same fields, and noise of their own") {
  const ImageShape shape = {.c = 2, .h = kImage, .w = kImage, .d = 3};
  const auto dataset = OpenDataset("synthetic", {.shape = shape, .label_pixels = true}).value();
  CHECK(dataset->extents() == std::vector<int64_t>{2, 3, kImage, kImage});
  REQUIRE(dataset->labels() == shape.positions());
  std::vector<float> voxels(static_cast<size_t>(shape.elements()));
  std::vector<int32_t> labels(static_cast<size_t>(shape.positions()));
  REQUIRE(dataset->Read(5, voxels.data(), labels.data()).ok());
  constexpr size_t kPlane = kImage * kImage;
  for (size_t i = 0; i < 2 * kPlane; ++i) CHECK(labels[i] == labels[i + kPlane]);
  for (size_t c = 0; c < 2; ++c) {
    for (size_t i = 3 * c * kPlane; i < (3 * c + 2) * kPlane; ++i)
      CHECK(std::abs(voxels[i] - voxels[i + kPlane]) <= 2.001F);  // the noise of both
  }
}

TEST_CASE("images with labelled pixels cannot be shifted, and only synthetic has them") {
  const auto dataset = Fields();
  CHECK(absl::IsInvalidArgument(BatchOfStep(*dataset, {.batch = 1, .flip = true}, 0).status()));
  const absl::Status status = OpenDataset("cifar10:nowhere", {.label_pixels = true}).status();
  CHECK(absl::IsInvalidArgument(status));
  CHECK(std::string(status.message()).find("no labels for pixels") != std::string::npos);
}

TEST_CASE("a bilinear weight enlarges each channel independently") {
  const Tensor odd = {.spec = {.shape = {2, 2, 1, 3}}, .init = {Init::Kind::kBilinear}};
  CHECK(InitialValues(odd, 1) ==
        std::vector<float>{0.5F, 1, 0.5F, 0, 0, 0, 0, 0, 0, 0.5F, 1, 0.5F});
  const Tensor even = {.spec = {.shape = {1, 1, 4, 1}}, .init = {Init::Kind::kBilinear}};
  CHECK(InitialValues(even, 1) == std::vector<float>{0.25F, 0.75F, 0.75F, 0.25F});
}

}  // namespace
}  // namespace neap
