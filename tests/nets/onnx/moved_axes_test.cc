// Values in ONNX files whose images are not the first axis, or that are combined with values of
// other axes.
#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "neap/layers/target_loss.h"
#include "neap/layers/tokens/position_embedding.h"
#include "neap/nets/onnx/onnx_file.h"
#include "tests/nets/onnx/onnx_builder.h"
#include "tests/nets/onnx/onnx_checks.h"
#include "tests/scratch_directory.h"

namespace neap::testing {
namespace {

using nets::OnnxModel;
using nets::ReadOnnx;

absl::Status StatusOfAxes(const OnnxBuilder& model) {
  const ScratchDirectory directory;
  return ReadOnnx(model.Write(directory), {.batch = 4, .loss = MeanSquaredError{}}).status();
}

// Checks that the message has the text, which begins with the operator.
void CheckRefusesAxes(const OnnxBuilder& model, const std::string& text) {
  const std::string message(StatusOfAxes(model).message());
  CAPTURE(message);
  CHECK(message.find(text) != std::string::npos);
}

std::string Permuted(OnnxBuilder& model, const std::string& x, const Ints& order) {
  return model.Node("Transpose", {x}, {{"perm", order}});
}

std::string Unsqueezed(OnnxBuilder& model, const std::string& x, int64_t axis) {
  const std::string name = "axis" + std::to_string(model.graph().node_size());
  return model.Node("Unsqueeze", {x, model.Integers(name, {axis})});
}

TEST_CASE("values that are repeated along each other's axes are not combined") {
  for (const char* const op : {"Add", "Mul", "Sub"}) {
    OnnxBuilder model({1, 3, 4});
    const std::string rows = Unsqueezed(model, model.Node("Tanh", {"x"}), 2);     // {1, 3, 1, 4}
    const std::string columns = Unsqueezed(model, model.Node("Relu", {"x"}), 3);  // {1, 3, 4, 1}
    const std::string all = model.Node(op, {rows, columns});                      // {1, 3, 4, 4}
    model.Output(model.Node("ReduceMean", {all}, {{"axes", Ints{2, 3}}}));
    CheckRefusesAxes(model, "(" + std::string(op) +
                                "): each of its inputs is repeated along an axis that another one");
  }
  OnnxBuilder gate({1, 3, 4});  // x and its sigmoid, but no Silu
  const std::string rows = Unsqueezed(gate, gate.Node("Sigmoid", {"x"}), 2);
  const std::string all = gate.Node("Mul", {rows, Unsqueezed(gate, "x", 3)});
  gate.Output(gate.Node("ReduceMean", {all}, {{"axes", Ints{2, 3}}}));
  CheckRefusesAxes(gate, "(Mul): each of its inputs is repeated along an axis that another one");
}

TEST_CASE("values of other numbers of axes are not combined, as ONNX counts axes from the last") {
  OnnxBuilder model({1, 4, 4, 2});
  const Attributes over = {{"axes", Ints{2, 3}}, {"keepdims", int64_t{0}}};
  const std::string means = Unsqueezed(model, model.Node("ReduceMean", {"x"}, over), 2);
  const std::string scale = model.Node("Conv", {means, model.Random("w", {4, 4, 1})});
  model.Output(model.Node("Mul", {"x", scale}));
  CheckRefusesAxes(model, "(Mul): its input 1 ('value3') has other axes than the first input");
}

TEST_CASE("sums over the axis of the images are refused, wherever that is") {
  const Ints swap = {1, 0, 2, 3};
  OnnxBuilder means({1, 3, 4, 4});
  const std::string x = Permuted(means, "x", swap);
  std::string y = means.Node("Pow", {x, means.Scalar("two", 2)});
  y = means.Node("ReduceMean", {y}, {{"axes", Ints{1}}});
  y = means.Node("Sqrt", {means.Node("Add", {y, means.Scalar("epsilon", 1e-3F)})});
  means.Output(Permuted(means, means.Node("Div", {x, y}), swap));
  CheckRefusesAxes(means, "(ReduceMean): it reduces other axes than the spatial ones");

  OnnxBuilder lengths({1, 3, 4, 4});
  const std::string z = Permuted(lengths, "x", swap);
  const std::string length = lengths.Node("ReduceL2", {z}, {{"axes", Ints{1}}});
  lengths.Output(Permuted(lengths, lengths.Node("Div", {z, length}), swap));
  CheckRefusesAxes(lengths, "(ReduceL2): it is the norm of other axes than one that is kept as 1");
}

TEST_CASE("images are neither joined nor padded along their axis, wherever that is") {
  const Ints swap = {1, 0, 2, 3};
  OnnxBuilder joined({1, 3, 4, 4});
  const std::string x = Permuted(joined, "x", swap);
  joined.Output(joined.Node("Concat", {x, joined.Node("Relu", {x})}, {{"axis", int64_t{1}}}));
  CheckRefusesAxes(joined, "(Concat): attribute 'axis' is 1, that of the images");

  OnnxBuilder padded({1, 3, 4, 4});
  const std::string pads = padded.Integers("pads", {0, 1, 0, 0, 0, 1, 0, 0});
  padded.Output(
      padded.Node("Pad", {Permuted(padded, "x", swap), pads}, {{"mode", std::string("edge")}}));
  CheckRefusesAxes(padded, "(Pad): it pads with other values than 0, or than those at the edge");
}

TEST_CASE("an instance norm of frames that are joined with the images is no group norm") {
  OnnxBuilder model({1, 6, 4, 3});
  const std::string frames =
      model.Node("Reshape", {Permuted(model, "x", {0, 2, 1, 3}), model.Integers("d", {4, 6, 3})});
  const std::string zeros = model.Node("ConstantOfShape", {model.Integers("count", {6})});
  const std::string norm =
      model.Node("InstanceNormalization", {frames, model.Node("Exp", {zeros}), zeros});
  const std::string images = model.Node("Reshape", {norm, model.Integers("e", {1, 4, 6, 3})});
  model.Output(Permuted(model, images, {0, 2, 1, 3}));
  CheckRefusesAxes(model, "(InstanceNormalization): its input is 4x6x3 with the axes [N, ");
}

TEST_CASE("an output that no layers bring into its order is refused by its name") {
  OnnxBuilder model({1, 6, 4, 3});
  const std::string frames =
      model.Node("Reshape", {Permuted(model, "x", {0, 2, 1, 3}), model.Integers("d", {4, 6, 3})});
  model.Output(model.Node("Relu", {frames}));
  CheckRefusesAxes(model,
                   "the output 'value3' cannot be put in order: its input is 4x6x3 with the axes");
}

TEST_CASE("a constant that multiplies tokens from the left is refused by its extents") {
  OnnxBuilder model({1, 6, 4});  // {N, C, T}
  const std::string mixed =
      model.Node("MatMul", {model.Random("w", {4, 4}), Permuted(model, "x", {0, 2, 1})});
  model.Output(Permuted(model, mixed, {0, 2, 1}));
  CheckRefusesAxes(model,
                   "(MatMul): its constant is 4x4, which is no query {1, heads, positions, "
                   "dimensions} of the keys 1x6x4");
}

TEST_CASE("constants of heads are no positions where tokens come before the images") {
  OnnxBuilder model({1, 6, 4});  // {N, C, T}
  std::string y = Permuted(model, "x", {2, 0, 1});
  y = model.Node("Reshape", {y, model.Integers("heads", {4, 1, 2, 3})});
  y = model.Node("Add", {y, model.Random("u", {1, 1, 2, 3})});
  y = model.Node("Reshape", {y, model.Integers("joined", {4, 1, 6})});
  model.Output(Permuted(model, y, {1, 2, 0}));
  CheckArrays(model, 2);
}

TEST_CASE("the axes of an index are in the place of the axis that it is of") {
  for (const int64_t more : {0, 1, 2}) {
    OnnxBuilder model({1, 4, 3});
    model.Integers("index", {2});
    for (int64_t i = 0; i < more; ++i) model.graph().mutable_initializer(0)->add_dims(1);
    const std::string y = model.Node("Gather", {"x", "index"}, {{"axis", int64_t{1}}});
    model.Output(model.Node("Softmax", {y}, {{"axis", 2 + more}}));
    CheckArrays(model, 2);
  }
}

TEST_CASE("a Squeeze without axes removes that of a single image, too, and is refused") {
  for (const int64_t batch : {1, 0, 4}) {
    OnnxBuilder model({batch, 3, 4, 4});
    model.Output(model.Node("Squeeze", {model.Node("GlobalAveragePool", {"x"})}));
    if (batch == 1) {
      CheckRefusesAxes(model, "(Squeeze): it removes all axes of 1, of which the images' is one");
    } else {
      CHECK(StatusOfAxes(model).ok());
    }
  }
  OnnxBuilder all({1, 1, 1, 1});
  const std::string scalar = all.Node("Squeeze", {"x", all.Integers("axes", {0, 1, 2, 3})});
  all.Output(all.Node("MatMul", {scalar, all.Random("w", {1, 1})}));
  CheckRefusesAxes(all, "(Squeeze): it leaves no axis");
}

TEST_CASE("a transposed matrix behind a norm of groups keeps the order that it has there") {
  OnnxBuilder model({1, 6, 4});
  const std::string x = Permuted(model, model.Node("Relu", {"x"}), {0, 2, 1});
  const Attributes over = {{"axes", Ints{2}}};
  const std::string centred = model.Node("Sub", {x, model.Node("ReduceMean", {x}, over)});
  const std::string squares = model.Node("Pow", {centred, model.Scalar("two", 2)});
  const std::string variance = model.Node("ReduceMean", {squares}, over);
  const std::string shifted = model.Node("Add", {variance, model.Scalar("epsilon", 1e-3F)});
  std::string y = model.Node("Div", {centred, model.Node("Sqrt", {shifted})});
  y = model.Node("Reshape", {y, model.Integers("groups", {1, 4, 2, 3})});
  y = model.Node("Mul", {y, Permuted(model, model.Random("w", {3, 2}), {1, 0})});
  y = model.Node("Reshape", {y, model.Integers("joined", {1, 4, 6})});
  model.Output(Permuted(model, y, {0, 2, 1}));
  CheckArrays(model, 2);
}

// Tokens {2, 4, 3} of a file of two images.
std::string TokensOfTwo(OnnxBuilder& model) {
  return Permuted(model, model.Node("Relu", {"x"}), {0, 2, 1});
}

TEST_CASE("a constant that is repeated for every image is one for all of them") {
  OnnxBuilder tokens({2, 3, 4});
  const std::string token = tokens.Node(
      "Expand", {tokens.Random("token", {1, 1, 3}), tokens.Integers("dims", {2, 1, 3})});
  const std::string joined =
      tokens.Node("Concat", {token, TokensOfTwo(tokens)}, {{"axis", int64_t{1}}});
  tokens.Output(Permuted(tokens, joined, {0, 2, 1}));
  CheckArrays(tokens, 4);

  OnnxBuilder positions({2, 3, 4});
  const std::string all = positions.Node(
      "Expand", {positions.Random("all", {1, 4, 3}), positions.Integers("dims", {2, 4, 3})});
  const std::string sum = positions.Node("Add", {TokensOfTwo(positions), all});
  positions.Output(Permuted(positions, sum, {0, 2, 1}));
  CheckArrays(positions, 4);
  const ScratchDirectory directory;
  const absl::StatusOr<OnnxModel> read =
      ReadOnnx(positions.Write(directory), {.batch = 4, .loss = MeanSquaredError{}});
  REQUIRE_MESSAGE(read.ok(), read.status().ToString());
  CHECK(read->graph.layers()[2].layer == Layer(PositionEmbedding{}));
}

}  // namespace
}  // namespace neap::testing
