#include "neap/recompute/segments.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "neap/layers/activation.h"
#include "neap/layers/batch_norm.h"
#include "neap/layers/convolution.h"
#include "neap/layers/fully_connected.h"
#include "neap/layers/join.h"
#include "neap/layers/pooling.h"
#include "neap/layers/softmax_cross_entropy.h"
#include "neap/nets/registry.h"
#include "tests/random_graph.h"
#include "tests/recompute/one_segment.h"
#include "tests/tensor_names.h"

namespace neap {
namespace {

using testing::kSame;

// "bn1 relu1 | bn2 relu2": the layers that are ever run again, by segment.
std::string Text(const Program& program, const Segments& segments) {
  std::string text;
  for (const std::vector<StepId>& steps : segments.steps) {
    if (!text.empty()) text += " |";
    for (StepId step : steps) {
      absl::StrAppend(&text, text.empty() ? "" : " ",
                      program.layers[program.steps[step.index()].layer.index()].name);
    }
  }
  return text;
}
std::string Segmented(const Graph& net, Accounting accounting = Accounting::kExact) {
  const Program program = BuildProgram(net, {.accounting = accounting}).value();
  return Text(program, CheckpointSegments(program));
}
std::vector<bool> Checkpoints(const Program& program) {
  return CheckpointSegments(program).checkpoints;
}
std::vector<bool> ConvolutionResults(const Program& program) {
  return KeptResults(program, [](const LayerTraits& layer) { return layer.hides_transfers; });
}
std::string Kept(const Graph& net, std::vector<bool> (*results)(const Program&)) {
  const Program program = BuildProgram(net, {}).value();
  return testing::NamesOf(program, results(program));
}

void Finish(Graph& net, const std::string& x) {
  net.Loss(net.Add("fc", FullyConnected{.out_features = 3}, {x}), SoftmaxCrossEntropy{});
}

TEST_CASE("a convolution's result sinks into the ReLU that is all backward reads") {
  //   exact:  conv1 -> relu1* -> pool -> conv2 -> relu2* -> fc*      (* kept)
  //   paper:  conv1* -> relu1 -> pool -> conv2* -> relu2 -> fc*      backward reads x and y of ReLU
  Graph net({.name = "sink", .batch = 2});
  std::string x = net.Add("relu1", Relu{}, {net.Add("conv1", kSame, {net.Input({4, 8, 8})})});
  x = net.Add("pool", MaxPool{}, {x});
  x = net.Add("relu2", Relu{}, {net.Add("conv2", kSame, {x})});
  Finish(net, x);
  CHECK(Kept(net, ConvolutionResults) == "relu1 relu2");
  CHECK(Kept(net, Checkpoints) == "relu1 relu2 fc");
  CHECK(Segmented(net) == "pool");
  CHECK(Segmented(net, Accounting::kPaper) == "relu1 pool | relu2");
}

TEST_CASE("it does not sink past a fan, nor where backward reads the convolution itself") {
  //   conv1* -> bn1 -> relu1       batch norm's backward reads x
  //   conv2* -> relu2, relu3       two readers: what takes its place?
  Graph net({.name = "stay", .batch = 2});
  std::string x = net.Add("conv1", kSame, {net.Input({4, 8, 8})});
  x = net.Add("relu1", Relu{}, {net.Add("bn1", BatchNorm{}, {x})});
  x = net.Add("conv2", kSame, {x});
  const std::string a = net.Add("relu2", Relu{}, {x});
  const std::string b = net.Add("tanh", Tanh{}, {x});
  Finish(net, net.Add("cat", Concat{}, {a, b}));
  CHECK(Kept(net, ConvolutionResults) == "conv1 conv2");
  CHECK(Segmented(net) == "bn1 relu1 | relu2 tanh cat");
}

TEST_CASE("ResNet: a sum is a checkpoint, kept as what the ReLU after it makes of it") {
  //   x* --+-- conv1* - bn1 - relu1 - conv2* - bn2 --+
  //        |                                        add - relu2* - fc*
  //        +-----------------------------------------+
  Graph net({.name = "residual", .batch = 2});
  const std::string x = net.Add("relu0", Relu{}, {net.Add("conv0", kSame, {net.Input({4, 8, 8})})});
  std::string y = net.Add("bn1", BatchNorm{}, {net.Add("conv1", kSame, {x})});
  y = net.Add("conv2", kSame, {net.Add("relu1", Relu{}, {y})});
  y = net.Add("add", Add{}, {net.Add("bn2", BatchNorm{}, {y}), x});
  Finish(net, net.Add("relu2", Relu{}, {y}));
  CHECK(Kept(net, Checkpoints) == "relu0 conv1 conv2 relu2 fc");
  CHECK(Segmented(net) == "bn1 relu1 | bn2");
}

TEST_CASE("Inception: branches that meet in a concat are one segment") {
  //   conv1* -- bn1 -- relu1 --+
  //                           cat -- pool -- fc*       one: bn1 relu1 bn2 relu2 cat pool
  //   conv2* -- bn2 -- relu2 --+
  Graph net({.name = "inception", .batch = 2});
  const std::string x = net.Input({4, 8, 8});
  std::vector<std::string> branches;
  for (const char* i : {"1", "2"}) {
    std::string y = net.Add(absl::StrCat("conv", i), kSame, {x});
    y = net.Add(absl::StrCat("bn", i), BatchNorm{}, {y});
    branches.push_back(net.Add(absl::StrCat("relu", i), Relu{}, {y}));
  }
  Finish(net, net.Add("pool", MaxPool{}, {net.Add("cat", Concat{}, branches)}));
  CHECK(Segmented(net) == "bn1 relu1 bn2 relu2 cat pool");
}

TEST_CASE("branches that share a checkpoint but nothing that is dropped are segments apart") {
  //            +-- bn1 -- conv1* --+
  //   conv0* --+                  add* -- fc*
  //            +-- bn2 -- conv2* --+
  Graph net({.name = "share", .batch = 2});
  const std::string x = net.Add("conv0", kSame, {net.Input({4, 8, 8})});
  std::vector<std::string> branches;
  for (const char* i : {"1", "2"}) {
    const std::string y = net.Add(absl::StrCat("bn", i), BatchNorm{}, {x});
    branches.push_back(net.Add(absl::StrCat("conv", i), kSame, {y}));
  }
  Finish(net, net.Add("add", Add{}, branches));
  CHECK(Segmented(net) == "bn1 | bn2");
}

TEST_CASE("DenseNet: whoever reads a concat of everything before belongs to its segment") {
  //   conv0* --+-- bn1 - relu1 - conv1* --+
  //            +------------------------ cat1 -- bn2 - relu2 - conv2* --+
  //                                       +--------------------------- cat2 -- bn3 - fc*
  Graph net({.name = "dense", .batch = 2});
  std::string x = net.Add("conv0", kSame, {net.Input({4, 8, 8})});
  for (const char* i : {"1", "2"}) {
    std::string y = net.Add(absl::StrCat("bn", i), BatchNorm{}, {x});
    y = net.Add(absl::StrCat("conv", i), kSame, {net.Add(absl::StrCat("relu", i), Relu{}, {y})});
    x = net.Add(absl::StrCat("cat", i), Concat{}, {x, y});
  }
  Finish(net, net.Add("bn3", BatchNorm{}, {x}));
  CHECK(Segmented(net) == "bn1 relu1 | cat1 bn2 relu2 cat2 bn3");
}

TEST_CASE("even segments are cut every ceil(sqrt(n)) steps, and what crosses a cut is kept whole") {
  //   8 forward steps, 3 to a segment:  conv1 bn1 relu1 | conv2 bn2 relu2 | fc loss
  Graph net({.name = "even", .batch = 2});
  std::string x = net.Input({4, 8, 8});
  for (const char* i : {"1", "2"}) {
    x = net.Add(absl::StrCat("bn", i), BatchNorm{}, {net.Add(absl::StrCat("conv", i), kSame, {x})});
    x = net.Add(absl::StrCat("relu", i), Relu{}, {x});
  }
  Finish(net, x);
  const Program program = BuildProgram(net, {}).value();
  CHECK(Text(program, EvenSegments(program)) == "conv1 bn1 | conv2 bn2 | fc");
}

// What holds of any cut of any network.
void CheckSegments(const Program& program, const Segments& segments) {
  for (const Tensor& tensor : program.tensors) {
    if (!segments.dropped[tensor.id.index()]) continue;
    CAPTURE(tensor.name);
    REQUIRE(!IsPersistent(tensor.role));
    REQUIRE(!IsGiven(tensor.role));
    REQUIRE(segments.producer[tensor.id.index()].has_value());
    REQUIRE(segments.of_step[segments.producer[tensor.id.index()]->index()].has_value());
  }
  size_t count = 0;
  for (size_t i = 0; i < segments.steps.size(); ++i) {
    for (StepId step : segments.steps[i]) {
      REQUIRE(program.steps[step.index()].phase == Phase::kForward);
      REQUIRE(segments.of_step[step.index()] == i);
      ++count;
      for (const Use& use : program.steps[step.index()].writes)  // the loss's metrics, once
        REQUIRE(!IsPersistent(program.tensor(use.tensor).role));
    }
  }
  for (const std::optional<size_t>& of_step : segments.of_step) count -= of_step.has_value();
  REQUIRE(count == 0);
}

TEST_CASE("random networks: what is dropped has a step in a segment that makes it again") {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    CAPTURE(seed);
    for (const Accounting accounting : {Accounting::kExact, Accounting::kPaper}) {
      const Program program =
          BuildProgram(testing::RandomGraph(seed), {.accounting = accounting}).value();
      CheckSegments(program, CheckpointSegments(program));
      CheckSegments(program, EvenSegments(program));
      // Segments hand nothing dropped to each other: each is rebuilt from what is kept.
      const Segments segments = CheckpointSegments(program);
      for (const std::vector<StepId>& steps : segments.steps) {
        for (StepId step : steps) {
          for (const Use& use : program.steps[step.index()].reads) {
            if (!segments.dropped[use.tensor.index()]) continue;
            REQUIRE(segments.of_step[segments.producer[use.tensor.index()]->index()] ==
                    segments.of_step[step.index()]);
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace neap
