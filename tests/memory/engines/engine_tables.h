// Tables of the engines of one convolution, and its made-up times, for the tests of EngineTable.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "neap/core/program/program.h"
#include "neap/core/step/kernel.h"
#include "neap/layers/catalog/kernel_timings.h"
#include "neap/layers/convolution.h"
#include "neap/layers/devices/device_description.h"
#include "neap/layers/softmax_cross_entropy.h"
#include "neap/memory/engines/engine_table.h"

namespace neap::testing {

inline Program OneConvolution(int64_t out_channels = 3) {
  Graph net({.name = "one", .batch = 2});
  net.Loss(net.Add("conv", Convolution{.out_channels = out_channels, .kernel = 4},
                   {net.Input({1, 4, 4})}),
           SoftmaxCrossEntropy{});
  return BuildProgram(net, {}).value();
}

inline const std::vector<TimedEngine> kMeasured = {
    {"small", 2, 600, 9e-3},
    {"medium", 2, 4000, 5e-3},
    {"fast", 2, 9000, 1e-3},
    {"fast", 1, 4500, 6e-4},
    {"unstable", 2, 100, 4e-3, /*deterministic=*/false}};

inline const Run kConvolution = {.step = StepId(0)};
inline const Run kAgain = {.step = StepId(0), .recompute = true};

// Nothing but engines that give other bits every time.
class UnstableCatalog final : public EngineCatalog {
 public:
  absl::StatusOr<std::vector<Engine>> Engines(const StepSignature& /*signature*/) override {
    return std::vector<Engine>{{.id = "unstable", .deterministic = false}};
  }
  std::string Versions() const override { return ""; }
};

inline absl::StatusOr<EngineTable> TableOf(const Program& program, EngineCatalog& catalog,
                                           const KernelOptions& options = {}, bool strict = false) {
  return EngineTable::List(program, options, strict, DescribedDevice("h200").value(), catalog);
}

inline std::string EngineOf(const Configuration& configuration) {
  return configuration.parts.front().engine;
}

}  // namespace neap::testing
