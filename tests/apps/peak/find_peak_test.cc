// What the search finds, against the sizes that fit one by one, and what it does for that.
#include "apps/peak/find_peak.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "neap/core/base/units.h"
#include "neap/core/plan/plan.h"
#include "neap/core/program/passes.h"
#include "neap/layers/devices/device_description.h"
#include "neap/memory/planner.h"
#include "neap/memory/program_choice.h"
#include "neap/nets/registry.h"

namespace neap::testing {
namespace {

using apps::PeakFlags;
using apps::PeakResult;
using apps::PlanTarget;

// Convolutions have a workspace of a part of their operands. Counts the batches it is asked for.
class WorkspaceCatalog final : public EngineCatalog {
 public:
  WorkspaceCatalog(int64_t part, std::set<int64_t>& batches) : part_(part), batches_(batches) {}

  absl::StatusOr<std::vector<Engine>> Engines(const StepSignature& signature) override {
    int64_t bytes = 0;
    for (const OperandSpec& operand : signature.operands) bytes += operand.tensor.size_bytes();
    const auto input = signature.Find({Slot::kInput});
    if (input.has_value()) batches_.insert(signature.operands[*input].tensor.shape.dims()[0]);
    const bool is_convolution = signature.layer.type() == "convolution";
    return std::vector<Engine>{
        {.id = "one", .workspace_bytes = is_convolution && part_ > 0 ? bytes / part_ : 0}};
  }
  std::string Versions() const override { return ""; }

 private:
  const int64_t part_;
  std::set<int64_t>& batches_;
};

PlanTarget TargetWith(int64_t part, std::set<int64_t>& batches) {
  PlanTarget target = {.name = "h200", .description = DescribedDevice("h200").value()};
  target.catalog = std::make_unique<WorkspaceCatalog>(part, batches);
  return target;
}

PeakFlags FlagsFor(const std::string& policy, int64_t budget) {
  PeakFlags flags;
  flags.planning.policy = policy;
  flags.planning.budget.bytes = budget;
  flags.planning.sub_batches = 1;
  return flags;
}

// The largest batch from `least` to `most` that fits, with parameters on the device or on the host.
int64_t LargestOfAll(const PlanTarget& target, const PeakFlags& flags, const std::string& net,
                     int64_t least, int64_t most) {
  PlannerOptions options = flags.planning.Options(target.description, target.kernels);
  options.budget_bytes = *flags.planning.budget.bytes;
  const bool may_offload = MayChooseOffloading(options, target.description).value();
  int64_t largest = 0;
  for (int64_t n = least; n <= most; ++n) {
    for (const bool offload : {false, true}) {
      if (offload && !may_offload) continue;
      const Graph graph = nets::Build(net, {.batch = n}).value();
      const Program program = Lower(graph, {.offload_params = offload}, target.description).value();
      if (FitsBudget(program, options, target.description, target.engines()).value()) largest = n;
    }
  }
  return largest;
}

}  // namespace

TEST_CASE("the batch found is the largest of all that fit, under every kind of policy") {
  for (const int64_t part : {0, 1}) {
    for (const char* policy : {"keep-all", "liveness", "offload", "chen", "superneurons",
                               "cost-aware", "vdnn-conv", "auto"}) {
      CAPTURE(part);
      CAPTURE(policy);
      std::set<int64_t> batches;
      const PlanTarget target = TargetWith(part, batches);
      const PeakFlags flags = FlagsFor(policy, 12 * kMiB);
      const PeakResult found = apps::FindPeak(flags, target, apps::GrowingBatch(), "lenet").value();
      CHECK(found.effort.plans == 1);
      CHECK(found.planned.plan.batch == found.batch);
      const int64_t largest = LargestOfAll(target, flags, "lenet",
                                           std::max<int64_t>(1, found.batch - 5), found.batch + 25);
      CHECK(found.batch == largest);
    }
  }
}

TEST_CASE("engines are listed for few sizes, and one plan is made in full") {
  // Without workspaces for one size; with them, near the one that is found.
  for (const int64_t part : {0, 2}) {
    CAPTURE(part);
    std::set<int64_t> batches;
    const PlanTarget target = TargetWith(part, batches);
    const PeakResult found =
        apps::FindPeak(FlagsFor("auto", 64 * kMiB), target, apps::GrowingBatch(), "resnet20")
            .value();
    CHECK(found.batch > 100);
    CHECK(found.effort.plans == 1);
    CHECK(found.effort.listed <= (part == 0 ? 3 : 8));
    // Engines are listed for parts of a batch, too, but for few batches that are too large.
    const auto too_large = std::distance(batches.upper_bound(found.batch), batches.end());
    CHECK(too_large < found.effort.listed);
    CHECK(found.effort.probes <= 40);
  }
}

TEST_CASE("a host budget that is surely enough needs one plan, and a small one more") {
  std::set<int64_t> batches;
  const PlanTarget target = TargetWith(0, batches);
  PeakFlags flags = FlagsFor("superneurons", 16 * kMiB);
  flags.planning.host_budget_bytes = kGiB;
  const PeakResult enough = apps::FindPeak(flags, target, apps::GrowingBatch(), "resnet20").value();
  CHECK(enough.effort.plans == 1);
  CHECK(!enough.by_host);
  flags.planning.host_budget_bytes = kMiB;
  const PeakResult limited =
      apps::FindPeak(flags, target, apps::GrowingBatch(), "resnet20").value();
  CHECK(limited.effort.plans > 1);
  CHECK(limited.by_host);
  CHECK(limited.batch < enough.batch);
  CHECK(limited.planned.plan.host_pool_bytes <= kMiB);
}

TEST_CASE("the natural peaks are the bytes of the policies that keep everything, or what lives") {
  std::set<int64_t> batches;
  const PlanTarget target = TargetWith(0, batches);
  const PeakResult found =
      apps::FindPeak(FlagsFor("auto", 16 * kMiB), target, apps::GrowingBatch(), "lenet").value();
  const Graph graph = nets::Build("lenet", {.batch = found.batch}).value();
  const Program program = Lower(graph, {}, target.description).value();
  int64_t all = 0;
  for (const Tensor& tensor : program.tensors)
    all += RoundUp(tensor.spec.size_bytes(), kBlockBytes);
  CHECK(found.natural.keep_all_bytes == all);
  const PlanResult liveness =
      MakePlan(program, {.policy = "liveness"}, target.description, target.engines()).value();
  CHECK(found.natural.liveness_bytes == liveness.plan.peak_bytes - IncomingBytes(liveness.plan));
}

}  // namespace neap::testing
