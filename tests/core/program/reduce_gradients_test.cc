// The steps at which ranks sum their gradients: what they sum, when, and what waits for them.
#include "neap/core/program/reduce_gradients.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "neap/core/base/status_macros.h"
#include "neap/core/program/passes.h"
#include "neap/core/program/program.h"
#include "neap/layers/batch_norm.h"
#include "neap/layers/convolution.h"
#include "neap/layers/devices/device_description.h"
#include "neap/layers/dropout.h"
#include "neap/layers/fully_connected.h"
#include "neap/layers/softmax_cross_entropy.h"
#include "tests/random_graph.h"

namespace neap {
namespace {

using Names = std::vector<std::string>;

// In the order in which they are complete: two statistics of 16 bytes, the metrics, 8, and the
// gradients: fc 640 and 20, bn 16 and 16, conv 432.
Graph ReducedNet(DType dtype = DType::kFp32, int64_t batch = 2, int64_t classes = 5) {
  Graph net({.name = "net", .batch = batch, .dtype = dtype, .fusion = false});
  std::string x = net.Input({3, 4, 2});
  x = net.Add("conv", Convolution{.out_channels = 4, .kernel = 3, .padding = 1, .bias = false},
              {x});
  x = net.Add("bn", BatchNorm{}, {x});
  x = net.Add("drop", Dropout{}, {x});
  x = net.Add("fc", FullyConnected{.out_features = classes}, {x});
  net.Loss(x, SoftmaxCrossEntropy{});
  return net;
}

constexpr RankShare kSecondOfThree = {.rank = 1, .ranks = 3, .first_image = 3, .all_images = 9};

Program Ranked(const Graph& graph, ProgramOptions options = {}) {
  options.share = kSecondOfThree;
  absl::StatusOr<Program> program = BuildProgram(graph, options);
  REQUIRE_MESSAGE(program.ok(), program.status().ToString());
  return *std::move(program);
}

// The steps of collectives, with their tensors, and of the optimizer.
Names Sums(const Program& program) {
  Names names;
  for (const Step& step : program.steps) {
    if (IsOfLayer(step.phase)) continue;
    std::string name = program.StepName(step);
    if (IsCollective(step.phase)) {
      for (const Use& use : step.accumulates) name += " " + program.tensor(use.tensor).name;
    }
    names.push_back(name);
  }
  return names;
}

constexpr const char* kStatistics = "bn all_reduce bn.running_mean bn.running_var";
constexpr const char* kFirst = "fc all_reduce loss.metrics fc.weight.grad fc.bias.grad";
constexpr const char* kSecond = "bn all_reduce bn.weight.grad bn.bias.grad";
constexpr const char* kThird = "conv all_reduce conv.weight.grad";

TEST_CASE("gradients, statistics and metrics are summed in buckets as soon as they are complete") {
  const Program program = Ranked(ReducedNet(), {.bucket_bytes = 20});
  CHECK(Sums(program) ==
        Names{kStatistics, kFirst, kSecond, kThird, "fc update", "bn update", "conv update"});
  for (size_t i = 0; i < program.steps.size(); ++i) CHECK(program.steps[i].id == StepId(i));
  const auto named = [&](const std::string& name) {
    return std::find_if(program.steps.begin(), program.steps.end(),
                        [&](const Step& step) { return program.StepName(step) == name; });
  };
  CHECK(named("fc all_reduce") == named("fc backward_params") + 1);
  CHECK(program.StepType(*named("fc all_reduce")) == "collective");

  const Names two = Sums(Ranked(ReducedNet(), {.bucket_bytes = 100}));
  CHECK(two[0] ==
        "fc all_reduce bn.running_mean bn.running_var loss.metrics fc.weight.grad fc.bias.grad");
  CHECK(two[1] == "conv all_reduce bn.weight.grad bn.bias.grad conv.weight.grad");
  CHECK(Sums(Ranked(ReducedNet())).size() == 4);  // one bucket and three updates
  CHECK(Sums(Ranked(ReducedNet(), {.mode = Mode::kInference})).empty());
}

TEST_CASE("the last bucket has what is complete last, as far as it fits") {
  const auto sums = [](int64_t last_bytes) {
    Names names =
        Sums(Ranked(ReducedNet(), {.bucket_bytes = kUnlimited, .last_bucket_bytes = last_bytes}));
    names.resize(names.size() - 3);  // without updates
    return names;
  };
  CHECK(sums(431).size() == 1);
  for (const int64_t bytes : {432, 449}) {
    CHECK(sums(bytes) ==
          Names{"bn all_reduce bn.running_mean bn.running_var loss.metrics fc.weight.grad "
                "fc.bias.grad bn.weight.grad bn.bias.grad",
                kThird});
  }
  CHECK(sums(kUnlimited).size() == 1);
}

TEST_CASE("updates wait for as many later buckets as they are told to, or for the end") {
  CHECK(Sums(Ranked(ReducedNet(), {.bucket_bytes = 20, .buckets_in_flight = 1})) ==
        Names{kStatistics, kFirst, kSecond, "fc update", kThird, "bn update", "conv update"});
  CHECK(Sums(Ranked(ReducedNet(), {.bucket_bytes = 20, .buckets_in_flight = 2})) ==
        Names{kStatistics, kFirst, kSecond, kThird, "fc update", "bn update", "conv update"});
}

TEST_CASE("with a scaled loss, gradients are checked after their sum, so that all ranks skip") {
  const Names names =
      Sums(Ranked(ReducedNet(DType::kFp16), {.bucket_bytes = 20, .buckets_in_flight = 1}));
  CHECK(names == Names{kStatistics, kFirst, kSecond, "fc check_gradients", kThird,
                       "bn check_gradients", "conv check_gradients", "fc update", "bn update",
                       "conv update", "loss update_scale"});
}

TEST_CASE("a rank draws its images' random numbers and takes the mean over all ranks' images") {
  const Program program = Ranked(ReducedNet());
  for (const Step& step : program.steps) {
    if (step.phase != Phase::kForward) continue;
    const StepSignature signature = program.Signature(step);
    if (step.depends_on_part) CHECK(signature.part == BatchPart{.first = 3, .of = 9});
    if (!step.depends_on_part) CHECK(signature.part == BatchPart{});
  }
  const Program halves = Ranked(
      [] {
        Graph net({.name = "halves", .batch = 2, .fusion = false});
        net.Loss(net.Add("fc", FullyConnected{.out_features = 5}, {net.Input({3, 4, 2})}),
                 SoftmaxCrossEntropy{});
        return net;
      }(),
      {.sub_batches = 2});
  const auto loss = std::find_if(halves.steps.begin(), halves.steps.end(), [&](const Step& step) {
    return halves.StepName(step) == "loss[2/2] forward";
  });
  REQUIRE(loss != halves.steps.end());
  CHECK(halves.Signature(*loss).part == BatchPart{.first = 4, .of = 9});
}

TEST_CASE("running statistics are averaged by the images of each rank, all else is summed") {
  const Program program = Ranked(ReducedNet());
  for (const Step& step : program.steps) {
    if (!IsCollective(step.phase)) continue;
    for (const Use& use : step.accumulates) {
      const std::string& name = program.tensor(use.tensor).name;
      CAPTURE(name);
      CHECK(WeightInSum(program, use) == (name.find("running") == std::string::npos ? 1 : 2.0 / 9));
    }
  }
}

TEST_CASE("ranks with the same collectives have the same hash, whatever their batch") {
  const uint64_t hash = HashOfCollectives(Ranked(ReducedNet()));
  CHECK(HashOfCollectives(Ranked(ReducedNet(DType::kFp32, 1), {.buckets_in_flight = 1})) == hash);
  CHECK(HashOfCollectives(Ranked(ReducedNet(), {.bucket_bytes = 20})) != hash);
  CHECK(HashOfCollectives(Ranked(ReducedNet(DType::kFp32, 2, 6))) != hash);
}

TEST_CASE("a rank's images must be some of all") {
  const auto refusal = [](const RankShare& share, Accounting accounting = Accounting::kExact) {
    return std::string(
        BuildProgram(ReducedNet(), {.accounting = accounting, .share = share}).status().message());
  };
  CHECK(refusal(kSecondOfThree) == "");
  CHECK(refusal({.rank = 3, .ranks = 3, .first_image = 0, .all_images = 9}) ==
        "rank 3 of 3 cannot train images 0 to 1 of a batch of 9");
  CHECK(refusal({.rank = 0, .ranks = 2, .first_image = 3, .all_images = 4}) ==
        "rank 0 of 2 cannot train images 3 to 4 of a batch of 4");
  CHECK(refusal({.rank = 0, .ranks = 0}) != "");
  CHECK(refusal(kSecondOfThree, Accounting::kPaper) == "the paper's accounting knows no ranks");
}

// Folded convolutions read gradients of their parameters in backward: the rank's own.
TEST_CASE("no step of a layer touches a tensor once it has been summed") {
  const DeviceDescription h200 = DescribedDevice("h200").value();
  int sums = 0;
  for (uint32_t seed = 0; seed < 20; ++seed) {
    CAPTURE(seed);
    const Graph graph = testing::RandomGraph(seed, {.batch = 2,
                                                    .max_channels = 256,
                                                    .dtype = DType::kBf16,
                                                    .layout = Layout::kChannelsLast,
                                                    .residual = true,
                                                    .ports = seed % 2 == 1});
    const absl::StatusOr<Program> program =
        Lower(graph, {.share = kSecondOfThree, .bucket_bytes = 1}, h200);
    REQUIRE_MESSAGE(program.ok(), program.status().ToString());
    std::vector<bool> is_summed(program->tensors.size());
    for (const Step& step : program->steps) {
      for (const std::vector<Use>* uses : {&step.reads, &step.writes, &step.accumulates}) {
        for (const Use& use : *uses) {
          if (IsOfLayer(step.phase)) CHECK(!is_summed[use.tensor.index()]);
          if (!IsCollective(step.phase)) continue;
          is_summed[use.tensor.index()] = true;
          ++sums;
        }
      }
    }
  }
  CHECK(sums > 100);
}

// Of the part of the batch that a rank has, the first layers gain from being one or not.
TEST_CASE("ranks with unequal parts of the batch have the same layers, tensors and sums") {
  const DeviceDescription h200 = DescribedDevice("h200").value();
  const auto lower = [&](int64_t images, const ProgramOptions& options) {
    Graph net({.batch = images, .dtype = DType::kBf16, .layout = Layout::kChannelsLast});
    std::string x = net.Input({8, 16, 16});
    x = net.Add("conv", Convolution{.out_channels = 16, .bias = false}, {x});
    x = net.Add("bn", BatchNorm{}, {x});
    net.Loss(net.Add("fc", FullyConnected{.out_features = 4}, {x}), SoftmaxCrossEntropy{});
    return Lower(net, options, h200).value();
  };
  const RankShare first = {.rank = 0, .ranks = 2, .first_image = 0, .all_images = 4};
  const RankShare second = {.rank = 1, .ranks = 2, .first_image = 1, .all_images = 4};
  const Program few = lower(1, {.share = first}), many = lower(3, {.share = second});
  CHECK(few.layers.size() == many.layers.size());
  CHECK(lower(1, {}).layers.size() > lower(3, {}).layers.size());
  CHECK(HashOfCollectives(few) == HashOfCollectives(many));
  const Program inference =
      lower(1, {.mode = Mode::kInference, .fusion_batch = FusionBatch(first)});
  for (size_t i = 0; i < few.tensors.size() && IsPersistent(few.tensors[i].role); ++i)
    CHECK(few.tensors[i] == inference.tensors[i]);
}

TEST_CASE("ranks sum gradients in tf32 as in fp32") {
  CHECK(BuildProgram(ReducedNet(DType::kTf32), {.share = kSecondOfThree}).ok());
}

struct OwnLoss {
  static constexpr std::string_view kType = "own_loss";
  absl::StatusOr<LayerSpec> Specify(const LayerContext& context) const {
    ASSIGN_OR_RETURN(LayerSpec spec, SoftmaxCrossEntropy{}.Specify(context));
    for (StepSpec& step : spec.steps) step.depends_on_part = false;
    return spec;
  }
  bool operator==(const OwnLoss&) const = default;
};

TEST_CASE("a loss that knows no ranks is refused") {
  Graph net({.name = "net", .batch = 2, .fusion = false});
  net.Loss(net.Add("fc", FullyConnected{.out_features = 5}, {net.Input({3, 4, 2})}), OwnLoss{});
  CHECK(BuildProgram(net, {}).ok());
  CHECK(BuildProgram(net, {.share = kSecondOfThree}).status().message() ==
        "loss forward: the loss takes the mean over its own images, not over those of all ranks "
        "or of all batches whose gradients are summed "
        "(StepSpec::depends_on_part)");
}

TEST_CASE("a program of one rank has no collectives") {
  CHECK(BuildProgram(ReducedNet(), {.share = {}, .bucket_bytes = 1}).value().steps ==
        BuildProgram(ReducedNet(), {}).value().steps);
}

}  // namespace
}  // namespace neap
