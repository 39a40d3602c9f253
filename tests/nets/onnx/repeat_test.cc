// Layers that repeat images along their axes from and to ONNX: Tile, and Expand of axes of 1.
#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <vector>

#include "neap/layers/cpu/cpu_device.h"
#include "neap/layers/shape/tile.h"
#include "neap/layers/target_loss.h"
#include "neap/memory/create_session.h"
#include "neap/nets/onnx/onnx_file.h"
#include "tests/nets/onnx/array_reference.h"
#include "tests/nets/onnx/onnx_builder.h"
#include "tests/nets/onnx/onnx_checks.h"
#include "tests/scratch_directory.h"

namespace neap::testing::onnx_repeat_test {
namespace {

using nets::OnnxModel;
using nets::ReadOnnx;

absl::StatusOr<OnnxModel> Read(const OnnxBuilder& model) {
  const ScratchDirectory directory;
  return ReadOnnx(model.Write(directory), {.batch = 2, .loss = MeanSquaredError{}});
}

std::vector<Layer> LayersOf(const OnnxBuilder& model) {
  const absl::StatusOr<OnnxModel> read = Read(model);
  REQUIRE_MESSAGE(read.ok(), read.status().ToString());
  std::vector<Layer> layers;
  for (const GraphLayer& layer : read->graph.layers()) layers.push_back(layer.layer);
  return layers;
}

// The images of these extents, or their average over all positions, as the operator repeats them.
OnnxBuilder Repeating(const Ints& image, const std::string& op, const Ints& by,
                      bool averages = false) {
  OnnxBuilder model(image);
  const std::string x = averages ? model.Node("GlobalAveragePool", {"x"}) : "x";
  model.Output(model.Node(op, {x, model.Integers("by", by)}));
  return model;
}

TEST_CASE("a Tile is one layer, whichever axes of images it repeats") {
  const Ints image = {1, 2, 4, 5};
  for (const Ints& by : {Ints{1, 1, 1, 3}, {1, 1, 2, 1}, {1, 3, 1, 1}, {1, 2, 3, 2}}) {
    const OnnxBuilder model = Repeating(image, "Tile", by);
    const std::vector<Layer> layers = LayersOf(model);
    REQUIRE(layers.size() == 4);
    CHECK(layers[1] == Layer(Tile{.repeats = {by[2], by[3]}, .channels = by[1]}));
    CheckComputes(model, image, MeanSquaredError{});
  }
  CHECK(LayersOf(Repeating(image, "Tile", {1, 1, 1, 1})).size() == 3);  // nothing
}

TEST_CASE("an Expand repeats axes of 1, and others it leaves") {
  const Ints image = {1, 3, 4, 5};
  for (const Ints& by : {Ints{1, 3, 4, 2}, {1, 1, 2, 3}}) {
    const OnnxBuilder model = Repeating(image, "Expand", by, true);
    const std::vector<Layer> layers = LayersOf(model);
    REQUIRE(layers.size() == 5);
    CHECK(layers[2] == Layer(Tile{.repeats = {by[2], by[3]}}));
    CheckComputes(model, image, MeanSquaredError{});
  }
  const OnnxBuilder channels = Repeating({1, 1, 4, 5}, "Expand", {1, 6, 1, 1});
  CHECK(LayersOf(channels)[1] == Layer(Tile{.repeats = {1, 1}, .channels = 6}));
  CheckComputes(channels, {1, 1, 4, 5}, MeanSquaredError{});
}

// What neap computes of two images is what the graph computes of each.
void CheckImages(OnnxBuilder& model, Ints image) {
  const absl::StatusOr<OnnxModel> read = Read(model);
  REQUIRE_MESSAGE(read.ok(), read.status().ToString());
  const int64_t each = Elements(image);
  std::vector<float> images(static_cast<size_t>(2 * each));
  for (size_t i = 0; i < images.size(); ++i) images[i] = static_cast<float>(i);
  const std::unique_ptr<CpuDevice> device = CpuDevice::Open().value();
  absl::StatusOr<Session> session =
      CreateSession(read->graph, *device, {}, {.inference_only = true});
  REQUIRE_MESSAGE(session.ok(), session.status().ToString());
  const std::vector<float> got = session->Predict(images).value().logits;
  std::vector<float> want;
  for (const int64_t n : {0, 1}) {
    ReferenceTensor x = {image, {images.begin() + n * each, images.begin() + (n + 1) * each}};
    for (const double value : RunArrays(model.graph(), x).values)
      want.push_back(static_cast<float>(value));
  }
  CHECK(got == want);
}

TEST_CASE("an axis that no layer has gets one before it is repeated") {
  // Each channel twice, each pixel as a block of 2 x 3, or both.
  const Ints image = {1, 3, 4, 5};
  for (const Ints& by : {Ints{1, 3, 2, 4, 1, 5, 1}, {1, 3, 1, 4, 2, 5, 3}, {1, 1, 2, 1, 2, 1, 3}}) {
    OnnxBuilder model(image);
    const Ints between = {1, 3, 1, 4, 1, 5, 1};
    const Ints after = {1, 3 * by[2], 4 * by[4], 5 * by[6]};
    std::string x = model.Node("Reshape", {"x", model.Integers("between", between)});
    x = model.Node("Expand", {x, model.Integers("by", by)});
    model.Output(model.Node("Reshape", {x, model.Integers("after", after)}));
    CheckImages(model, image);
  }
}

TEST_CASE("a Tile of other axes than images have repeats those") {
  const Ints image = {1, 6, 4, 5};
  OnnxBuilder last(image);  // the channels
  std::string x = last.Node("Transpose", {"x"}, {{"perm", Ints{0, 2, 3, 1}}});
  x = last.Node("Tile", {x, last.Integers("by", {1, 2, 1, 3})});
  last.Output(last.Node("Transpose", {x}, {{"perm", Ints{0, 3, 1, 2}}}));
  CHECK(LayersOf(last)[1] == Layer(Tile{.repeats = {2, 1}, .channels = 3}));
  CheckImages(last, image);

  OnnxBuilder groups(image);  // of channels, and rows
  x = groups.Node("Reshape", {"x", groups.Integers("between", {1, 2, 3, 4, 5})});
  x = groups.Node("Tile", {x, groups.Integers("by", {1, 2, 3, 2, 1})});
  groups.Output(groups.Node("Reshape", {x, groups.Integers("after", {1, 36, 8, 5})}));
  CheckImages(groups, image);

  OnnxBuilder vectors(image);
  x = vectors.Node("Reshape", {"x", vectors.Integers("flat", {1, 120})});
  vectors.Output(vectors.Node("Tile", {x, vectors.Integers("by", {1, 2})}));
  CheckImages(vectors, image);
}

TEST_CASE("images are not repeated, and no axis less than once") {
  const auto message = [](const std::string& op, const Ints& by) {
    return std::string(Read(Repeating({2, 1, 4, 5}, op, by)).status().message());
  };
  const auto says = [](const std::string& text, const std::string& part) {
    CAPTURE(text);
    CHECK(text.find(part) != std::string::npos);
  };
  says(message("Tile", {2, 1, 1, 1}), "it repeats images");
  says(message("Tile", {1, 1, 0, 1}), "it repeats an axis 0 times");
  says(message("Tile", {1, 1, 1}), "it does not say how often each axis is repeated");
  says(message("Expand", {1, 1, 3, 1}), "its shape does not fit its input");
  says(message("Expand", {3, 2, 1, 4, 5}), "its shape has more axes than its input");
}

TEST_CASE("layers that repeat images are read as they were written") {
  for (const Shape& image : {Shape{3, 6}, Shape{1, 6, 4}, Shape{2, 1, 1}, Shape{2, 3, 4, 2}}) {
    CAPTURE(image.ToString());
    const auto axes = static_cast<size_t>(image.rank()) - 1;
    const std::vector<int64_t> counts = {2, 1, 3};
    const Extents some = Extents::Of(absl::MakeConstSpan(counts).first(axes));
    const Extents ones = Extents::Of(std::vector<int64_t>(axes, 1));
    for (const Tile& tile : {Tile{some}, Tile{some, 4}, Tile{ones, 2}, Tile{ones}}) {
      CAPTURE(tile.Parameters());
      Graph net({.name = "n", .batch = 2});
      const std::string x = net.Add("layer", tile, {net.Input(image)});
      Shape::Dims out = image.dims();
      out[0] *= tile.channels;
      for (size_t i = 0; i < axes; ++i) out[i + 1] *= tile.repeats[static_cast<int>(i)];
      net.TargetLoss(x, MeanSquaredError{}, Shape(out));
      const ScratchDirectory directory;
      const std::string path = directory.File("n.onnx");
      REQUIRE(nets::WriteOnnx(path, net, {}).ok());
      const absl::StatusOr<OnnxModel> read =
          ReadOnnx(path, {.batch = 2, .loss = MeanSquaredError{}});
      REQUIRE_MESSAGE(read.ok(), read.status().ToString());
      REQUIRE(read->graph.layers().size() == net.layers().size());
      CHECK(read->graph.layers()[1].layer == Layer(tile));
    }
  }
}

}  // namespace
}  // namespace neap::testing::onnx_repeat_test
