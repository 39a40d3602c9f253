// Networks that are not written as ONNX.
#include <doctest/doctest.h>

#include <filesystem>
#include <string>
#include <string_view>

#include "neap/core/graph/graph.h"
#include "neap/layers/activation.h"
#include "neap/layers/attention/attention.h"
#include "neap/layers/fully_connected.h"
#include "neap/layers/join.h"
#include "neap/layers/shape/roll.h"
#include "neap/layers/shape/windows.h"
#include "neap/layers/softmax_cross_entropy.h"
#include "neap/layers/target_loss.h"
#include "neap/nets/onnx/onnx_file.h"
#include "tests/scratch_directory.h"

namespace neap::testing {
namespace {

TEST_CASE("an output that is a loss is named, and nothing is written") {
  Graph net({.name = "n", .batch = 2});
  net.Input("image", {3, 1, 1});
  net.Input("kind", {}, DType::kInt32);
  net.Add("scores", FullyConnected{.out_features = 2}, {"image"});
  net.Loss("kind_loss", SoftmaxCrossEntropy{}, {"scores", "kind"});
  net.Output("kind_loss");
  REQUIRE(Resolve(net, Mode::kInference).ok());
  const ScratchDirectory directory;
  const absl::Status refused = nets::WriteOnnx(directory.File("n.onnx"), net, {});
  CHECK(absl::IsUnimplemented(refused));
  CHECK(refused.message() ==
        "the output 'kind_loss' is a loss, and an ONNX file has the network without it");
  CHECK_FALSE(std::filesystem::exists(directory.File("n.onnx")));
}

struct Unknown : Relu {
  static constexpr std::string_view kType = "unknown";
  friend bool operator==(const Unknown&, const Unknown&) = default;
};

TEST_CASE("layers without an operator are named, and nothing is written") {
  Graph net({.name = "n", .batch = 2});
  std::string x = net.Input({2, 1, 1});
  x = net.Add("a", Unknown{}, {x});
  x = net.Add("b", Unknown{}, {x});
  net.Loss(x, SoftmaxCrossEntropy{});
  const ScratchDirectory directory;
  const absl::Status refused = nets::WriteOnnx(directory.File("n.onnx"), net, {});
  CHECK(absl::IsUnimplemented(refused));
  CHECK(refused.message() == "ONNX has no operator for: 'a' (unknown), 'b' (unknown)");
  CHECK_FALSE(std::filesystem::exists(directory.File("n.onnx")));
}

TEST_CASE("weights that are missing, or have another number of values, are named") {
  Graph net({.name = "n", .batch = 1});
  net.Loss(net.Add("fc", FullyConnected{.out_features = 2}, {net.Input({3, 1, 1})}),
           SoftmaxCrossEntropy{});
  const ScratchDirectory directory;
  const absl::Status wrong = nets::WriteOnnx(directory.File("n.onnx"), net,
                                             {{"fc.weight", {1, 2, 3, 4, 5}}, {"fc.bias", {1, 2}}});
  CHECK(std::string(wrong.message()).find("tensor 'fc.weight' has ") == 0);
  const absl::Status missing =
      nets::WriteOnnx(directory.File("n.onnx"), net, {{"fc.bias", {1, 2}}});
  CHECK(missing.message() == "tensor 'fc.weight' is missing");
}

TEST_CASE("windows of an image and what reads them are named, and nothing is written") {
  Graph net({.name = "n", .batch = 2});
  std::string x = net.Input({12, 4, 4});
  x = net.Add("rolled", Roll{.shift = -1}, {x});
  x = net.Add("windows", WindowPartition{.window = 2}, {x});
  net.Add("apart", Attention{.heads = 1, .axes = 1}, {x});
  const WindowBias bias = {.window = 2, .size = 4, .shift = 1};
  net.Add("shifted", Attention{.heads = 1, .axes = 1, .window_bias = bias}, {x});
  x = net.Add("sum", Add{}, {"apart", "shifted"});
  net.TargetLoss(x, MeanSquaredError{}, {4, 4, 4});
  const ScratchDirectory directory;
  const absl::Status refused = nets::WriteOnnx(directory.File("n.onnx"), net, {});
  CHECK(absl::IsUnimplemented(refused));
  CHECK(refused.message() ==
        "ONNX has no operator for: 'rolled' (roll), 'windows' (window_partition), 'apart'"
        " (attention), 'shifted' (attention)");
  CHECK_FALSE(std::filesystem::exists(directory.File("n.onnx")));
}

}  // namespace
}  // namespace neap::testing
