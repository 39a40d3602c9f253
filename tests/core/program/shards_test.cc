// The optimizer sharded over the ranks: which elements each updates, and the steps around it.
#include "neap/core/program/shards.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "neap/core/program/passes.h"
#include "neap/core/program/reduce_gradients.h"
#include "neap/layers/batch_norm.h"
#include "neap/layers/convolution.h"
#include "neap/layers/devices/device_description.h"
#include "neap/layers/fully_connected.h"
#include "neap/layers/softmax_cross_entropy.h"
#include "tests/random_graph.h"

namespace neap {
namespace {

using Names = std::vector<std::string>;
using Slices = std::vector<Slice>;

TEST_CASE("large parameters are divided evenly, small ones belong to the rank that has least") {
  ShardDivision division(2);
  CHECK(division.Next(600) == Slices{{0, 288}, {288, 312}});
  CHECK(division.Next(100) == Slices{{0, 100}, {0, 0}});
  CHECK(division.Next(75) == Slices{{0, 0}, {0, 75}});
  CHECK(division.Next(1) == Slices{{0, 0}, {0, 1}});
  CHECK(division.Next(512) == Slices{{0, 256}, {256, 256}});
  ShardDivision alone(1);
  CHECK(alone.Next(63) == Slices{{0, 63}});
}

TEST_CASE("the slices of all ranks are each parameter, exactly once") {
  std::mt19937 random(1);
  for (int ranks = 1; ranks <= 9; ++ranks) {
    ShardDivision division(ranks), again(ranks);
    std::vector<int64_t> owned(static_cast<size_t>(ranks));
    for (int i = 0; i < 300; ++i) {
      const int64_t elements = 1 + static_cast<int64_t>(random() % (i % 2 == 0 ? 2000 : 200000));
      const Slices slices = division.Next(elements);
      CHECK(slices == again.Next(elements));
      REQUIRE(slices.size() == owned.size());
      int64_t end = 0;
      for (size_t rank = 0; rank < slices.size(); ++rank) {
        owned[rank] += slices[rank].count;
        if (slices[rank].count == 0) continue;
        CHECK(slices[rank].first == end);
        CHECK(slices[rank].first % kShardAlignment == 0);
        end = slices[rank].end();
      }
      CHECK(end == elements);
    }
    const auto [least, most] = std::minmax_element(owned.begin(), owned.end());
    CHECK(*most - *least < *most / 50);
  }
}

// Parameters of 1584 (conv), 16 and 16 (bn), 640 and 5 (fc) elements.
Graph ShardedNet(DType dtype = DType::kFp32) {
  Graph net({.name = "net", .batch = 2, .dtype = dtype, .fusion = false});
  std::string x = net.Input({11, 4, 2});
  x = net.Add("conv", Convolution{.out_channels = 16, .kernel = 3, .padding = 1, .bias = false},
              {x});
  x = net.Add("bn", BatchNorm{}, {x});
  x = net.Add("fc", FullyConnected{.out_features = 5}, {x});
  net.Loss(x, SoftmaxCrossEntropy{});
  return net;
}

ProgramOptions OfRank(int rank, ProgramOptions options = {}) {
  options.share = {.rank = rank, .ranks = 2, .first_image = 2 * rank, .all_images = 4};
  options.shard = ShardOf(options.share, true);
  return options;
}

Program Built(const Graph& graph, const ProgramOptions& options) {
  absl::StatusOr<Program> program = BuildProgram(graph, options);
  REQUIRE_MESSAGE(program.ok(), program.status().ToString());
  return *std::move(program);
}

// All steps but those of layers in backward, with what they change; slices as "name[first, end)".
Names Steps(const Program& program) {
  Names names;
  for (const Step& step : program.steps) {
    if (IsOfLayer(step.phase) && step.phase != Phase::kForward) continue;
    std::string name = program.StepName(step);
    if (step.phase != Phase::kForward) {
      for (const Use& use : step.accumulates) {
        name += " " + program.tensor(use.tensor).name;
        if (!use.slice.has_value()) continue;
        name +=
            "[" + std::to_string(use.slice->first) + ", " + std::to_string(use.slice->end()) + ")";
      }
    }
    names.push_back(name);
  }
  return names;
}

TEST_CASE("parameters are gathered one bucket ahead, gradients scattered, and slices updated") {
  const Names first = Steps(Built(ShardedNet(), OfRank(0, {.bucket_bytes = 128})));
  const Names expected = {"conv all_gather conv.weight",
                          "bn all_gather bn.weight bn.bias",
                          "conv forward",
                          "fc all_gather fc.weight fc.bias",
                          "bn forward",
                          "bn all_reduce bn.running_mean bn.running_var",
                          "fc forward",
                          "loss forward",
                          "fc reduce_scatter fc.weight.grad fc.bias.grad",
                          "fc all_reduce loss.metrics",
                          "bn reduce_scatter bn.weight.grad bn.bias.grad",
                          "conv reduce_scatter conv.weight.grad",
                          "fc update fc.weight[0, 320) fc.weight.momentum",
                          "bn update bn.weight[0, 16) bn.weight.momentum bn.bias[0, 16) "
                          "bn.bias.momentum",
                          "conv update conv.weight[0, 784) conv.weight.momentum"};
  CHECK(first == expected);
  // The second rank has nothing of the batch norm to update.
  const Names second = Steps(Built(ShardedNet(DType::kBf16), OfRank(1)));
  REQUIRE(second.size() > 2);
  CHECK(second[second.size() - 2] ==
        "fc update fc.weight.bf16[320, 640) fc.weight fc.weight.momentum fc.bias[0, 5) "
        "fc.bias.momentum");
  CHECK(second.back() ==
        "conv update conv.weight.bf16[784, 1584) conv.weight conv.weight.momentum");
  CHECK(std::count(second.begin(), second.end(), "bn update") == 0);
}

TEST_CASE("ranks keep masters and momenta of their slices, and all parameters") {
  const Program whole = Built(ShardedNet(DType::kBf16), {});
  std::vector<int64_t> params, others(2);
  int64_t all = 0;
  for (const Tensor& tensor : whole.tensors) {
    if (tensor.role == Role::kMaster || tensor.role == Role::kOptimizer)
      all += tensor.spec.size_bytes();
    if (tensor.role == Role::kParam) params.push_back(tensor.spec.size_bytes());
  }
  for (int rank = 0; rank < 2; ++rank) {
    const Program program = Built(ShardedNet(DType::kBf16), OfRank(rank));
    std::vector<int64_t> of_rank;
    for (const Tensor& tensor : program.tensors) {
      if (tensor.role == Role::kParam) of_rank.push_back(tensor.spec.size_bytes());
      if (tensor.role != Role::kMaster && tensor.role != Role::kOptimizer) continue;
      others[static_cast<size_t>(rank)] += tensor.spec.size_bytes();
      REQUIRE(tensor.held.has_value());
      CHECK(tensor.spec == TensorSpec{.shape = {tensor.held->count}});
    }
    CHECK(of_rank == params);
  }
  CHECK(others[0] + others[1] == all);
  CHECK(others[0] == int64_t{4} * (2 * (784 + 320) + 16 + 16));
}

TEST_CASE("kernels of an update see vectors") {
  const Program program = Built(ShardedNet(DType::kBf16), OfRank(1));
  const StepSignature signature = program.Signature(program.steps.back());
  for (const Slot slot : {Slot::kParam, Slot::kParamGrad, Slot::kMaster, Slot::kOptimizer}) {
    const DType dtype = slot == Slot::kParam ? DType::kBf16 : DType::kFp32;
    CHECK(signature.Spec({slot, 0}) == TensorSpec{.shape = {800}, .dtype = dtype});
  }
}

TEST_CASE("programs for inference have the same tensors, and gather nothing") {
  const ProgramOptions training = OfRank(1);
  const Program program = Built(ShardedNet(), training);
  const Program inference =
      Built(ShardedNet(), {.mode = Mode::kInference, .shard = training.shard});
  for (const Tensor& tensor : inference.tensors) {
    if (IsPersistent(tensor.role)) CHECK(program.tensor(tensor.id) == tensor);
  }
  for (const Step& step : inference.steps) CHECK(step.phase == Phase::kForward);
}

TEST_CASE("a part of a network has the slices of the whole") {
  const Program whole = Built(ShardedNet(), OfRank(1));
  Graph net({.name = "part", .batch = 2, .fusion = false});
  std::string x = net.Input({11, 4, 2});
  x = net.Add("conv", Convolution{.out_channels = 16, .kernel = 3, .padding = 1, .bias = false},
              {x});
  net.Loss(net.Add("fc", FullyConnected{.out_features = 5}, {x}), SoftmaxCrossEntropy{});
  absl::StatusOr<Program> part = LowerPart(net, whole, DescribedDevice("h200").value());
  REQUIRE_MESSAGE(part.ok(), part.status().ToString());
  for (const Tensor& tensor : whole.tensors) {
    if (IsPersistent(tensor.role)) CHECK(part->tensor(tensor.id) == tensor);
  }
  CHECK(Steps(*part).back() == "conv update conv.weight[784, 1584) conv.weight.momentum");
}

TEST_CASE("ranks with the same shards have the same hash of collectives") {
  const uint64_t hash = HashOfCollectives(Built(ShardedNet(), OfRank(0)));
  CHECK(HashOfCollectives(Built(ShardedNet(), OfRank(1, {.buckets_in_flight = 1}))) == hash);
  CHECK(HashOfCollectives(Built(ShardedNet(), OfRank(1, {.bucket_bytes = 32}))) != hash);
  Program other = Built(ShardedNet(), OfRank(1));
  for (Tensor& tensor : other.tensors) {
    if (tensor.name == "fc.weight.grad") tensor.shards = {{0, 304}, {304, 336}};
  }
  CHECK(HashOfCollectives(other) != hash);
}

TEST_CASE("one rank has all of the optimizer") {
  ProgramOptions alone;
  alone.shard = ShardOf(alone.share, true);
  CHECK(Built(ShardedNet(), alone) == Built(ShardedNet(), {}));
}

TEST_CASE("a sharded optimizer refuses scaled losses, parameters on the host and other ranks") {
  const auto error = [](const Graph& graph, const ProgramOptions& options) {
    const absl::Status status = BuildProgram(graph, options).status();
    CHECK(absl::IsInvalidArgument(status));
    return std::string(status.message());
  };
  CHECK(error(ShardedNet(DType::kFp16), OfRank(0)) ==
        "an optimizer that is sharded over the ranks cannot check the gradients of fp16; bf16 "
        "needs no check");
  CHECK(error(ShardedNet(), OfRank(0, {.offload_params = true})) ==
        "an optimizer that is sharded over the ranks stays on the device; parameters cannot be "
        "kept on the host as well");
  CHECK(
      error(ShardedNet(), OfRank(0, {.homes = {{"fc.weight", Home::kExternal}}}))
          .find("with a sharded optimizer all persistent tensors stay in the arena; 'fc.weight'") ==
      0);
  ProgramOptions other = OfRank(0);
  other.shard.ranks = 3;
  CHECK(error(ShardedNet(), other) == "the optimizer is sharded over other ranks than the batch");
}

}  // namespace
}  // namespace neap
