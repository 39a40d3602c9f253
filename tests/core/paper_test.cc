// The figures that SuperNeurons publishes for AlexNet at batch 200 (Sec. 4.1.1), to the byte where
// it can be.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "neap/core/device/description.h"
#include "neap/core/program.h"
#include "neap/layers/default_catalog.h"
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

StepMemory Busiest(const Plan& plan) {
  const std::vector<StepMemory> memory = MemoryPerStep(plan);
  return *std::max_element(memory.begin(), memory.end(),
                           [](const StepMemory& a, const StepMemory& b) {
                             return a.live_activation_bytes < b.live_activation_bytes;
                           });
}

TEST_CASE(
    "liveness peaks at 1489.355 MiB in the backward of pool5, step 32, with 17 live tensors") {
  const Plan plan = PlanAlexNet(Accounting::kPaper, "liveness", true);
  CHECK(PeakMib(plan) == doctest::Approx(1489.355).epsilon(0.001 / 1489));
  CHECK(plan.steps.size() == 46);
  const StepMemory busiest = Busiest(plan);
  CHECK(busiest.step.value + 1 == 32);
  CHECK(plan.steps[busiest.step.index()].layer == "pool5");
  CHECK(plan.steps[busiest.step.index()].phase == Phase::kBackwardData);
  CHECK(busiest.live_activations == 17);
  CHECK(busiest.live_activation_bytes == plan.peak_activation_bytes);
}

// Softmax's gradient, which is that of fc3, is not among the paper's: it takes its output's bytes.
TEST_CASE("the baseline is 2189.437 MiB: 24 outputs with the input, 12 gradients") {
  const Plan plan = PlanAlexNet(Accounting::kPaper, "keep-all", true);
  int64_t bytes = 0;
  int tensors = 0;
  for (const PlanTensor& tensor : plan.tensors) {
    if (tensor.role == Role::kLabel || tensor.name == "fc3.grad") continue;
    bytes += tensor.bytes;
    ++tensors;
  }
  CHECK(tensors == 36);
  CHECK(static_cast<double>(bytes) / static_cast<double>(kMiB) ==
        doctest::Approx(2189.437).epsilon(0.001 / 2189));
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

}  // namespace
}  // namespace neap
