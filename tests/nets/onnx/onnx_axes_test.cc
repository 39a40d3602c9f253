// Networks of sequences and volumes in ONNX files.
#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "neap/core/step/specify.h"
#include "neap/layers/batch_norm.h"
#include "neap/layers/channel_shuffle.h"
#include "neap/layers/channel_slice.h"
#include "neap/layers/convolution.h"
#include "neap/layers/cpu/cpu_device.h"
#include "neap/layers/crop.h"
#include "neap/layers/lrn.h"
#include "neap/layers/norm/group_norm.h"
#include "neap/layers/norm/layer_norm.h"
#include "neap/layers/pooling.h"
#include "neap/layers/target_loss.h"
#include "neap/layers/transposed_convolution.h"
#include "neap/layers/zero_pad.h"
#include "neap/memory/create_session.h"
#include "neap/nets/onnx/onnx_file.h"
#include "tests/nets/onnx/onnx_builder.h"
#include "tests/nets/onnx/onnx_checks.h"

namespace neap::testing {
namespace {

using nets::OnnxModel;
using nets::ReadOnnx;

OnnxModel Read(const std::string& path, const Layer& loss = MeanSquaredError{}) {
  absl::StatusOr<OnnxModel> model = ReadOnnx(path, {.batch = 2, .loss = loss});
  REQUIRE_MESSAGE(model.ok(), model.status().ToString());
  return *std::move(model);
}

// A network of one layer, written and read again.
Layer WrittenAndRead(const Layer& layer, const Shape& input) {
  Graph net({.name = "n", .batch = 2});
  const std::string x = net.Add("layer", layer, {net.Input(input)});
  const TensorSpec given = {
      .shape = SpatialShape(2, input[0], {input.dims().begin() + 1, input.dims().size() - 1})};
  const LayerSpec spec = layer.Specify({.inputs = {given}}).value();
  const Shape::Dims& dims = spec.output.shape.dims();
  net.TargetLoss(x, MeanSquaredError{}, Shape(Shape::Dims(dims.begin() + 1, dims.end())));
  NamedValues weights;
  for (const ParamSpec& param : spec.params)
    weights["layer." + param.name].assign(static_cast<size_t>(param.tensor.elements()), 0.5F);
  for (const StateSpec& state : spec.states)
    weights["layer." + state.name].assign(static_cast<size_t>(state.tensor.elements()), 0.5F);
  const ScratchDirectory directory;
  const absl::Status written = nets::WriteOnnx(directory.File("n.onnx"), net, weights);
  REQUIRE_MESSAGE(written.ok(), written.ToString());
  const OnnxModel model = Read(directory.File("n.onnx"));
  REQUIRE(model.graph.layers().size() == net.layers().size());
  CHECK(Resolve(model.graph, Mode::kTraining)->layers[1].spec.output == spec.output);
  return model.graph.layers()[1].layer;
}

TEST_CASE("layers of sequences are read as they were written") {
  for (const Layer& layer : std::vector<Layer>{
           Convolution{.out_channels = 4,
   .kernel = Extents::Of({5}),
   .stride = Extents::Of({2}),
   .padding = Extents::Of({1}),
   .dilation = Extents::Of({2}),
   .groups = 2},
           TransposedConvolution{.out_channels = 3,
           .kernel = Extents::Of({4}),
           .stride = Extents::Of({2}),
           .padding = Extents::Of({1})},
           MaxPool{.kernel = Extents::Of({3}),
           .stride = Extents::Of({2}),
           .padding = Extents::Of({1}),
           .ceil_mode = true},
           AveragePool{
               .kernel = Extents::Of({4}), .stride = Extents::Of({2}), .padding = Extents::Of({0})},
           GlobalAveragePool{}, BatchNorm{}, GroupNorm{.groups = 2}, GroupNorm{.groups = 6},
           GroupNorm{.groups = 3, .affine = false}, InstanceNorm{.epsilon = 0.1F},
           InstanceNorm{.affine = true}, LayerNorm{}, LayerNorm{.affine = false},
           LocalResponseNorm{.size = 3}, Crop{.size = Extents::Of({7}), .offset = Extents::Of({3})},
           ZeroPad{.left = 2, .right = 1}, ChannelShuffle{.groups = 3},
           ChannelSlice{.first = 0, .count = 4}}) {
    CAPTURE(layer.type());
    CHECK(WrittenAndRead(layer, {6, 16}).Parameters() == layer.Parameters());
  }
}

TEST_CASE("norms of sequences of one position are read as they were written") {
  for (const int64_t channels : {1, 6}) {
    for (const Layer& layer :
         std::vector<Layer>{GroupNorm{.groups = channels}, GroupNorm{},
                            GroupNorm{.groups = channels, .affine = false, .bias = true},
                            GroupNorm{.groups = channels, .bias = false},
                            InstanceNorm{.affine = true}, LayerNorm{}}) {
      CAPTURE(layer.type());
      CHECK(WrittenAndRead(layer, {channels, 1}).Parameters() == layer.Parameters());
      CHECK(WrittenAndRead(layer, {channels, 1, 1}).Parameters() == layer.Parameters());
      CHECK(WrittenAndRead(layer, {channels, 1, 1, 1}).Parameters() == layer.Parameters());
    }
  }
}

TEST_CASE("layers of volumes are read as they were written") {
  for (const Layer& layer : std::vector<Layer>{
           Convolution{.out_channels = 4,
   .kernel = {3, 2, 1},
   .stride = {1, 2, 1},
   .padding = {1, 0, 0},
   .dilation = {1, 1, 2}},
           TransposedConvolution{
               .out_channels = 3, .kernel = {2, 2, 2}, .stride = {2, 2, 2}, .padding = {0, 0, 0}},
           MaxPool{.kernel = {3, 2, 3}, .stride = {2, 2, 1}, .padding = {1, 0, 1}},
           AveragePool{.kernel = {2, 2, 2}, .stride = {1, 2, 2}, .padding = {0, 0, 1}},
           GlobalAveragePool{}, BatchNorm{}, GroupNorm{.groups = 6}, GroupNorm{.groups = 3},
           InstanceNorm{}, InstanceNorm{.affine = true}, LayerNorm{.epsilon = 0.1F},
           LocalResponseNorm{.size = 3}, Crop{.size = {2, 3, 4}, .offset = {0, 1, 2}},
           ZeroPad{.top = 1, .left = 2, .bottom = 3, .right = 4, .front = 5, .back = 6},
           ChannelShuffle{.groups = 2}, ChannelSlice{.first = 2, .count = 3}}) {
    CAPTURE(layer.type());
    CHECK(WrittenAndRead(layer, {6, 4, 5, 6}).Parameters() == layer.Parameters());
  }
}

TEST_CASE("a network of sequences computes what its ONNX file says") {
  constexpr int64_t kIn = 3, kOut = 4, kLength = 11, kKernel = 3, kClasses = 5;
  OnnxBuilder model({2, kIn, kLength});
  std::vector<float> weight(kOut * kIn * kKernel), bias(kOut);
  for (size_t i = 0; i < weight.size(); ++i) weight[i] = static_cast<float>(i * 7 % 13) / 8 - 0.75F;
  for (size_t i = 0; i < bias.size(); ++i) bias[i] = static_cast<float>(i) / 4 - 0.5F;
  // More zeros before than behind, a stride, dilation.
  const std::string conv =
      model.Node("Conv",
                 {"x", model.Floats("c.weight", {kOut, kIn, kKernel}, weight),
                  model.Floats("c.bias", {kOut}, bias)},
                 {{"pads", Ints{2, 0}}, {"strides", Ints{2}}, {"dilations", Ints{2}}});
  const std::string pool =
      model.Node("MaxPool", {conv}, {{"kernel_shape", Ints{2}}, {"strides", Ints{1}}});
  std::vector<float> matrix(kOut * 4 * kClasses);  // {in, out}
  for (size_t i = 0; i < matrix.size(); ++i)
    matrix[i] = static_cast<float>(i * 11 % 17) / 16 - 0.5F;
  model.Output(model.Node("Gemm", {model.Node("Flatten", {pool}),
                                   model.Floats("m.weight", {kOut * 4, kClasses}, matrix)}));
  const ScratchDirectory directory;
  const std::string path = model.Write(directory);
  const OnnxModel read = Read(path);
  CHECK(read.graph.layers()[0].layer.Parameters().find("2x3x11 fp32 ncw") == 0);

  std::vector<float> x(2 * kIn * kLength);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i * 37 % 101) / 50 - 1;
  const int64_t positions = (kLength + 2 - 2 * (kKernel - 1) - 1) / 2 + 1;  // 5
  REQUIRE(positions == 5);
  std::vector<double> pooled;
  for (int64_t n = 0; n < 2; ++n) {
    for (int64_t o = 0; o < kOut; ++o) {
      std::vector<double> y;
      for (int64_t p = 0; p < positions; ++p) {
        double sum = static_cast<double>(bias[static_cast<size_t>(o)]);
        for (int64_t c = 0; c < kIn; ++c) {
          for (int64_t k = 0; k < kKernel; ++k) {
            const int64_t at = 2 * p - 2 + 2 * k;
            if (at < 0 || at >= kLength) continue;
            sum += static_cast<double>(x[static_cast<size_t>((n * kIn + c) * kLength + at)]) *
                   static_cast<double>(weight[static_cast<size_t>((o * kIn + c) * kKernel + k)]);
          }
        }
        y.push_back(sum);
      }
      for (size_t p = 0; p + 1 < y.size(); ++p) pooled.push_back(std::max(y[p], y[p + 1]));
    }
  }
  for (const Layout layout : {Layout::kChannelsFirst, Layout::kChannelsLast}) {
    const absl::StatusOr<OnnxModel> placed =
        ReadOnnx(path, {.batch = 2, .layout = layout, .loss = MeanSquaredError{}});
    REQUIRE(placed.ok());
    const std::unique_ptr<CpuDevice> device = CpuDevice::Open().value();
    Session session = CreateSession(placed->graph, *device, {}, {.inference_only = true}).value();
    REQUIRE(session.LoadWeights(placed->weights).ok());
    const std::vector<float> got = session.Predict(x).value().logits;
    REQUIRE(got.size() == 2 * kClasses);
    for (size_t n = 0; n < 2; ++n) {
      for (size_t k = 0; k < kClasses; ++k) {
        double want = 0;
        for (size_t i = 0; i < kOut * 4; ++i)
          want += pooled[n * kOut * 4 + i] * static_cast<double>(matrix[i * kClasses + k]);
        CHECK(static_cast<double>(got[n * kClasses + k]) == doctest::Approx(want).epsilon(1e-4));
      }
    }
  }
}

TEST_CASE("windows over volumes compute what ONNX says") {
  CheckOneNode({"Conv",
                {2, 3, 5, 6, 4},
                {4, 3, 3, 3, 3},
                {{"pads", Ints{1, 1, 1, 1, 1, 1}}},
                4 * 5 * 6 * 4,
                true});
  // More padding behind the volume than before, along one axis.
  CheckOneNode({"Conv",
                {2, 4, 5, 7, 6},
                {6, 2, 3, 2, 2},
                {{"pads", Ints{1, 2, 0, 1, 2, 1}},
                 {"strides", Ints{2, 1, 2}},
                 {"dilations", Ints{1, 2, 1}},
                 {"group", int64_t{2}}},
                6 * 3 * 9 * 3});
  CheckOneNode({"ConvTranspose",
                {2, 3, 2, 3, 4},
                {3, 2, 2, 3, 2},
                {{"strides", Ints{2, 1, 3}}, {"pads", Ints{0, 1, 0, 0, 1, 1}}},
                2 * 4 * 3 * 10,
                true});
  CheckOneNode({"MaxPool",
                {2, 3, 5, 7, 6},
                {},
                {{"kernel_shape", Ints{2, 3, 2}},
                 {"strides", Ints{2, 2, 1}},
                 {"pads", Ints{0, 1, 1, 0, 1, 0}},
                 {"ceil_mode", int64_t{1}}},
                3 * 3 * 4 * 6});
  for (const int64_t counts : {0, 1}) {
    CheckOneNode({"AveragePool",
                  {2, 3, 4, 7, 6},
                  {},
                  {{"kernel_shape", Ints{2, 3, 3}},
                   {"strides", Ints{1, 2, 3}},
                   {"pads", Ints{1, 1, 0, 1, 1, 0}},
                   {"count_include_pad", counts}},
                  3 * 5 * 4 * 2});
  }
}

TEST_CASE("a network of volumes is read, and trains") {
  OnnxBuilder model({2, 3, 8, 9, 10});
  std::string x = model.Node("Conv", {"x", model.Random("c.weight", {4, 3, 3, 3, 3})},
                             {{"pads", Ints{1, 1, 1, 1, 1, 1}}, {"strides", Ints{1, 2, 2}}});
  x = model.Node("AveragePool", {x}, {{"kernel_shape", Ints{2, 2, 2}}, {"strides", Ints{2, 2, 2}}});
  x = model.Node("GlobalAveragePool", {model.Node("Relu", {x})});
  model.EndWithClasses(model.Node("Flatten", {x}), 4);
  const ScratchDirectory directory;
  const OnnxModel read = Read(model.Write(directory));
  const absl::StatusOr<ResolvedGraph> resolved = Resolve(read.graph, Mode::kTraining);
  REQUIRE(resolved.ok());
  CHECK(resolved->layers[1].spec.output.ToString() == "2x4x8x5x5 fp32 ncdhw");
  CHECK(
      resolved->layers[1].layer.Parameters() ==
      "out_channels=4 kernel=3x3x3 stride=1x2x2 padding=1x1x1 dilation=1x1x1 groups=1 bias=false");
  CHECK(resolved->layers[2].spec.output.ToString() == "2x4x4x2x2 fp32 ncdhw");
  const std::unique_ptr<CpuDevice> device = CpuDevice::Open().value();
  Session session = CreateSession(read.graph, *device, {}).value();
  REQUIRE(session.LoadWeights(read.weights).ok());
  Batch batch = {.images = std::vector<float>(2 * 3 * 8 * 9 * 10),
                 .size = 2,
                 .targets = std::vector<float>(2 * 5, 0.5F)};
  for (size_t i = 0; i < batch.images.size(); ++i)
    batch.images[i] = static_cast<float>(i * 37 % 101) / 50 - 1;
  const float first = session.TrainStep(batch).value();
  float last = first;
  for (int step = 0; step < 5; ++step) last = session.TrainStep(batch).value();
  CHECK(last < first);
}

}  // namespace
}  // namespace neap::testing
