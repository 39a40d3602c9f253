// Times of engines that were not measured, where a step has engines of two kinds.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "neap/core/device/device_description.h"
#include "neap/layers/convolution.h"
#include "neap/layers/softmax_cross_entropy.h"
#include "neap/memory/engines/engine_table.h"

namespace neap {
namespace {

// Convolutions have engines with a ReLU before and behind the others.
class ReluCatalog final : public EngineCatalog {
 public:
  absl::StatusOr<std::vector<Engine>> Engines(const StepSignature& /*signature*/) override {
    return std::vector<Engine>{{.id = "relu:a"}, {.id = "relu:b"}, {.id = "x"},
                               {.id = "y"},      {.id = "relu:c"}, {.id = "z"}};
  }
  std::string Versions() const override { return ""; }
};

TEST_CASE("engines with a ReLU make those without no slower where none was measured") {
  Graph net({.name = "one", .batch = 2});
  net.Loss(net.Add("conv", Convolution{.out_channels = 3, .kernel = 4}, {net.Input({1, 4, 4})}),
           SoftmaxCrossEntropy{});
  const Program program = BuildProgram(net, {}).value();
  ReluCatalog catalog;
  const EngineTable table = EngineTable::List(program, KernelOptions(), /*strict=*/false,
                                              DescribedDevice("h200").value(), catalog)
                                .value();
  const std::vector<Configuration>& engines = table.Of({.step = StepId(0)}).configurations;
  const std::vector<double> slower = {1, 1.1, 1, 1.1, 1.2, 1.2};
  REQUIRE(engines.size() == slower.size());
  for (size_t i = 0; i < slower.size(); ++i)
    CHECK(engines[i].seconds == doctest::Approx(slower[i] * engines[0].seconds));
}

}  // namespace
}  // namespace neap
