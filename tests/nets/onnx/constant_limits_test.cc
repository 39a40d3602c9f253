// How large the constants may be that nodes compute, and what extents they must have.
#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "neap/layers/target_loss.h"
#include "neap/nets/onnx/onnx_file.h"
#include "tests/nets/onnx/onnx_builder.h"
#include "tests/scratch_directory.h"

namespace neap::testing {
namespace {

using nets::OnnxModel;
using nets::ReadOnnx;

OnnxModel ReadOfTwo(const OnnxBuilder& model) {
  const ScratchDirectory directory;
  absl::StatusOr<OnnxModel> read =
      ReadOnnx(model.Write(directory), {.batch = 2, .loss = MeanSquaredError{}});
  REQUIRE_MESSAGE(read.ok(), read.status().ToString());
  return *std::move(read);
}

// Checks that reading it is refused with the text.
void CheckRefusesConstants(const OnnxBuilder& model, const std::string& text) {
  const ScratchDirectory directory;
  const std::string message(ReadOnnx(model.Write(directory), {.batch = 2}).status().message());
  CAPTURE(message);
  CHECK(message.find(text) != std::string::npos);
}

TEST_CASE("constants are padded with a number, and negative pads are refused") {
  const auto padded = [](const Ints& pads) {
    OnnxBuilder model({1, 3});
    const std::string constant = model.Node(
        "Pad",
        {model.Floats("c", {3}, {1, 2, 3}), model.Integers("pads", pads), model.Scalar("five", 5)});
    const int64_t count = 3 + pads[0] + pads[1];
    model.Output(model.Node("Gemm", {"x", model.Random("w", {3, count}), constant}));
    return model;
  };
  CHECK(ReadOfTwo(padded({0, 0})).weights.at("Gemm_2.bias") == std::vector<float>{1, 2, 3});
  CHECK(ReadOfTwo(padded({1, 2})).weights.at("Gemm_2.bias") ==
        std::vector<float>{5, 1, 2, 3, 5, 5});
  CHECK(ReadOfTwo(padded({0, 1})).weights.at("Gemm_2.bias") == std::vector<float>{1, 2, 3, 5});
  for (const Ints& pads : {Ints{-1, 0}, Ints{0, -1}, Ints{-1, -1}, Ints{-2, 4}})
    CheckRefusesConstants(padded(pads),
                          "node 'Pad_1' (Pad): a constant is computed by negative pads");
}

TEST_CASE("a constant that an Expand repeats for every image is all of them") {
  OnnxBuilder model({2, 3});
  const std::string repeated = model.Node(
      "Expand", {model.Floats("c", {1, 1, 3}, {1, 2, 3}), model.Integers("dims", {2, 1, 3})});
  const std::string sums = model.Node("ReduceSum", {repeated, model.Integers("axes", {0, 1})},
                                      {{"keepdims", int64_t{0}}});
  const std::string shape = model.Node("Shape", {repeated});  // 2, 1, 3
  const std::string floats = model.Node("Cast", {shape}, {{"to", int64_t{1}}});
  const std::string bias = model.Node("Add", {sums, floats});
  model.Output(model.Node("Gemm", {"x", model.Random("w", {3, 3}), bias}));
  CHECK(ReadOfTwo(model).weights.at("Gemm_6.bias") == std::vector<float>{4, 5, 9});
}

TEST_CASE("the bias of a convolution and the C of a product fit what they are added to") {
  OnnxBuilder conv({1, 3});
  const std::string pixel = conv.Floats("pixel", {1, 1, 1, 1}, {2});
  const std::string many = conv.Node(
      "Conv", {pixel, conv.Floats("k", {1, 1, 1, 1}, {3}), conv.Floats("b", {5}, {1, 2, 3, 4, 5})});
  const std::string sum = conv.Node("Add", {many, conv.Floats("c", {1, 1, 1, 1}, {1})});
  conv.Output(conv.Node("MatMul", {"x", sum}));
  CheckRefusesConstants(conv, "node 'Conv_1' (Conv): its bias has other extents than its channels");

  OnnxBuilder gemm({1, 3});
  const auto constant = [&](const std::string& name, const Ints& dims) {
    return gemm.Node("ConstantOfShape", {gemm.Integers(name, dims)});
  };
  const std::string one = gemm.Floats("one", {1, 1}, {1});
  const std::string row = constant("row", {1, 1 << 22}), column = constant("column", {1 << 22, 1});
  gemm.Output(gemm.Node("MatMul", {"x", gemm.Node("Gemm", {one, row, column})}));
  CheckRefusesConstants(gemm, "node 'Gemm_3' (Gemm): its C has other extents than its product");
}

TEST_CASE("no node gives a constant more axes than a network needs") {
  OnnxBuilder tiled({1, 3}), unsqueezed({1, 3}), reshaped({1, 3});
  const Ints ones(65, 1);
  tiled.Output(tiled.Node("MatMul", {"x", tiled.Node("Tile", {tiled.Floats("c", ones, {1}),
                                                              tiled.Integers("times", ones)})}));
  CheckRefusesConstants(tiled, "node 'Tile_1' (Tile): a constant has 65 axes");
  Ints axes;
  for (int64_t axis = 0; axis < 65; ++axis) axes.push_back(axis);
  unsqueezed.Output(unsqueezed.Node(
      "MatMul", {"x", unsqueezed.Node("Unsqueeze", {unsqueezed.Scalar("c", 1),
                                                    unsqueezed.Integers("axes", axes)})}));
  CheckRefusesConstants(unsqueezed, "node 'Unsqueeze_1' (Unsqueeze): it makes 65 axes");
  reshaped.Output(reshaped.Node("Reshape", {"x", reshaped.Integers("dims", ones)}));
  CheckRefusesConstants(reshaped, "node 'Reshape_1' (Reshape): it makes 65 axes");
}

TEST_CASE("small files cannot make large constants") {
  OnnxBuilder stated({1, 3}), multiplied({1, 3}), repeated({1, 3}), padded({1, 3});
  const auto constant = [](OnnxBuilder& model, const std::string& name, const Ints& dims) {
    return model.Node("ConstantOfShape", {model.Integers(name, dims)});
  };
  stated.Output(
      stated.Node("MatMul", {"x", constant(stated, "dims", {int64_t{1} << 20, int64_t{1} << 20})}));
  // 65,536 elements each: 65,536 products of {256, 1} and {1, 256}.
  const std::string product =
      multiplied.Node("MatMul", {constant(multiplied, "left", {256, 1, 256, 1}),
                                 constant(multiplied, "right", {1, 256, 1, 256})});
  multiplied.Output(multiplied.Node("MatMul", {"x", product}));
  repeated.Output(repeated.Node(
      "MatMul", {"x", repeated.Node("Tile", {constant(repeated, "one", {1, 1}),
                                             repeated.Integers("times", {1 << 20, 1 << 20})})}));
  padded.Output(padded.Node(
      "MatMul", {"x", padded.Node("Pad", {constant(padded, "one", {1, 1}),
                                          padded.Integers("pads", {1 << 20, 1 << 20, 0, 0})})}));
  // Without elements, but with extents that a sum or a repetition leaves.
  OnnxBuilder summed({1, 3}), overflowing({1, 3}), tiled({1, 3}), split({1, 3}), added({1, 3});
  const auto empty = [](OnnxBuilder& model, const Ints& dims) {
    return model.Floats("empty", dims, {});
  };
  const auto sum = [](OnnxBuilder& model, const std::string& x) {
    model.Output(
        model.Node("MatMul", {"x", model.Node("ReduceSum", {x, model.Integers("axes", {0})})}));
  };
  sum(summed, empty(summed, {0, int64_t{1} << 33}));
  sum(overflowing, empty(overflowing, {0, int64_t{1} << 40, int64_t{1} << 40}));
  tiled.Output(tiled.Node(
      "MatMul", {"x", tiled.Node("Tile", {empty(tiled, {2, 0}),
                                          tiled.Integers("times", {int64_t{1} << 61, 1})})}));
  split.Output(
      split.Node("MatMul", {"x", split.Node("Split", {empty(split, {int64_t{1} << 40, 0})})}));
  // One large constant and many numbers, each of which is a pass over it.
  std::vector<std::string> terms = {constant(added, "dims", {1 << 11, 1 << 11})};
  terms.resize(21, added.Floats("number", {1}, {1}));
  added.Output(added.Node("MatMul", {"x", added.Node("Sum", terms)}));
  for (OnnxBuilder* const model :
       {&stated, &multiplied, &repeated, &padded, &summed, &overflowing, &tiled, &split, &added}) {
    const ScratchDirectory directory;
    const absl::Status status = ReadOnnx(model->Write(directory), {}).status();
    CHECK(absl::IsUnimplemented(status));
    CHECK(status.message().find("values are computed") != std::string::npos);
  }
}

}  // namespace
}  // namespace neap::testing
