#include "neap/recompute/retentions.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <string>

#include "neap/core/graph/graph.h"
#include "neap/core/program/passes.h"
#include "neap/layers/batch_norm.h"
#include "neap/layers/convolution.h"
#include "neap/layers/devices/device_description.h"
#include "neap/layers/fully_connected.h"
#include "neap/layers/softmax_cross_entropy.h"
#include "tests/recompute/prices.h"
#include "tests/tensor_names.h"

namespace neap {
namespace {

// conv and bn have results of 128 KiB, and bn means and inverse deviations of 32 bytes.
Program SmallProgram() {
  Graph net({.name = "small", .batch = 4});
  std::string x = net.Input({3, 32, 32});
  x = net.Add("conv", Convolution{.out_channels = 8, .kernel = 3, .padding = 1}, {x});
  x = net.Add("bn", BatchNorm{}, {x});
  x = net.Add("conv2", Convolution{.out_channels = 8, .kernel = 3, .padding = 1}, {x});
  net.Loss(net.Add("fc", FullyConnected{.out_features = 4}, {x}), SoftmaxCrossEntropy{});
  return Lower(net, {}, DescribedDevice("h200").value()).value();
}

const Tensor& TensorNamed(const Program& program, const std::string& name) {
  return *std::find_if(program.tensors.begin(), program.tensors.end(),
                       [&](const Tensor& tensor) { return tensor.name == name; });
}

}  // namespace

TEST_CASE("where a step's result moves, tiny ones of the same step stay") {
  const Program program = SmallProgram();
  Retentions retentions(program, testing::RerunPrices(program));
  retentions.Set(*retentions.Producer(TensorNamed(program, "bn").id), Retention::kMoved);
  CHECK(testing::NamesOf(program, retentions.Moved()) == "bn");
}

TEST_CASE("what copies slow down others by counts, for as long as others run") {
  const Program program = SmallProgram();
  RebuildPrices prices = testing::RerunPrices(program);
  const Tensor& normalized = TensorNamed(program, "bn");
  const auto bytes = static_cast<double>(normalized.spec.size_bytes());
  double forward = 0;
  for (const Step& step : program.steps)
    forward += step.phase == Phase::kForward ? prices.run_seconds[step.id.index()] : 0;
  prices.slowdown_by_copies_out = 0.25;
  prices.slowdown_by_copies_back = 0.5;
  const auto seconds = [&](double copy_seconds) {
    prices.copy_seconds_per_byte = copy_seconds / bytes;
    Retentions retentions(program, prices);
    retentions.Set(*retentions.Producer(normalized.id), Retention::kMoved);
    return retentions.Order(/*hidden=*/false).seconds;
  };
  // Hidden, to the host and back; then an eighth of forward longer than that.
  CHECK(seconds(forward / 2) == doctest::Approx((0.125 + 0.25) * forward));
  CHECK(seconds(1.125 * forward) == doctest::Approx((0.125 + 0.25 + 0.5 * 1.125) * forward));
}

}  // namespace neap
