#include "tests/core/run/folded_training.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>

#include "neap/core/program/passes.h"
#include "neap/layers/fusion/folded_convolution.h"
#include "neap/layers/fusion/rules.h"
#include "neap/nets/residual/resnet.h"
#include "tests/core/run/random_training.h"
#include "tests/forwarding_device.h"

namespace neap::testing {
namespace {

// The device, with networks rewritten as for a GPU that folds batch norms, or one that does not.
DescribedAs GpuByName(Device& device, bool folds) {
  DeviceDescription description = device.description();
  description.rules = GpuRules();
  description.folding_types =
      folds ? std::vector<DType>{DType::kFp32, DType::kBf16, DType::kFp16} : std::vector<DType>{};
  return {device, std::move(description)};
}

// Eight bottleneck blocks, four of which change the shape. In the first two stages the batch has
// enough pixels, and one of their shortcuts has no stride.
Graph SmallResNet(DType dtype) {
  return nets::ResNet({.blocks = {2, 2, 2, 2},
                       .image = 64,
                       .classes = 4,
                       .batch = 8,
                       .width = 4,
                       .dtype = dtype,
                       .layout = Layout::kChannelsLast});
}

int CountFolded(const Graph& graph, const Device& device) {
  const Program program = Lower(graph, {}, device.description()).value();
  return static_cast<int>(std::count_if(
      program.layers.begin(), program.layers.end(),
      [](const ProgramLayer& layer) { return layer.layer.As<FoldedConvolution>() != nullptr; }));
}

// The distance between two states, relative to the second.
double Difference(const TrainedState& a, const TrainedState& b) {
  double difference = 0, size = 0;
  for (const auto& [name, values] : b) {
    for (size_t i = 0; i < values.size(); ++i) {
      const double value = static_cast<double>(values[i]);
      difference += std::pow(static_cast<double>(a.at(name)[i]) - value, 2);
      size += value * value;
    }
  }
  return std::sqrt(difference / size);
}

const PlannerOptions kPlain = {.policy = "keep-all", .in_place = false, .strict = true};

}  // namespace

// One step, because rounding errors grow a hundred times with each.
void CheckFoldingIsClose(Device& device) {
  DescribedAs apart = GpuByName(device, false), together = GpuByName(device, true);
  const auto train = [](Device& on, DType dtype) {
    return TrainRandom(SmallResNet(dtype), on, kPlain, nullptr, /*steps=*/1);
  };
  CHECK(CountFolded(SmallResNet(DType::kFp32), apart) == 0);
  CHECK(CountFolded(SmallResNet(DType::kFp32), together) == 5);
  const TrainedState exact = train(apart, DType::kFp32);
  const double in_fp32 = Difference(train(together, DType::kFp32), exact);
  CHECK(in_fp32 > 0);
  CHECK(in_fp32 < 1e-5);
  const double in_bf16 = Difference(train(together, DType::kBf16), exact);
  CHECK(in_bf16 <= 1.2 * Difference(train(apart, DType::kBf16), exact));
}

void CheckFoldedPlans(Device& device) {
  DescribedAs folding = GpuByName(device, true);
  for (const DType dtype : {DType::kFp32, DType::kBf16, DType::kFp16}) {
    CAPTURE(Name(dtype));
    const Graph net = SmallResNet(dtype);
    const TrainedState want = TrainRandom(net, folding, kPlain, nullptr);
    CheckPlans(net, folding, want);
  }
}

}  // namespace neap::testing
