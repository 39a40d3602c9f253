// Norms of each image in ONNX files: as operators, as exporters write them in parts, and as neap
// writes them.
#include <doctest/doctest.h>

#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "neap/layers/norm/group_norm.h"
#include "neap/layers/norm/layer_norm.h"
#include "neap/layers/scale_shift.h"
#include "neap/layers/softmax_cross_entropy.h"
#include "neap/nets/onnx/onnx_file.h"
#include "tests/nets/onnx/onnx_builder.h"
#include "tests/nets/onnx/onnx_checks.h"
#include "tests/scratch_directory.h"

namespace neap::testing {
namespace {

using nets::OnnxModel;
using nets::ReadOnnx;

const Ints kToLast = {0, 2, 3, 1}, kToSecond = {0, 3, 1, 2};

OnnxModel ReadNorms(const OnnxBuilder& model) {
  const ScratchDirectory directory;
  absl::StatusOr<OnnxModel> read = ReadOnnx(model.Write(directory), {.batch = 2});
  REQUIRE_MESSAGE(read.ok(), read.status().ToString());
  return *std::move(read);
}

std::string NormRefusal(const OnnxBuilder& model) {
  const ScratchDirectory directory;
  return std::string(ReadOnnx(model.Write(directory), {.batch = 2}).status().message());
}

// A model of images {1, 6, 4, 3}, and parts of it.
class NormModel {
 public:
  NormModel() : model_({1, 6, 4, 3}) {}
  OnnxBuilder& model() { return model_; }
  void SetOpset(int64_t opset) { model_.model().mutable_opset_import(0)->set_version(opset); }
  // Adds a node of the module "norm".
  std::string Node(const std::string& op, const std::vector<std::string>& inputs,
                   const Attributes& attributes = {}) {
    std::string value = model_.Node(op, inputs, attributes);
    const int last = model_.graph().node_size() - 1;
    model_.graph().mutable_node(last)->set_name(absl::StrCat("/norm/", op));
    return value;
  }
  std::string Transposed(const std::string& x, const Ints& order) {
    return Node("Transpose", {x}, {{"perm", order}});
  }
  // The parameters, which are the same in all models.
  std::string Weight() { return model_.Floats("norm.weight", {6}, {1, 2, -3, 4, 0.5F, 1}); }
  std::string Bias() { return model_.Floats("norm.bias", {6}, {0, -1, 2, 1, 0.5F, 3}); }
  // A constant that a node makes.
  std::string Constant(double value, int64_t count) {
    const std::string zeros = model_.Node(
        "ConstantOfShape", {model_.Integers(absl::StrCat("count", ++constants_), {count})});
    return value == 0 ? zeros : model_.Node("Exp", {zeros});
  }
  std::string Spread(const std::string& parameter) {
    return Node("Unsqueeze", {parameter, model_.Integers(parameter + ".axes", {1, 2})});
  }
  // What PyTorch exports of GroupNorm(2, 6) before opset 18. `scale` is that of the first group,
  // whose parameters are behind it.
  std::string GroupNormInParts(bool has_parameters = true, double scale = 1) {
    std::string x = Node("Reshape", {"x", model_.Integers("groups", {0, 2, -1})});
    const std::string ones = model_.Floats("ones", {2}, {static_cast<float>(scale), 1});
    x = Node("InstanceNormalization", {x, ones, Constant(0, 2)}, {{"epsilon", 1e-3F}});
    x = Node("Reshape", {x, Node("Shape", {"x"})});
    x = Node("Mul", {x, Spread(has_parameters ? Weight() : Constant(1, 1))});
    return Node("Add", {x, Spread(has_parameters ? Bias() : Constant(0, 1))});
  }
  // What PyTorch exports of a layer norm over the axis before opset 17.
  std::string LayerNormInSteps(const std::string& x, int64_t axis, bool multiplies = false) {
    const Attributes over = {{"axes", Ints{axis}}};
    const std::string centred = Node("Sub", {x, Node("ReduceMean", {x}, over)});
    const std::string squares = multiplies ? Node("Mul", {centred, centred})
                                           : Node("Pow", {centred, model_.Scalar("two", 2)});
    const std::string variance = Node("ReduceMean", {squares}, over);
    const std::string shifted = Node("Add", {variance, model_.Scalar("epsilon", 1e-3F)});
    return Node("Div", {centred, Node("Sqrt", {shifted})});
  }
  void End(const std::string& y) { model_.EndWithClasses(y, 72); }

