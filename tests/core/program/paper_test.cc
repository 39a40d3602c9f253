// The figures that SuperNeurons publishes for AlexNet at batch 200 (Sec. 4.1.1), to the byte where
// it can be.
#include <doctest/doctest.h>

#include <string>

#include "neap/core/plan/plan_memory.h"
#include "neap/core/program/program.h"
#include "neap/core/verifier/verifier.h"
#include "neap/layers/catalog/default_catalog.h"
#include "neap/layers/convolution.h"
#include "neap/layers/devices/device_description.h"
#include "neap/layers/fully_connected.h"
#include "neap/layers/join.h"
#include "neap/layers/softmax_cross_entropy.h"
#include "neap/memory/planner.h"
#include "neap/nets/alexnet.h"

namespace neap {
namespace {

Plan PlanAlexNet(Accounting accounting, const std::string& policy, bool in_place) {
  const Program program =
      BuildProgram(nets::AlexNetPaper({.batch = 200}), {.accounting = accounting}).value();
  DefaultCatalog catalog;
  return MakePlan(program, {.policy = policy, .in_place = in_place},
                  DescribedDevice("h200").value(), catalog)
      .value()
      .plan;
}

double PeakMib(const Plan& plan) {
  return static_cast<double>(plan.peak_activation_bytes) / static_cast<double>(kMiB);
}

TEST_CASE(
    "liveness peaks at 1489.355 MiB in the backward of pool5, step 32, with 17 live tensors") {
  const Plan plan = PlanAlexNet(Accounting::kPaper, "liveness", true);
  CHECK(PeakMib(plan) == doctest::Approx(1489.355).epsilon(0.001 / 1489));
  CHECK(plan.steps.size() == 46);
  const StepMemory busiest = ActivationPeak(MemoryPerStep(plan)).value();
  CHECK(busiest.step.value + 1 == 32);
  CHECK(plan.steps[busiest.step.index()].layer == "pool5");
  CHECK(plan.steps[busiest.step.index()].phase == Phase::kBackwardData);
  CHECK(busiest.live_activations == 17);
  CHECK(busiest.live_activation_bytes == plan.peak_activation_bytes);
}

TEST_CASE("the baseline is 2189.437 MiB: 24 outputs with the input, 12 gradients") {
  const Plan plan = PlanAlexNet(Accounting::kPaper, "keep-all", true);
  int64_t bytes = 0;
  int tensors = 0;
  for (const PlanTensor& tensor : plan.tensors) {
    if (tensor.role == Role::kLabel) continue;
    bytes += tensor.bytes;
    ++tensors;
  }
  CHECK(tensors == 36);
  CHECK(static_cast<double>(bytes) / static_cast<double>(kMiB) ==
        doctest::Approx(2189.437).epsilon(0.001 / 2189));
}

struct Published {
  const char* policy;
  double peak_mib;
  int step;
  int64_t extra_forwards;
};

TEST_CASE(
    "every policy of the paper peaks where and as high as the paper says, or lower if exact") {
  for (const Published& published : {Published{"liveness", 1489.355, 32, 0},
                                     {"offload", 1132.056, 39, 0},
                                     {"recompute-speed", 993.018, 43, 14},
                                     {"recompute-memory", 886.230, 44, 23},
                                     {"cost-aware", 886.230, 44, 17}}) {
    CAPTURE(std::string(published.policy));
    const Plan plan = PlanAlexNet(Accounting::kPaper, published.policy, true);
    CHECK(PeakMib(plan) == doctest::Approx(published.peak_mib).epsilon(0.001 / published.peak_mib));
    CHECK(ActivationPeak(MemoryPerStep(plan)).value().serves.value + 1 == published.step);
    CHECK(TotalMovement(plan).extra_forwards == published.extra_forwards);
    CHECK(Verify(plan).ok());
    const Plan exact = PlanAlexNet(Accounting::kExact, published.policy, true);
    CHECK(exact.peak_activation_bytes <= plan.peak_activation_bytes);
    CHECK(Verify(exact).ok());
  }
}

TEST_CASE("with exact reads and in place the peak is lower than the paper's") {
  const Plan paper = PlanAlexNet(Accounting::kPaper, "liveness", true);
  const Plan exact = PlanAlexNet(Accounting::kExact, "liveness", false);
  const Plan in_place = PlanAlexNet(Accounting::kExact, "liveness", true);
  MESSAGE("paper " << PeakMib(paper) << " MiB, exact " << PeakMib(exact) << ", in place "
                   << PeakMib(in_place));
  CHECK(in_place.peak_activation_bytes < paper.peak_activation_bytes);
  CHECK(in_place.peak_activation_bytes < exact.peak_activation_bytes);
}

TEST_CASE("a sum of a tensor with itself changes its gradient once") {
  Graph net({.name = "twice", .batch = 2});
  const std::string x = net.Add("conv", Convolution{.out_channels = 2}, {net.Input({1, 4, 4})});
  const std::string fc =
      net.Add("fc", FullyConnected{.out_features = 3}, {net.Add("sum", Add{}, {x, x})});
  net.Loss(fc, SoftmaxCrossEntropy{});
  const Program program = BuildProgram(net, {.accounting = Accounting::kPaper}).value();
  DefaultCatalog catalog;
  const Plan plan =
      MakePlan(program, {.policy = "liveness"}, DescribedDevice("h200").value(), catalog)
          .value()
          .plan;
  CHECK(Verify(plan).message() == "");
}

}  // namespace
}  // namespace neap
