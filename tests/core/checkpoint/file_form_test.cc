// Parameters that files have by another name, in another shape or transposed.
#include "neap/core/checkpoint/file_form.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "neap/core/checkpoint/checkpoint.h"
#include "neap/core/run/session.h"
#include "neap/layers/fully_connected.h"
#include "neap/layers/softmax_cross_entropy.h"
#include "tests/small_training.h"

namespace neap {
namespace {

// From three numbers to two classes.
Graph Classifier() {
  Graph net({.name = "classifier", .batch = 1});
  const std::string x = net.Input({3, 1, 1});
  net.Loss(net.Add("fc", FullyConnected{.out_features = 2}, {x}), SoftmaxCrossEntropy{});
  return net;
}

std::string Refused(const Graph& net) {
  const absl::Status status = Resolve(net, Mode::kTraining).status();
  CHECK(absl::IsInvalidArgument(status));
  return std::string(status.message());
}

TEST_CASE("the transpose of a matrix has its rows as columns, whatever its extents of 1") {
  const std::vector<float> rows = {0, 1, 2, 3, 4, 5}, columns = {0, 3, 1, 4, 2, 5};
  for (const Shape& shape : {Shape{2, 3}, Shape{2, 3, 1, 1}, Shape{1, 2, 3}}) {
    CHECK(ToTransposed(rows, shape) == columns);
    CHECK(FromTransposed(columns, shape) == rows);
  }
  CHECK(ToTransposed(rows, {6}) == rows);
  CHECK(FromTransposed(rows, {1, 6, 1}) == rows);
}

TEST_CASE("weights in memory have the name and the order that files have") {
  const auto device = OpenCpu();
  Graph net = Classifier();
  net.StoreAs("fc.weight", {.name = "matrix", .shape = {3, 2}, .transposed = true});
  Session session = Opened(net, *device);
  const absl::Status loaded =
      session.LoadWeights({{"matrix", {0, 3, 1, 4, 2, 5}}, {"fc.bias", {6, 7}}});
  REQUIRE_MESSAGE(loaded.ok(), loaded.ToString());
  CHECK(*session.Values("matrix") == std::vector<float>{0, 1, 2, 3, 4, 5});
  const std::vector<NamedTensor> weights = *session.Weights();
  REQUIRE(weights.size() == 2);
  CHECK(weights[0].name == "matrix");
  CHECK(weights[0].shape == Shape{3, 2});
  CHECK(weights[0].values == std::vector<float>{0, 3, 1, 4, 2, 5});
}

TEST_CASE("forms of parameters that do not fit are refused by name") {
  Graph net = Classifier();
  net.StoreAs("fc.weights", {.shape = {3, 2}});
  CHECK(Refused(net) == "parameter 'fc.weights' cannot be stored otherwise: no layer has it");
  net = Classifier();
  net.StoreAs("fc.weight", {.shape = {3, 3}});
  CHECK(Refused(net).ends_with("which files cannot have as 3x3"));
  net = Classifier();
  net.StoreAs("fc.weight", {.shape = {2, 3}, .transposed = true});
  CHECK(Refused(net).ends_with("which files cannot have transposed as 2x3"));
  net = Classifier();
  net.StoreAs("fc.weight", {.name = "fc.bias"});
  CHECK(Refused(net) ==
        "parameter 'fc.weight' cannot be 'fc.bias', which something else is called");
}

}  // namespace
}  // namespace neap
