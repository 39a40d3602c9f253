#include "neap/core/program/passes.h"

#include <doctest/doctest.h>

#include <vector>

#include "neap/layers/activation.h"
#include "neap/layers/batch_norm.h"
#include "neap/layers/devices/device_description.h"
#include "neap/layers/fully_connected.h"
#include "neap/layers/fusion/norm_pass.h"
#include "neap/layers/fusion/rules.h"
#include "neap/layers/norm/group_norm.h"
#include "neap/layers/softmax_cross_entropy.h"
#include "tests/random_graph.h"
#include "tests/small_net.h"

namespace neap {

namespace {

int FusedLayers(const Program& program) {
  int count = 0;
  for (const ProgramLayer& layer : program.layers)
    count += layer.layer.type() == NormPass::kType ? 1 : 0;
  return count;
}

std::vector<Tensor> Persistent(const Program& program) {
  std::vector<Tensor> persistent;
  for (const Tensor& tensor : program.tensors) {
    if (IsPersistent(tensor.role)) persistent.push_back(tensor);
  }
  return persistent;
}

}  // namespace

TEST_CASE("without fusion and groups of updates, a program is as it was built, for every device") {
  const DeviceDescription h200 = DescribedDevice("h200").value();
  for (uint32_t seed = 1; seed <= 10; ++seed) {
    CAPTURE(seed);
    const Graph graph = testing::RandomGraph(seed, {.fusion = false});
    for (const Mode mode : {Mode::kTraining, Mode::kInference}) {
      const ProgramOptions options = {.mode = mode, .offload_params = true};
      const Program built = BuildProgram(graph, options).value();
      CHECK(Lower(graph, options, h200).value() == built);
      CHECK(Lower(graph, options, {}).value() == built);
      CHECK(Lower(graph, {.mode = mode}, {}).value() ==
            BuildProgram(graph, {.mode = mode}).value());
    }
  }
}

TEST_CASE("layers are fused in networks and in their parts, but not with the paper's accounting") {
  const DeviceDescription h200 = DescribedDevice("h200").value();
  const Program whole = Lower(SmallNet(), {}, h200).value();
  CHECK(FusedLayers(whole) > 0);
  CHECK(FusedLayers(Lower(SmallNet(), {.mode = Mode::kInference}, h200).value()) ==
        FusedLayers(whole));
  CHECK(FusedLayers(Lower(SmallNet(), {.accounting = Accounting::kPaper}, h200).value()) == 0);
  CHECK(FusedLayers(BuildProgram(SmallNet(), {}).value()) == 0);
  const Graph part = SmallNet(Layout::kChannelsFirst, /*with_block=*/false);
  CHECK(FusedLayers(LowerPart(part, whole, h200).value()) == FusedLayers(whole));
}

TEST_CASE("inference has the persistent tensors of training, however each is fused") {
  const DeviceDescription h200 = DescribedDevice("h200").value();
  for (uint32_t seed = 0; seed < testing::RandomSeeds(60); ++seed) {
    for (const int ranks : {1, 2, 3}) {
      const Graph graph =
          testing::RandomGraph(seed, {.dtype = seed % 5 == 0 ? DType::kFp16 : DType::kFp32,
                                      .fusion = seed % 7 != 0,
                                      .residual = seed % 3 == 1,
                                      .dense = seed % 3 == 2,
                                      .auxiliary = seed % 4 == 3,
                                      .ports = seed % 2 == 1,
                                      .shares = seed % 3 == 1});
      for (const DeviceDescription& device : {h200, DeviceDescription{.rules = CpuRules()}}) {
        for (const bool sync_batch_norm : {false, true}) {
          CAPTURE(seed);
          CAPTURE(ranks);
          CAPTURE(sync_batch_norm);
          const Program training = Lower(graph,
                                         {.share = {.ranks = ranks, .all_images = 2 * ranks},
                                          .fusion_batch = ranks > 1 ? 2 : 0,
                                          .sync_batch_norm = sync_batch_norm},
                                         device)
                                       .value();
          CHECK(Persistent(LowerInference(graph, training, device).value()) ==
                Persistent(training));
        }
      }
    }
  }
}

TEST_CASE("a part of a network is refused for a tensor that the whole lacks") {
  const DeviceDescription h200 = DescribedDevice("h200").value();
  const Graph part = SmallNet(Layout::kChannelsFirst, /*with_block=*/false);
  const Program smaller = Lower(part, {}, h200).value();
  CHECK(LowerPart(SmallNet(), smaller, h200).status().code() == absl::StatusCode::kInvalidArgument);
}

TEST_CASE("training an instance norm of one position is refused, and a group norm is not") {
  const auto lowered = [](const Layer& norm, Mode mode) {
    Graph graph({.name = "net", .batch = 4});
    std::string x = graph.Add("norm", norm, {graph.Input({6, 1, 1})});
    x = graph.Add("fc", FullyConnected{.out_features = 2}, {x});
    graph.Loss(x, SoftmaxCrossEntropy{});
    return Lower(graph, {.mode = mode}, DescribedDevice("h200").value()).status();
  };
  CHECK(lowered(InstanceNorm{}, Mode::kTraining).message() ==
        "layer 'norm': training needs more than 1 value per channel, but its input is 4x6x1x1; "
        "larger images have more");
  CHECK(lowered(InstanceNorm{}, Mode::kInference).ok());
  CHECK(lowered(GroupNorm{.groups = 6}, Mode::kTraining).ok());
}

TEST_CASE("training a batch norm of one value per channel is refused, and inference is not") {
  const auto net = [](int64_t batch, int64_t image) {
    Graph graph({.name = "net", .batch = batch});
    std::string x = graph.Input({3, image, image});
    x = graph.Add("bn", BatchNorm{}, {x});
    x = graph.Add("relu", Relu{}, {x});
    x = graph.Add("fc", FullyConnected{.out_features = 2}, {x});
    graph.Loss(x, SoftmaxCrossEntropy{});
    return graph;
  };
  const DeviceDescription h200 = DescribedDevice("h200").value();
  const auto check = [&](const Graph& graph, const ProgramOptions& options, bool is_refused) {
    for (const DeviceDescription& device : {h200, DeviceDescription{.rules = CpuRules()}}) {
      const absl::Status status = Lower(graph, options, device).status();
      CHECK(absl::IsInvalidArgument(status) == is_refused);
      if (!is_refused) continue;
      const std::string message(status.message());
      CHECK(message.find("layer 'bn': training needs more than 1 value per channel, but its input "
                         "is 1x3x1x1") == 0);
    }
  };
  check(net(1, 1), {}, true);
  check(net(1, 1), {.accounting = Accounting::kPaper}, true);
  check(net(1, 1), {.mode = Mode::kInference}, false);
  check(net(2, 1), {}, false);
  check(net(1, 2), {}, false);
  const RankShare share = {.rank = 1, .ranks = 2, .first_image = 1, .all_images = 2};
  check(net(1, 1), {.share = share}, true);
  check(net(1, 1), {.share = share, .sync_batch_norm = true}, false);
  const Program whole = Lower(net(2, 1), {}, h200).value();
  CHECK(absl::IsInvalidArgument(LowerPart(net(1, 1), whole, h200).status()));
}

}  // namespace neap
