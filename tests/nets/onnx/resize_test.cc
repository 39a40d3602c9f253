// Layers that give images other extents from and to ONNX: Resize in all opsets, Upsample,
// DepthToSpace, SpaceToDepth, and shuffles of pixels by reshapes.
#include "neap/layers/resize/resize.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "neap/layers/pooling.h"
#include "neap/layers/resize/pixel_shuffle.h"
#include "neap/layers/target_loss.h"
#include "neap/nets/onnx/onnx_file.h"
#include "onnx_schema.pb.h"
#include "tests/nets/onnx/onnx_builder.h"
#include "tests/nets/onnx/onnx_checks.h"
#include "tests/scratch_directory.h"

namespace neap::testing::onnx_resize_test {
namespace {

using nets::OnnxModel;
using nets::ReadOnnx;

void SetOpset(OnnxBuilder& model, int64_t opset) {
  model.model().mutable_opset_import(0)->set_version(opset);
}

absl::StatusOr<OnnxModel> Read(const OnnxBuilder& model) {
  const ScratchDirectory directory;
  return ReadOnnx(model.Write(directory), {.batch = 2});
}

std::string MessageOf(const OnnxBuilder& model) {
  return std::string(Read(model).status().message());
}

// The first layer behind the images.
Layer FirstOf(const OnnxBuilder& model) {
  const absl::StatusOr<OnnxModel> read = Read(model);
  REQUIRE_MESSAGE(read.ok(), read.status().ToString());
  return read->graph.layers()[1].layer;
}

// A Resize of 2x4x5 images.
OnnxBuilder Resizing(const std::vector<float>& scales, const Ints& sizes,
                     const Attributes& attributes, const Ints& out) {
  OnnxBuilder model({1, 2, 4, 5});
  std::vector<std::string> inputs = {"x", ""};
  inputs.push_back(scales.empty() ? "" : model.Floats("scales", {std::ssize(scales)}, scales));
  if (!sizes.empty()) inputs.push_back(model.Integers("sizes", sizes));
  model.EndWithClasses(model.Node("Resize", inputs, attributes), 2 * out[0] * out[1]);
  return model;
}

TEST_CASE("a resize computes what ONNX says, in all modes and coordinates") {
  for (const char* const coordinates :
       {"half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"}) {
    CAPTURE(coordinates);
    const auto check = [&](Attributes attributes) {
      attributes.emplace_back("coordinate_transformation_mode", coordinates);
      for (const Layout layout : {Layout::kChannelsFirst, Layout::kChannelsLast}) {
        OnnxBuilder scaled = Resizing({1, 1, 1.5F, 2}, {}, attributes, {6, 10});
        CheckPredicts(scaled, {1, 2, 4, 5}, layout);
        OnnxBuilder sized = Resizing({}, {1, 2, 3, 8}, attributes, {3, 8});
        CheckPredicts(sized, {1, 2, 4, 5}, layout);
      }
    };
    for (const char* const nearest : {"floor", "ceil", "round_prefer_floor", "round_prefer_ceil"})
      check({{"mode", "nearest"}, {"nearest_mode", nearest}});
    check({{"mode", "linear"}});
    check({{"mode", "cubic"}});
    check({{"mode", "cubic"}, {"cubic_coeff_a", -0.5F}});
  }
}

TEST_CASE("axes, and attributes that make no difference, are read in later opsets") {
  OnnxBuilder axes = Resizing({}, {9, 6}, {{"mode", "linear"}, {"axes", Ints{3, -2}}}, {6, 9});
  SetOpset(axes, 18);
  CHECK(FirstOf(axes) == Layer(Resize{.sizes = Extents{6, 9}, .mode = Resize::Mode::kLinear}));
  OnnxBuilder smooth = Resizing(
      {2, 2}, {}, {{"mode", "linear"}, {"axes", Ints{2, 3}}, {"antialias", int64_t{1}}}, {8, 10});
  SetOpset(smooth, 19);
  CHECK(FirstOf(smooth) == Layer(Resize{.scales = {2}, .mode = Resize::Mode::kLinear}));
  OnnxBuilder symmetric = Resizing(
      {}, {1, 2, 3, 8},
      {{"mode", "linear"}, {"coordinate_transformation_mode", "half_pixel_symmetric"}}, {3, 8});
  SetOpset(symmetric, 19);
  CheckPredicts(symmetric, {1, 2, 4, 5});
}

TEST_CASE("before opset 11 positions are asymmetric, and smaller images take the next pixel") {
  for (const int opset : {9, 10}) {
    const char* const op = opset == 9 ? "Upsample" : "Resize";
    for (const char* const mode : {"nearest", "linear"}) {
      CAPTURE(op);
      CAPTURE(mode);
      OnnxBuilder model({1, 2, 4, 5});
      const std::string scales = model.Floats("scales", {4}, {1, 1, 2, 3});
      model.EndWithClasses(model.Node(op, {"x", scales}, {{"mode", mode}}), 2 * 8 * 15);
      SetOpset(model, opset);
      CHECK(FirstOf(model).As<Resize>()->coordinates == Resize::Coordinates::kAsymmetric);
      model.graph().mutable_node(0)->set_op_type("Upsample");  // as the reference knows it
      SetOpset(model, 9);
      CheckPredicts(model, {1, 2, 4, 5});
    }
  }
  OnnxBuilder smaller({1, 2, 4, 5});
  const std::string scales = smaller.Floats("scales", {4}, {1, 1, 0.6F, 0.6F});
  smaller.EndWithClasses(smaller.Node("Resize", {"x", scales}), 2 * 2 * 3);
  SetOpset(smaller, 10);
  CHECK(FirstOf(smaller) == Layer(Resize{.scales = {0.6},
                                         .coordinates = Resize::Coordinates::kAsymmetric,
                                         .rounding = Resize::Rounding::kCeil}));
}

TEST_CASE("scaled extents are products in fp32, which a layer has as sizes if fp64's are others") {
  const auto resizing = [](float height, float width, const Ints& out) {
    OnnxBuilder model({1, 1, 25, 3});
    const std::string scales = model.Floats("scales", {4}, {1, 1, height, width});
    const std::string y = model.Node("Resize", {"x", "", scales}, {{"mode", "linear"}});
    model.EndWithClasses(y, out[0] * out[1]);
    return model;
  };
  OnnxBuilder whole = resizing(1.16F, 2, {29, 6});  // 28 in fp64
  CHECK(FirstOf(whole) == Layer(Resize{.sizes = Extents{29, 6}, .mode = Resize::Mode::kLinear}));
  CheckPredicts(whole, {1, 1, 25, 3});
  OnnxBuilder same = resizing(0.7F, 0.7F, {17, 2});
  CHECK(FirstOf(same) == Layer(Resize{.scales = {0.7}, .mode = Resize::Mode::kLinear}));
  CheckPredicts(same, {1, 1, 25, 3});
  CHECK(absl::StrContains(MessageOf(resizing(1.16F, 0.7F, {29, 2})),
                          "are others in fp32 than in fp64, and not all are whole"));
}

TEST_CASE("sizes may be computed from shapes, and state the batch of the file") {
  OnnxBuilder model({1, 2, 4, 5});
  const std::string shape = model.Node("Shape", {"x"});
  const std::string both =
      model.Node("Slice", {shape, model.Integers("first", {0}), model.Integers("last", {2})});
  const std::string sizes =
      model.Node("Concat", {both, model.Integers("spatial", {6, 7})}, {{"axis", int64_t{0}}});
  const std::string resized =
      model.Node("Resize", {"x", "", "", sizes},
                 {{"mode", "linear"}, {"coordinate_transformation_mode", "pytorch_half_pixel"}});
  model.EndWithClasses(resized, 2 * 6 * 7);
  CHECK(FirstOf(model) == Layer(Resize{.sizes = Extents{6, 7}, .mode = Resize::Mode::kLinear}));
  const OnnxBuilder stated = Resizing({}, {1, 2, 6, 7}, {}, {6, 7});
  CHECK(FirstOf(stated) ==
        Layer(Resize{.sizes = Extents{6, 7}, .rounding = Resize::Rounding::kPreferFloor}));
}

TEST_CASE("a resize that changes nothing is no layer") {
  for (const OnnxBuilder& model :
       {Resizing({1, 1, 1, 1}, {}, {{"mode", "cubic"}}, {4, 5}),
        Resizing({}, {1, 2, 4, 5}, {{"coordinate_transformation_mode", "align_corners"}}, {4, 5})})
    CHECK(FirstOf(model).type() == "fully_connected");
}

TEST_CASE("what no layer resizes as ONNX does is refused by name") {
  const auto refused = [](const std::vector<float>& scales, const Ints& sizes,
                          const Attributes& attributes, const std::string& text) {
    OnnxBuilder model = Resizing(scales, sizes, attributes, {4, 5});
    SetOpset(model, 19);
    const std::string message = MessageOf(model);
    CAPTURE(message);
    CHECK(message.find(text) != std::string::npos);
  };
  const std::string coordinates = "coordinate_transformation_mode";
  refused({1, 2, 1, 1}, {}, {}, "it resizes other axes than the spatial ones");
  refused({}, {1, 4, 4, 5}, {}, "it resizes other axes than the spatial ones");
  refused({}, {7, 2, 4, 5}, {}, "it resizes other axes than the spatial ones");
  refused({2, 2}, {}, {}, "it has 2 scales or sizes for 4 axes");
  refused({1, 1, 2, 2}, {}, {{"mode", "area"}}, "attribute 'mode' is area");
  refused({1, 1, 2, 2}, {}, {{coordinates, "tf_crop_and_resize"}},
          "attribute 'coordinate_transformation_mode' is tf_crop_and_resize");
  refused({}, {1, 2, 1, 5}, {{coordinates, "pytorch_half_pixel"}},
          "pytorch_half_pixel, and an axis has one element left");
  refused({1, 1, 1.3F, 1}, {}, {{coordinates, "half_pixel_symmetric"}},
          "half_pixel_symmetric, and the size of an axis is rounded");
  refused({1, 1, 1.3F, 1}, {}, {{coordinates, "align_corners"}},
          "align_corners, and the size of an axis is rounded");
  refused({1, 1, 2, 2}, {}, {{"nearest_mode", "round"}}, "attribute 'nearest_mode' is round");
  refused({1, 1, 0.5F, 1}, {}, {{"mode", "linear"}, {"antialias", int64_t{1}}},
          "attribute 'antialias' is 1, and an axis becomes smaller");
  refused({1, 1, 2, 2}, {}, {{"mode", "cubic"}, {"exclude_outside", int64_t{1}}},
          "attribute 'exclude_outside' is 1");
  refused({}, {1, 2, 8, 8}, {{"keep_aspect_ratio_policy", "not_larger"}},
          "attribute 'keep_aspect_ratio_policy' is not_larger");
  refused({1, 1, 0.1F, 1}, {}, {}, "makes 0 positions of 4");
}

TEST_CASE("depth to space and back compute what ONNX says, in both orders") {
  for (const char* const mode : {"CRD", "DCR"}) {
    CheckOneNode({.op = "DepthToSpace",
                  .image = {1, 8, 3, 2},
                  .attributes = {{"blocksize", int64_t{2}}, {"mode", mode}},
                  .outputs = 48});
  }
  CheckOneNode({.op = "DepthToSpace",
                .image = {1, 9, 2, 2},
                .attributes = {{"blocksize", int64_t{3}}},
                .outputs = 36});
  CheckOneNode({.op = "SpaceToDepth",
                .image = {1, 2, 4, 6},
                .attributes = {{"blocksize", int64_t{2}}},
                .outputs = 48});
}

// The layer of a Reshape, a Transpose and a Reshape.
Layer Reordered(const Ints& image, const Ints& blocks, const Ints& order, const Ints& out) {
  OnnxBuilder model(image);
  std::string x = model.Node("Reshape", {"x", model.Integers("blocks", blocks)});
  x = model.Node("Transpose", {x}, {{"perm", order}});
  x = model.Node("Reshape", {x, model.Integers("out", out)});
  model.EndWithClasses(x, Elements(image) / image[0]);
  return FirstOf(model);
}

TEST_CASE("reshapes and a transpose of blocks are shuffles of pixels") {
  CHECK(Reordered({1, 8, 3, 2}, {-1, 2, 2, 2, 3, 2}, {0, 1, 4, 2, 5, 3}, {1, 2, 6, 4}) ==
        Layer(PixelShuffle{}));
  CHECK(Reordered({1, 8, 3, 2}, {1, 2, 2, 2, 3, 2}, {0, 3, 4, 1, 5, 2}, {-1, 2, 6, 4}) ==
        Layer(PixelShuffle{.blocks_first = true}));
  CHECK(Reordered({1, 2, 6, 9}, {1, 2, 2, 3, 3, 3}, {0, 1, 3, 5, 2, 4}, {1, 18, 2, 3}) ==
        Layer(PixelUnshuffle{.factor = 3}));
  CHECK(Reordered({1, 2, 6, 9}, {1, 2, 2, 3, 3, 3}, {0, 3, 5, 1, 2, 4}, {1, 18, 2, 3}) ==
        Layer(PixelUnshuffle{.factor = 3, .blocks_first = true}));
  CHECK(Reordered({1, 6, 5}, {1, 2, 3, 5}, {0, 1, 3, 2}, {1, 2, 15}) ==
        Layer(PixelShuffle{.factor = 3}));
  CHECK(Reordered({1, 2, 15}, {1, 2, 5, 3}, {0, 1, 3, 2}, {1, 6, 5}) ==
        Layer(PixelUnshuffle{.factor = 3}));
}

TEST_CASE("blocks that no shuffle makes are refused") {
  const auto refused = [](const Ints& blocks, const Ints& order, const std::string& text) {
    OnnxBuilder model({1, 8, 8, 4});
    std::string x = model.Node("Reshape", {"x", model.Integers("blocks", blocks)});
    if (!order.empty()) x = model.Node("Transpose", {x}, {{"perm", order}});
    model.EndWithClasses(model.Node("Relu", {x}), 256);
    const std::string message = MessageOf(model);
    CAPTURE(message);
    CHECK(message.find(text) != std::string::npos);
  };
  // More than two permutations of four axes.
  refused({1, 2, 2, 2, 2, 2, 2, 2, 2}, {0, 8, 7, 6, 5, 4, 3, 2, 1},
          "which neap's layers do not make of");
}

struct Written {
  onnx_schema::Model model;
  Graph read;
};

// A network of this layer alone, written and read again.
Written WrittenOf(const Layer& layer, const Shape& image) {
  Graph net({.name = "n", .batch = 2});
  const std::string x = net.Add("layer", layer, {net.Input(image)});
  Shape::Dims with_batch = image.dims();
  with_batch.insert(with_batch.begin(), 2);
  const LayerSpec spec = layer.Specify({.inputs = {{.shape = Shape(with_batch)}}}).value();
  const Shape::Dims& out = spec.output.shape.dims();
  net.TargetLoss(x, MeanSquaredError{}, Shape(Shape::Dims(out.begin() + 1, out.end())));
  const ScratchDirectory directory;
  const std::string path = directory.File("n.onnx");
  const absl::Status written = nets::WriteOnnx(path, net, {});
  REQUIRE_MESSAGE(written.ok(), written.ToString());
  absl::StatusOr<OnnxModel> read = ReadOnnx(path, {.batch = 2, .loss = MeanSquaredError{}});
  REQUIRE_MESSAGE(read.ok(), read.status().ToString());
  Written result = {.model = {}, .read = std::move(read->graph)};
  REQUIRE(result.model.ParseFromString(ReadText(path)));
  return result;
}

TEST_CASE("layers that give images other extents are read as they were written") {
  using Mode = Resize::Mode;
  using Coordinates = Resize::Coordinates;
  const std::vector<Shape> images = {{8, 6}, {8, 6, 4}, {16, 6, 4, 2}};
  for (const Shape& image : images) {
    CAPTURE(image.ToString());
    const std::vector<int64_t> extents(image.dims().begin() + 1, image.dims().end());
    std::vector<Layer> layers = {PixelUnshuffle{}, PixelUnshuffle{.blocks_first = true},
                                 PixelShuffle{}, PixelShuffle{.blocks_first = true}};
    if (image.rank() == 3) layers.push_back(PixelShuffle{.factor = 1});
    for (const Mode mode : {Mode::kNearest, Mode::kLinear, Mode::kCubic}) {
      for (const Coordinates coordinates :
           {Coordinates::kHalfPixel, Coordinates::kAlignCorners, Coordinates::kAsymmetric}) {
        if (coordinates != Coordinates::kAlignCorners)
          layers.push_back(Resize{.scales = {1.5}, .mode = mode, .coordinates = coordinates});
        layers.push_back(
            Resize{.sizes = Extents::Of(extents), .mode = mode, .coordinates = coordinates});
      }
    }
    layers.push_back(Resize{.scales = {2}, .rounding = Resize::Rounding::kFloor});
    layers.push_back(Resize{.scales = {2}, .mode = Mode::kCubic, .cubic_coefficient = -0.5F});
    for (const Layer& layer : layers) {
      CAPTURE(layer.Parameters());
      const Written written = WrittenOf(layer, image);
      REQUIRE(written.read.layers().size() == 4);
      CHECK(written.read.layers()[1].layer.Parameters() == layer.Parameters());
      const auto* const resize = layer.As<Resize>();
      const bool has_sizes = resize != nullptr && resize->sizes.has_value();
      CHECK(written.model.opset_import(0).version() == (has_sizes ? 18 : 17));
    }
  }
}

TEST_CASE("aligned corners are written with sizes") {
  const Written written = WrittenOf(Resize{.scales = {1.5},
                                           .mode = Resize::Mode::kLinear,
                                           .coordinates = Resize::Coordinates::kAlignCorners},
                                    {2, 5, 4});
  CHECK(written.read.layers()[1].layer ==
        Layer(Resize{.sizes = Extents{7, 6},
                     .mode = Resize::Mode::kLinear,
                     .coordinates = Resize::Coordinates::kAlignCorners}));
}

TEST_CASE("scales that make other extents in ONNX are written as sizes") {
  const Layer resize = Resize{.scales = {0.29, 2}, .mode = Resize::Mode::kLinear};
  CHECK(WrittenOf(resize, {2, 100, 4}).read.layers()[1].layer ==
        Layer(Resize{.sizes = Extents{28, 8}, .mode = Resize::Mode::kLinear}));
}

TEST_CASE("shuffles that change nothing are not read back where ONNX has no operator for them") {
  const Written written = WrittenOf(PixelUnshuffle{.factor = 1}, {8, 6});
  CHECK(written.model.graph().node(0).op_type() == "Identity");
  CHECK(written.read.layers().size() == 3);
}

TEST_CASE("adaptive pools with windows of one size are written as average pools") {
  const Written written = WrittenOf(AdaptiveAveragePool{.size = {3, 2}}, {8, 6, 4});
  CHECK(written.read.layers()[1].layer == Layer(AveragePool{.kernel = 2, .stride = 2}));
  Graph net({.name = "n", .batch = 2});
  const std::string x =
      net.Add("layer", AdaptiveAveragePool{.size = {4, 2}}, {net.Input({8, 6, 4})});
  net.TargetLoss(x, MeanSquaredError{}, {8, 4, 2});
  const ScratchDirectory directory;
  CHECK(nets::WriteOnnx(directory.File("n.onnx"), net, {}).message() ==
        "ONNX has no operator for: 'layer' (adaptive_average_pool)");
}

}  // namespace
}  // namespace neap::testing::onnx_resize_test
