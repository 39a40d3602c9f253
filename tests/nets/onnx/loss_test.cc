// What ends a network from a file: a loss drops exactly what it computes itself.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "neap/core/graph/graph.h"
#include "neap/layers/softmax_cross_entropy.h"
#include "neap/layers/target_loss.h"
#include "neap/nets/onnx/onnx_file.h"
#include "tests/nets/onnx/onnx_builder.h"
#include "tests/nets/onnx/onnx_checks.h"
#include "tests/scratch_directory.h"

namespace neap::testing {
namespace {

using nets::ReadOnnx;

const std::vector<Layer> kLosses = {SoftmaxCrossEntropy{}, MeanSquaredError{},
                                    BinaryCrossEntropy{}};

// Scores of 4 classes, and what the operator makes of them.
OnnxBuilder EndingWith(const std::string& op, const Attributes& attributes = {}) {
  OnnxBuilder model({1, 12});
  const std::string scores =
      model.Node("Gemm", {"x", model.Random("w", {12, 4}), model.Random("b", {4})});
  model.Output(op.empty() ? scores : model.Node(op, {scores}, attributes));
  return model;
}

std::vector<std::string> TypesOf(const OnnxBuilder& model, const Layer& loss) {
  const ScratchDirectory directory;
  const auto read = ReadOnnx(model.Write(directory), {.batch = 2, .loss = loss});
  REQUIRE_MESSAGE(read.ok(), read.status().ToString());
  std::vector<std::string> types;
  for (const GraphLayer& layer : read->graph.layers()) types.emplace_back(layer.layer.type());
  return types;
}

TEST_CASE("what a loss computes itself is dropped at the end, and a Sigmoid stays with others") {
  for (const Layer& loss : kLosses) {
    const bool is_bce = loss == Layer(BinaryCrossEntropy{});
    const std::vector<std::string> plain = TypesOf(EndingWith(""), loss);
    std::vector<std::string> with_sigmoid = plain;
    with_sigmoid.insert(with_sigmoid.begin() + 2, "sigmoid");
    CHECK(TypesOf(EndingWith("Sigmoid"), loss) == (is_bce ? plain : with_sigmoid));
  }
  for (const char* const op : {"Softmax", "LogSoftmax"})
    CHECK(TypesOf(EndingWith(op), SoftmaxCrossEntropy{}) ==
          TypesOf(EndingWith(""), SoftmaxCrossEntropy{}));
}

TEST_CASE("predictions are what the file computes where the loss drops what it computes itself") {
  const Ints dims = {1, 12};
  CheckComputes(EndingWith("Sigmoid"), dims, BinaryCrossEntropy{});
  CheckComputes(EndingWith("Sigmoid"), dims, MeanSquaredError{});
  CheckComputes(EndingWith(""), dims, MeanSquaredError{});
  CheckComputes(EndingWith("Relu"), dims, MeanSquaredError{});
  CheckComputes(EndingWith("Softmax", {{"axis", int64_t{1}}}), dims, SoftmaxCrossEntropy{});
}

TEST_CASE("a Sigmoid that other nodes read, too, is dropped for the loss alone") {
  OnnxBuilder model({1, 6});
  const std::string squashed = model.Node("Sigmoid", {"x"});
  const std::string scores = model.Node("Gemm", {squashed, model.Random("w", {6, 6})});
  const std::string same = model.Node("Identity", {model.Node("Sigmoid", {scores})});
  model.Output(same);
  CheckComputes(model, {1, 6}, BinaryCrossEntropy{});
  CHECK(TypesOf(model, BinaryCrossEntropy{}) == std::vector<std::string>{"feed", "sigmoid",
                                                                         "fully_connected", "feed",
                                                                         "binary_cross_entropy"});
}

TEST_CASE("a network with a single score predicts with a loss that has targets") {
  OnnxBuilder model({1, 6});
  const std::string score = model.Node("Gemm", {"x", model.Random("w", {6, 1})});
  model.Output(model.Node("Sigmoid", {score}));
  CheckComputes(model, {1, 6}, MeanSquaredError{});
  CheckComputes(model, {1, 6}, BinaryCrossEntropy{});
}

TEST_CASE("images may be predicted for every element, also as vectors, if the loss has targets") {
  OnnxBuilder model({1, 2, 3, 4});
  const std::string conv = model.Node("Conv", {"x", model.Random("w", {2, 2, 1, 1})});
  model.Output(model.Node("Flatten", {conv}));
  CheckComputes(model, {1, 2, 3, 4}, MeanSquaredError{});
}

TEST_CASE("a softmax at the end is a layer with a loss that does not compute it") {
  for (const char* const op : {"Softmax", "LogSoftmax"}) {
    CheckComputes(EndingWith(op), {1, 12}, MeanSquaredError{});
    for (const Layer& loss : {Layer(MeanSquaredError{}), Layer(BinaryCrossEntropy{})}) {
      std::vector<std::string> types = TypesOf(EndingWith(""), loss);
      types.insert(types.begin() + 2, "softmax");
      CHECK(TypesOf(EndingWith(op), loss) == types);
    }
  }
}

TEST_CASE("a softmax is a layer within a network, over any axis but that of the images") {
  for (const char* const op : {"Softmax", "LogSoftmax"}) {
    for (const int64_t axis : {1, 2, 3, -1, -2, -3}) {
      OnnxBuilder model({1, 3, 4, 5});
      model.Output(model.Node("Neg", {model.Node(op, {"x"}, {{"axis", axis}})}));
      CheckComputes(model, {1, 3, 4, 5}, MeanSquaredError{});
    }
  }
  OnnxBuilder images({1, 3, 4, 5});
  images.Output(images.Node("Softmax", {"x"}, {{"axis", int64_t{0}}}));
  const ScratchDirectory directory;
  CHECK(absl::IsUnimplemented(ReadOnnx(images.Write(directory), {}).status()));
}

}  // namespace
}  // namespace neap::testing
