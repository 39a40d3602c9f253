// Layers that span the ranks: the steps of a batch norm with the statistics of all ranks.
#include "neap/core/program/span_ranks.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "neap/core/program/passes.h"
#include "neap/core/program/program.h"
#include "neap/core/program/reduce_gradients.h"
#include "neap/layers/activation.h"
#include "neap/layers/batch_norm.h"
#include "neap/layers/convolution.h"
#include "neap/layers/devices/device_description.h"
#include "neap/layers/fully_connected.h"
#include "neap/layers/fusion/sync_batch_norm.h"
#include "neap/layers/softmax_cross_entropy.h"
#include "neap/recompute/segments.h"

namespace neap {
namespace {

constexpr RankShare kSecondRank = {.rank = 1, .ranks = 3, .first_image = 3, .all_images = 9};

Graph SpannedNet() {
  Graph net({.name = "net", .batch = 2});
  std::string x = net.Input({3, 4, 2});
  x = net.Add("conv", Convolution{.out_channels = 4, .kernel = 3, .padding = 1, .bias = false},
              {x});
  x = net.Add("bn", BatchNorm{}, {x});
  x = net.Add("relu", Relu{}, {x});
  x = net.Add("fc", FullyConnected{.out_features = 5}, {x});
  net.Loss(x, SoftmaxCrossEntropy{});
  return net;
}

Program Lowered(const ProgramOptions& options) {
  const DeviceDescription h200 = DescribedDevice("h200").value();
  absl::StatusOr<Program> program = Lower(SpannedNet(), options, h200);
  REQUIRE_MESSAGE(program.ok(), program.status().ToString());
  return *std::move(program);
}

// The steps that touch tensors of `prefix`, with those that they accumulate into.
std::vector<std::string> StepsOf(const Program& program, std::string_view prefix) {
  std::vector<std::string> names;
  for (const Step& step : program.steps) {
    if (!program.StepName(step).starts_with(prefix)) continue;
    names.push_back(program.StepName(step));
    for (const Use& use : step.accumulates) names.back() += " " + program.tensor(use.tensor).name;
  }
  return names;
}

TEST_CASE("a batch norm over ranks is two layers, with sums between them in both directions") {
  const Program program = Lowered({.share = kSecondRank, .sync_batch_norm = true});
  CHECK(StepsOf(program, "bn") ==
        std::vector<std::string>{"bn.statistics forward", "bn.statistics all_reduce bn.statistics",
                                 "bn forward bn.running_mean bn.running_var", "bn backward_data",
                                 "bn all_reduce bn.statistics.grad",
                                 "bn.statistics backward_data conv.grad"});
  const auto statistics =
      std::find_if(program.tensors.begin(), program.tensors.end(),
                   [](const Tensor& tensor) { return tensor.name == "bn.statistics"; });
  REQUIRE(statistics != program.tensors.end());
  CHECK(statistics->spec == TensorSpec{.shape = {3, RowLength(4)}});
  CHECK(WeightInSum(program, {statistics->id, {Slot::kOutput}}) == 1);
}

TEST_CASE("running statistics that are equal on all ranks are not summed again") {
  for (const bool sync : {false, true}) {
    const Program program = Lowered({.share = kSecondRank, .sync_batch_norm = sync});
    int sums = 0;
    for (const Step& step : program.steps) {
      if (!IsCollective(step.phase)) continue;
      for (const Use& use : step.accumulates)
        sums += program.tensor(use.tensor).name.starts_with("bn.running") ? 1 : 0;
    }
    CHECK(sums == (sync ? 0 : 2));
  }
}

TEST_CASE("persistent tensors are the same with and without, in training and inference") {
  const auto persistent = [](const Program& program) {
    std::vector<Tensor> tensors;
    for (const Tensor& tensor : program.tensors) {
      if (IsPersistent(tensor.role)) tensors.push_back(tensor);
    }
    return tensors;
  };
  const std::vector<Tensor> expected = persistent(Lowered({}));
  CHECK(persistent(Lowered({.share = kSecondRank, .sync_batch_norm = true})) == expected);
  const Program inference = Lowered({.mode = Mode::kInference, .sync_batch_norm = true});
  CHECK(persistent(inference) == expected);
  CHECK(StepsOf(inference, "bn.statistics").empty());
}

TEST_CASE("one rank's program is the same with and without") {
  CHECK(Lowered({.sync_batch_norm = true}).steps == Lowered({}).steps);
}

TEST_CASE("ranks of which not all synchronise have different collectives") {
  CHECK(HashOfCollectives(Lowered({.share = kSecondRank, .sync_batch_norm = true})) !=
        HashOfCollectives(Lowered({.share = kSecondRank})));
}

TEST_CASE("what is summed in forward is never rebuilt") {
  const Program program = Lowered({.share = kSecondRank, .sync_batch_norm = true});
  for (const Segments& segments :
       {CheckpointSegments(program), EvenSegments(program), NothingDropped(program)}) {
    for (const Step& step : program.steps) {
      const std::string name = program.StepName(step);
      if (name == "bn.statistics forward") CHECK(!segments.of_step[step.id.index()].has_value());
      if (name == "bn.statistics forward") CHECK(!segments.dropped[step.writes[0].tensor.index()]);
    }
  }
  const Segments any = NothingDropped(program);
  const auto forward = std::find_if(program.steps.begin(), program.steps.end(), [&](const Step& s) {
    return program.StepName(s) == "bn forward";
  });
  CHECK(any.of_step[forward->id.index()].has_value());
}

TEST_CASE("sub-batches are refused with a batch norm over ranks, too") {
  const DeviceDescription h200 = DescribedDevice("h200").value();
  const auto refusal =
      Lower(SpannedNet(), {.sub_batches = 2, .share = kSecondRank, .sync_batch_norm = true}, h200)
          .status();
  CHECK(refusal.message() ==
        "layer 'bn.statistics' cannot be run in 2 sub-batches: it couples the images of a batch");
}

}  // namespace
}  // namespace neap
