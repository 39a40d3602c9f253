// How poolings and layers with constants are written: ONNX computes the same sizes and values,
// whoever reads them, and neap reads the same layers again.
#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <vector>

#include "neap/core/run/session.h"
#include "neap/layers/activation.h"
#include "neap/layers/channel_shuffle.h"
#include "neap/layers/channel_slice.h"
#include "neap/layers/channel_split.h"
#include "neap/layers/cpu/cpu_device.h"
#include "neap/layers/join.h"
#include "neap/layers/norm/softmax.h"
#include "neap/layers/pooling.h"
#include "neap/layers/scale_shift.h"
#include "neap/layers/shape/permute.h"
#include "neap/layers/shape/reshape.h"
#include "neap/layers/target_loss.h"
#include "neap/layers/tokens/position_embedding.h"
#include "neap/memory/create_session.h"
#include "neap/nets/onnx/onnx_file.h"
#include "onnx_schema.pb.h"
#include "tests/nets/onnx/onnx_checks.h"
#include "tests/scratch_directory.h"

namespace neap::testing {
namespace {

using nets::OnnxModel;
using nets::OnnxOptions;

Graph Of(const Layer& layer, const Shape& chw) {
  Graph net({.name = "n", .batch = 2});
  const std::string x = net.Add("layer", layer, {net.Input(chw)});
  const LayerSpec spec =
      layer.Specify({.inputs = {{.shape = {2, chw[0], chw[1], chw[2]}}}}).value();
  const Shape::Dims& dims = spec.output.shape.dims();
  net.TargetLoss(x, MeanSquaredError{}, Shape(Shape::Dims(dims.begin() + 1, dims.end())));
  return net;
}

struct Written {
  onnx_schema::Model model;
  OnnxModel read;
};

Written WriteAndRead(const Graph& net) {
  const ScratchDirectory directory;
  const std::string path = directory.File("n.onnx");
  const absl::Status written = nets::WriteOnnx(path, net, WeightsOf(net));
  REQUIRE_MESSAGE(written.ok(), written.ToString());
  const OnnxOptions options = {.batch = 2, .loss = MeanSquaredError{}};
  absl::StatusOr<OnnxModel> read = nets::ReadOnnx(path, options);
  REQUIRE_MESSAGE(read.ok(), read.status().ToString());
  Written result = {.model = {}, .read = *std::move(read)};
  REQUIRE(result.model.ParseFromString(ReadText(path)));
  return result;
}

std::vector<float> Computed(const Graph& net, const NamedValues& weights, int64_t elements) {
  const std::unique_ptr<CpuDevice> device = CpuDevice::Open().value();
  Session session = CreateSession(net, *device, {}, {.inference_only = true}).value();
  REQUIRE(session.LoadWeights(weights).ok());
  std::vector<float> images(static_cast<size_t>(elements));
  for (size_t i = 0; i < images.size(); ++i) images[i] = static_cast<float>(i * 37 % 101) / 50 - 1;
  return session.Predict(images).value().probabilities;
}

const onnx_schema::Attribute* Find(const onnx_schema::Node& node, const std::string& name) {
  for (const auto& attribute : node.attribute()) {
    if (attribute.name() == name) return &attribute;
  }
  return nullptr;
}

// The size that ONNX's shape inference, and ONNX Runtime, give an axis of a pooling's output.
int64_t SizeInOnnx(const onnx_schema::Node& node, int axis, int64_t size) {
  const auto& pads = Find(node, "pads")->ints();
  const bool ceils = Find(node, "ceil_mode") != nullptr && Find(node, "ceil_mode")->i() != 0;
  const int64_t kernel = Find(node, "kernel_shape")->ints(axis);
  const int64_t stride = Find(node, "strides")->ints(axis);
  const onnx_schema::Attribute* const dilations = Find(node, "dilations");
  const int64_t dilation = dilations == nullptr ? 1 : dilations->ints(axis);
  const int64_t reach = (kernel - 1) * dilation + 1;
  const int64_t slack = size + pads[axis] + pads[axis + 2] - reach;
  CHECK(pads[axis + 2] < reach);
  return (slack + (ceils ? stride - 1 : 0)) / stride + 1;
}

template <typename Pool>
void CheckPool(const Pool& pool, const Shape& chw) {
  CAPTURE(Layer(pool).Parameters());
  CAPTURE(chw.ToString());
  const Graph net = Of(pool, chw);
  const Written written = WriteAndRead(net);
  const auto& nodes = written.model.graph().node();
  const onnx_schema::Node& last = nodes[nodes.size() - 1];
  const auto& output = written.model.graph().output(0).type().tensor_type().shape();
  const bool is_padded = nodes.size() > 1;  // by a Pad of its own
  if (output.dim_size() == 4) {
    CHECK(SizeInOnnx(last, 0, chw[1] + (is_padded ? 2 * pool.padding.h() : 0)) ==
          output.dim(2).dim_value());
    CHECK(SizeInOnnx(last, 1, chw[2] + (is_padded ? 2 * pool.padding.w() : 0)) ==
          output.dim(3).dim_value());
  }
  const int64_t elements = 2 * chw[0] * chw[1] * chw[2];
  CHECK(Computed(written.read.graph, {}, elements) == Computed(net, {}, elements));
}

TEST_CASE("poolings are written with the sizes that they have, however the last window ends") {
  for (const bool ceil_mode : {false, true}) {
    for (const int64_t height : {4, 5, 6, 7}) {
      for (const int64_t stride : {1, 2, 3}) {
        for (const int64_t padding : {0, 1}) {
          const Extents kernel = {2, 3};
          const Shape chw = {2, height, 6};
          CheckPool(MaxPool{kernel, stride, padding, ceil_mode}, chw);
          for (const bool counts : {false, true})
            CheckPool(AveragePool{kernel, {stride, 2}, padding, counts, ceil_mode}, chw);
        }
      }
    }
  }
}

TEST_CASE("poolings with dilation are written with it, and averages with an opset that has it") {
  for (const bool ceil_mode : {false, true}) {
    for (const int64_t height : {5, 6, 7, 8}) {
      for (const int64_t stride : {1, 2, 3}) {
        for (const int64_t padding : {0, 1, 2}) {
          const Extents kernel = {2, 3};
          const Extents dilation = {3, 2};
          const Shape chw = {2, height, 6};
          CheckPool(MaxPool{kernel, stride, padding, ceil_mode, dilation}, chw);
          for (const bool counts : {false, true})
            CheckPool(AveragePool{kernel, {stride, 2}, padding, counts, ceil_mode, dilation}, chw);
        }
      }
    }
  }
  const MaxPool max = {.kernel = 3, .stride = 2, .padding = 2, .dilation = {2, 3}};
  const Written maxima = WriteAndRead(Of(max, {3, 9, 9}));
  const auto& dilations = Find(maxima.model.graph().node(0), "dilations")->ints();
  CHECK(std::vector<int64_t>(dilations.begin(), dilations.end()) == std::vector<int64_t>{2, 3});
  CHECK(maxima.read.graph.layers()[1].layer == Layer(max));
  CHECK(maxima.model.opset_import(0).version() == 17);
  const AveragePool average = {.kernel = 3, .stride = 2, .padding = 2, .dilation = {2, 3}};
  const Written means = WriteAndRead(Of(average, {3, 9, 9}));
  CHECK(means.read.graph.layers()[1].layer == Layer(average));
  CHECK(means.model.opset_import(0).version() == 19);
  CHECK(means.model.ir_version() == 9);
}

TEST_CASE("a pooling that neap reads with more padding behind the image is written as one") {
  const MaxPool pool = {.kernel = {1, 2}, .stride = 2, .padding = 0, .ceil_mode = true};
  const Written written = WriteAndRead(Of(pool, {3, 4, 3}));
  const onnx_schema::Node& node = written.model.graph().node(0);
  CHECK(Find(node, "ceil_mode") == nullptr);
  const auto& pads = Find(node, "pads")->ints();
  CHECK(std::vector<int64_t>(pads.begin(), pads.end()) == std::vector<int64_t>{0, 0, 0, 1});
  CHECK(written.read.graph.layers()[1].layer == Layer(pool));
}

TEST_CASE("scales, softmaxes, slices and shuffles of channels are read as they were written") {
  for (const Layer& layer : {Layer(ScaleShift{.scale = 3, .shift = -0.5F}),
                             Layer(ScaleShift{.scale = 0.1F, .shift = 0}),
                             Layer(ScaleShift{.scale = 1, .shift = 2}),
                             Layer(ScaleShift{.scale = 1, .shift = 0}),
                             Layer(Reshape{{6, 6}}),
                             Layer(Reshape{{2, 9, 2}}),
                             Layer(Reshape{{6, 3, 2}}),
                             Layer(Permute{{1, 3, 2}}),
                             Layer(Permute{{2, 3, 1}}),
                             Layer(Permute{{1, 2, 3}}),
                             Layer(Softmax{}),
                             Layer(Softmax{.axis = 3}),
                             Layer(Softmax{.axis = 2, .logarithm = true}),
                             Layer(ScaleShift{.learns_scale = true}),
                             Layer(ScaleShift{.learns_shift = true}),
                             Layer(ScaleShift{.learns_scale = true, .learns_shift = true}),
                             Layer(ScaleShift{.shift = 2, .learns_scale = true}),
                             Layer(ScaleShift{.scale = 3, .learns_shift = true}),
                             Layer(ChannelSlice{.first = 1, .count = 3}),
                             Layer(ChannelShuffle{.groups = 2}),
                             Layer(ChannelShuffle{.groups = 3})}) {
    CAPTURE(layer.type());
    const Graph net = Of(layer, {6, 3, 2});
    const OnnxModel read = WriteAndRead(net).read;
    REQUIRE(read.graph.layers().size() == net.layers().size());
    CHECK(read.graph.layers()[1].name == "layer");
    CHECK(read.graph.layers()[1].layer == layer);
    CHECK(Computed(read.graph, read.weights, 72) == Computed(net, WeightsOf(net), 72));
  }
}

TEST_CASE("numbers of channels and of positions are told apart where there is one position") {
  for (const Layer& layer : {Layer(ScaleShift{.learns_shift = true}), Layer(PositionEmbedding{})}) {
    const Graph net = Of(layer, {6, 1, 1});
    CHECK(WriteAndRead(net).read.graph.layers()[1].layer == layer);
  }
}

TEST_CASE("a split of channels is one node with several outputs") {
  Graph net({.name = "n", .batch = 2});
  net.Add("parts", ChannelSplit{.channels = {3, 1, 2}}, {net.Input({6, 3, 2})});
  net.Add("gate", Sigmoid{}, {"parts:1"});
  net.Add("joined", Concat{}, {"gate", "parts:2", "parts", OutputName("parts", 1)});
  net.TargetLoss("joined", MeanSquaredError{}, {7, 3, 2});
  const Written written = WriteAndRead(net);
  CHECK(written.model.graph().node(0).op_type() == "Split");
  CHECK(written.model.graph().node(0).output_size() == 3);
  CHECK(written.read.graph.layers() == net.layers());
  CHECK(Computed(written.read.graph, {}, 72) == Computed(net, {}, 72));
}

TEST_CASE("a split of which one output is read is a slice") {
  Graph net({.name = "n", .batch = 2});
  net.Add("parts", ChannelSplit{.channels = {3, 1, 2}}, {net.Input({6, 3, 2})});
  net.TargetLoss("parts:2", MeanSquaredError{}, {2, 3, 2});
  const Graph read = WriteAndRead(net).read.graph;
  CHECK(read.layers()[1].layer == Layer(ChannelSlice{.first = 4, .count = 2}));
  CHECK(Computed(read, {}, 72) == Computed(net, {}, 72));
}

}  // namespace
}  // namespace neap::testing
