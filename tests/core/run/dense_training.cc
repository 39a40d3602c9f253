#include "tests/core/run/dense_training.h"

#include <doctest/doctest.h>

#include <string>
#include <utility>

#include "neap/memory/create_session.h"
#include "neap/nets/densenet.h"
#include "tests/forwarding_device.h"
#include "tests/small_training.h"

namespace neap::testing {
namespace {

constexpr int kDenseSteps = 3;
constexpr TrainingOptions kDenseTraining = {.learning_rate = {.base = 0.01F}};

// Takes the batches of MakeBatch(). Its concatenations have parts of 4, 8, 10 and 11 channels.
Graph SmallDenseNet(DType dtype, Layout layout, bool fusion) {
  const Graph net = nets::CifarDenseNet({.depth = 22,
                                         .growth_rate = 4,
                                         .bottleneck = true,
                                         .compression = 0.5,
                                         .image = 8,
                                         .classes = 4,
                                         .batch = 8,
                                         .dtype = dtype,
                                         .layout = layout});
  GraphOptions options = net.options();
  options.fusion = fusion;
  Graph graph(options);
  for (const GraphLayer& layer : net.layers()) graph.Add(layer);
  return graph;
}

Session TrainedDense(const Graph& net, Device& device, PlannerOptions planning) {
  planning.strict = true;
  absl::StatusOr<Session> session = CreateSession(net, device, planning, kDenseTraining);
  REQUIRE_MESSAGE(session.ok(), session.status().ToString());
  Train(*session, kDenseSteps);
  return *std::move(session);
}

}  // namespace

void CheckDenseNetFusion(Device& any) {
  DescribedAs device = WithoutFolding(any);
  for (const DType dtype : {DType::kFp32, DType::kFp16, DType::kBf16}) {
    for (const Layout layout : {Layout::kChannelsFirst, Layout::kChannelsLast}) {
      CAPTURE(std::string(Name(dtype)));
      CAPTURE(std::string(Name(layout)));
      Session apart =
          TrainedDense(SmallDenseNet(dtype, layout, false), device, {.policy = "liveness"});
      const Graph net = SmallDenseNet(dtype, layout, true);
      PlannerOptions planning = {.policy = "liveness"};
      Session fused = TrainedDense(net, device, planning);
      CHECK(fused.plan().steps.size() < apart.plan().steps.size());
      if (device.description().kind == "cpu") {
        CHECK(fused.plan().peak_bytes < apart.plan().peak_bytes);
      } else {  // where workspaces of convolutions can be larger than this network's tensors
        CHECK(fused.plan().peak_bytes <= apart.plan().peak_bytes);
      }
      CheckSameState(apart, fused);
      planning.policy = "superneurons";
      Session rebuilt = TrainedDense(net, device, planning);
      planning.budget_bytes = rebuilt.planning().minimum_budget_bytes;
      rebuilt = TrainedDense(net, device, planning);
      CheckSameState(apart, rebuilt);
    }
  }
}

}  // namespace neap::testing