 private:
  OnnxBuilder model_;
  int constants_ = 0;
};

// Checks that the norm is the only layer before the classes, and returns it.
GraphLayer OnlyNorm(const OnnxModel& read) {
  REQUIRE(read.graph.layers().size() == 5);
  return read.graph.layers()[1];
}

// That all of them are the same layer "norm" with the same parameters, of which there are so many.
void CheckNorm(NormModel& given, const Layer& norm, size_t params = 2) {
  const OnnxModel read = ReadNorms(given.model());
  CHECK(OnlyNorm(read).layer == norm);
  CHECK(OnlyNorm(read).layer.Parameters() == norm.Parameters());
  CHECK(OnlyNorm(read).name == "norm");
  CHECK(read.weights.size() == 2 + params);
  if (params > 0) CHECK(read.weights.at("norm.weight") == std::vector<float>{1, 2, -3, 4, 0.5F, 1});
  if (params > 1) CHECK(read.weights.at("norm.bias") == std::vector<float>{0, -1, 2, 1, 0.5F, 3});
}

TEST_CASE("norms of each image compute what ONNX says") {
  NormModel instance;
  instance.End(instance.Node("InstanceNormalization", {"x", instance.Weight(), instance.Bias()},
                             {{"epsilon", 1e-3F}}));
  CheckNorm(instance, InstanceNorm{.epsilon = 1e-3F, .affine = true});
  CheckPredicts(instance.model(), {1, 6, 4, 3});

  NormModel group;
  group.SetOpset(21);
  group.End(group.Node("GroupNormalization", {"x", group.Weight(), group.Bias()},
                       {{"num_groups", int64_t{2}}}));
  CheckNorm(group, GroupNorm{.groups = 2});
  CheckPredicts(group.model(), {1, 6, 4, 3}, Layout::kChannelsLast);

  NormModel layer;
  const std::string y = layer.Node("LayerNormalization",
                                   {layer.Transposed("x", kToLast), layer.Weight(), layer.Bias()});
  layer.End(layer.Transposed(y, kToSecond));
  CheckNorm(layer, LayerNorm{});
  CheckPredicts(layer.model(), {1, 6, 4, 3});
}

TEST_CASE("a layer norm of vectors has one position") {
  OnnxBuilder model({1, 6});
  const std::string y = model.Node(
      "LayerNormalization", {"x", model.Random("norm.weight", {6}), model.Random("norm.bias", {6})},
      {{"axis", int64_t{1}}, {"epsilon", 1e-2F}});
  model.EndWithClasses(y, 6);
  CHECK(OnlyNorm(ReadNorms(model)).layer == Layer(LayerNorm{.epsilon = 1e-2F}));
  CheckPredicts(model, {1, 6});
}

TEST_CASE("the parameters of a group norm of opset 18, which are those of groups, are spread") {
  NormModel given;
  given.SetOpset(18);
  given.End(given.Node(
      "GroupNormalization",
      {"x", given.model().Floats("scale", {2}, {3, 4}), given.model().Floats("bias", {2}, {5, 6})},
      {{"num_groups", int64_t{2}}}));
  const OnnxModel read = ReadNorms(given.model());
  CHECK(OnlyNorm(read).layer == Layer(GroupNorm{.groups = 2}));
  CHECK(read.weights.at("norm.weight") == std::vector<float>{3, 3, 3, 4, 4, 4});
  CHECK(read.weights.at("norm.bias") == std::vector<float>{5, 5, 5, 6, 6, 6});
}

TEST_CASE("constants of nodes that are 1 and 0 are no parameters") {
  NormModel instance;
  instance.End(instance.Node("InstanceNormalization",
                             {"x", instance.Constant(1, 6), instance.Constant(0, 6)}));
  CheckNorm(instance, InstanceNorm{}, /*params=*/0);
  NormModel layer;
  const std::string x = layer.Transposed("x", kToLast);
  layer.End(
      layer.Transposed(layer.Node("LayerNormalization", {x, layer.Constant(1, 6)}), kToSecond));
  CheckNorm(layer, LayerNorm{.affine = false}, /*params=*/0);
  NormModel group;
  group.End(group.GroupNormInParts(/*has_parameters=*/false));
  CheckNorm(group, GroupNorm{.groups = 2, .epsilon = 1e-3F, .affine = false}, /*params=*/0);
}

TEST_CASE("a norm that has a scale and no bias gets none") {
  NormModel layer;
  layer.End(layer.Transposed(
      layer.Node("LayerNormalization", {layer.Transposed("x", kToLast), layer.Weight()}),
      kToSecond));
  CheckNorm(layer, LayerNorm{.bias = false}, /*params=*/1);
  CheckPredicts(layer.model(), {1, 6, 4, 3});

  NormModel instance;  // ONNX's has a bias, here one of a node
  instance.End(
      instance.Node("InstanceNormalization", {"x", instance.Weight(), instance.Constant(0, 6)}));
  CheckNorm(instance, InstanceNorm{.affine = true, .bias = false}, /*params=*/1);

  NormModel group;
  group.SetOpset(21);
  group.End(group.Node("GroupNormalization", {"x", group.Weight(), group.Constant(0, 6)},
                       {{"num_groups", int64_t{2}}}));
  CheckNorm(group, GroupNorm{.groups = 2, .bias = false}, /*params=*/1);

  NormModel steps;
  steps.End(steps.Node("Mul", {steps.LayerNormInSteps("x", 1), steps.Spread(steps.Weight())}));
  CheckNorm(steps, LayerNorm{.epsilon = 1e-3F, .bias = false}, /*params=*/1);
}

TEST_CASE("a bias behind a norm that has a scale alone becomes its own") {
  NormModel given;
  const std::string norm =
      given.Node("LayerNormalization", {given.Transposed("x", kToLast), given.Weight()});
  given.End(given.Transposed(given.Node("Add", {norm, given.Bias()}), kToSecond));
  CheckNorm(given, LayerNorm{});

  NormModel twice;  // a second scale stays behind it
  const std::string scaled =
      twice.Node("LayerNormalization", {twice.Transposed("x", kToLast), twice.Weight()});
  twice.End(
      twice.Transposed(twice.Node("Mul", {scaled, twice.model().Random("more", {6})}), kToSecond));
  const OnnxModel read = ReadNorms(twice.model());
  CHECK(read.graph.layers()[1].layer == Layer(LayerNorm{.bias = false}));
  CHECK(read.graph.layers()[2].layer == Layer(ScaleShift{.learns_scale = true}));
  CheckPredicts(twice.model(), {1, 6, 4, 3});
}

TEST_CASE("an instance norm of groups of channels is a group norm, however the rest is divided") {
  NormModel given;
  std::string x = given.Node("Reshape", {"x", given.model().Integers("groups", {0, 2, 3, 4, 3})});
  x = given.Node("InstanceNormalization", {x, given.Constant(1, 2), given.Constant(0, 2)});
  given.End(given.Node("Reshape", {x, given.model().Integers("images", {0, 6, 4, 3})}));
  CheckNorm(given, GroupNorm{.groups = 2, .affine = false}, /*params=*/0);
}

TEST_CASE("a group norm in parts, as PyTorch exports it, is one layer") {
  NormModel given;
  given.End(given.GroupNormInParts());
  CheckNorm(given, GroupNorm{.groups = 2, .epsilon = 1e-3F});
}

TEST_CASE("a layer norm step by step is one layer, whichever axis its channels are") {
  const LayerNorm norm = {.epsilon = 1e-3F};
  NormModel second;
  const std::string scaled =
      second.Node("Mul", {second.Spread(second.Weight()), second.LayerNormInSteps("x", 1)});
  second.End(second.Node("Add", {scaled, second.Spread(second.Bias())}));
  CheckNorm(second, norm);

  NormModel last;
  std::string y = last.LayerNormInSteps(last.Transposed("x", kToLast), -1, /*multiplies=*/true);
  y = last.Node("Mul", {y, last.Weight()});
  y = last.Node("Add", {y, last.Bias()});
  last.End(last.Transposed(y, kToSecond));
  CheckNorm(last, norm);

  NormModel plain;
  plain.End(plain.LayerNormInSteps("x", 1));
  CheckNorm(plain, LayerNorm{.epsilon = 1e-3F, .affine = false}, /*params=*/0);
}

TEST_CASE("a norm of which two layers read the result keeps it, and its constants are a layer") {
  NormModel given;
  const std::string norm = given.LayerNormInSteps("x", 1);
  const std::string scaled = given.Node("Mul", {norm, given.Spread(given.Weight())});
  given.End(given.Node("Add", {scaled, norm}));
  const OnnxModel read = ReadNorms(given.model());
  REQUIRE(read.graph.layers().size() == 7);
  CHECK(read.graph.layers()[1].layer == Layer(LayerNorm{.epsilon = 1e-3F, .affine = false}));
  CHECK(read.graph.layers()[2].layer == Layer(ScaleShift{.learns_scale = true}));
}

TEST_CASE("norms over other axes, of which neap has none, are refused") {
  NormModel all;
  all.End(all.Node("LayerNormalization", {"x", all.Weight()}, {{"axis", int64_t{1}}}));
  CHECK(NormRefusal(all.model())
            .find("attribute 'axis' is 1, from which on the axes are not the "
                  "channels alone") != std::string::npos);
  NormModel groups;
  groups.End(groups.GroupNormInParts(/*has_parameters=*/true, /*scale=*/2));
  CHECK(NormRefusal(groups.model()).find("groups of channels, are not 1 and 0") !=
        std::string::npos);
  NormModel flat;
  flat.End(flat.Node("InstanceNormalization",
                     {flat.Node("Flatten", {"x"}), flat.Weight(), flat.Bias()}));
  CHECK(NormRefusal(flat.model()).find("an image that is made flat") != std::string::npos);
  NormModel mean;
  const std::string of_channels = mean.Node("ReduceMean", {"x"}, {{"axes", Ints{1}}});
  mean.End(mean.Node("Mul", {"x", of_channels}));
  CHECK(NormRefusal(mean.model()).find("neap has in a layer norm only") != std::string::npos);
  NormModel ends;
  ends.model().Output(ends.Node("ReduceMean", {"x"}, {{"axes", Ints{1}}}));
  CHECK(NormRefusal(ends.model()).find("is a step of a layer norm") != std::string::npos);
  NormModel cubes;
  const std::string centred =
      cubes.Node("Sub", {"x", cubes.Node("ReduceMean", {"x"}, {{"axes", Ints{1}}})});
  cubes.End(cubes.Node("Pow", {centred, cubes.model().Scalar("three", 3)}));
  CHECK(NormRefusal(cubes.model()).find("neap has in a layer norm only") != std::string::npos);
}

TEST_CASE("a deviation that divides what is not centred is refused, also by its inverse") {
  for (const bool multiplies : {false, true}) {
    NormModel given;
    const Attributes over = {{"axes", Ints{1}}};
    const std::string centred = given.Node("Sub", {"x", given.Node("ReduceMean", {"x"}, over)});
    const std::string squares = given.Node("Mul", {centred, centred});
    const std::string shifted = given.Node(
        "Add", {given.Node("ReduceMean", {squares}, over), given.model().Scalar("e", 1e-3F)});
    const std::string deviation = given.Node("Sqrt", {shifted});
    given.End(multiplies ? given.Node("Mul", {"x", given.Node("Reciprocal", {deviation})})
                         : given.Node("Div", {"x", deviation}));
    const std::string message = NormRefusal(given.model());
    CAPTURE(message);
    CHECK(message.find(multiplies ? "'/norm/Mul' (Mul): it reads the mean over the channels"
                                  : "'/norm/Div' (Div): it reads the mean over the channels") !=
          std::string::npos);
  }
}

// Sequences {1, 5, 3}, each divided by its length along the last axis, which an operator with a
// number keeps from 0, or the inverse of the length.
OnnxBuilder UnitLength(const std::string& op, float least, bool inverse = false) {
  OnnxBuilder model({1, 5, 3});
  std::string length = model.Node("ReduceL2", {"x"}, {{"axes", Ints{2}}});
  if (inverse) length = model.Node("Reciprocal", {length});
  length = model.Node(op, {length, model.Scalar("least", least)});
  const std::string y = model.Node(inverse ? "Mul" : "Div", {"x", length});
  model.Output(model.Node("Transpose", {y}, {{"perm", Ints{0, 2, 1}}}));
  return model;
}

TEST_CASE("lengths are kept from 0 by small numbers, and larger ones are refused") {
  for (const char* const op : {"Clip", "Max"}) {
    for (const float least : {1e-12F, 1e-6F, 0.0F, -1.0F}) {
      CAPTURE(least);
      OnnxBuilder model = UnitLength(op, least);
      CheckArrays(model, 2);
    }
    for (const float least : {1e-3F, 1.0F}) {
      const std::string message = NormRefusal(UnitLength(op, least));
      CAPTURE(message);
      CHECK(message.find("'" + std::string(op) + "_2' (" + op + "): it keeps lengths above ") !=
            std::string::npos);
    }
    const std::string message = NormRefusal(UnitLength(op, 1e-12F, /*inverse=*/true));
    CHECK(message.find("'" + std::string(op) + "_3' (" + op + "): it reads the mean over") !=
          std::string::npos);
  }
}

TEST_CASE("norms are read as they were written, with the parameters that they share") {
  Graph net({.name = "n", .batch = 2});
  std::string x = net.Input({6, 4, 3});
  x = net.Add("group", GroupNorm{.groups = 3, .epsilon = 0.5F}, {x});
  x = net.Add("plain_group", GroupNorm{.groups = 6, .affine = false}, {x});
  x = net.Add("shares", GroupNorm{.groups = 1}, {x});
  x = net.Add("instance", InstanceNorm{}, {x});
  x = net.Add("affine", InstanceNorm{.epsilon = 0.25F, .affine = true}, {x});
  x = net.Add("scaled_instance", InstanceNorm{.affine = true, .bias = false}, {x});
  x = net.Add("scaled_group", GroupNorm{.groups = 2, .bias = false}, {x});
  x = net.Add("scaled_layer", LayerNorm{.bias = false}, {x});
  x = net.Add("layer", LayerNorm{.epsilon = 0.5F}, {x});
  x = net.Add("plain_layer", LayerNorm{.affine = false}, {x});
  x = net.Add("one", Convolution{.out_channels = 1}, {x});
  x = net.Add("of_one", GroupNorm{}, {x});
  net.PixelLoss(net.Add("scores", Convolution{.out_channels = 2}, {x}), SoftmaxCrossEntropy{},
                {4, 3});
  net.Share("shares.weight", "group.weight");
  net.Share("layer.bias", "group.bias");
  NamedValues weights;
  float next = 0.5F;
  const ResolvedGraph resolved = Resolve(net, Mode::kInference).value();
  for (const ResolvedLayer& layer : resolved.layers) {
    for (const ParamSpec& param : layer.spec.params) {
      const std::string name = absl::StrCat(layer.name, ".", param.name);
      if (name == "shares.weight" || name == "layer.bias") continue;
      for (int64_t i = 0; i < param.tensor.elements(); ++i) weights[name].push_back(next += 0.125F);
    }
  }
  const ScratchDirectory directory;
  const absl::Status written = nets::WriteOnnx(directory.File("n.onnx"), net, weights);
  REQUIRE_MESSAGE(written.ok(), written.ToString());
  const absl::StatusOr<OnnxModel> read = ReadOnnx(directory.File("n.onnx"), {.batch = 2});
  REQUIRE_MESSAGE(read.ok(), read.status().ToString());
  CHECK(read->graph.layers() == net.layers());
  CHECK(read->graph.shared() == net.shared());
  CHECK(read->weights == weights);
  CHECK(read->notices.empty());
}

}  // namespace
}  // namespace neap::testing
