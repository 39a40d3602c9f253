#include "neap/memory/program_choice.h"

#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <utility>

#include "neap/core/program/passes.h"
#include "neap/core/run/session.h"
#include "neap/core/step/signature_text.h"
#include "neap/core/verifier/verifier.h"
#include "neap/layers/catalog/default_catalog.h"
#include "neap/layers/cpu/cpu_device.h"
#include "neap/memory/planner.h"
#include "neap/nets/registry.h"
#include "tests/memory/planning.h"

namespace neap {
namespace {

using testing::H200;
using testing::IterationMs;

// Plans of one network for an H200, with placeholders for engines.
struct Planned {
  explicit Planned(const std::string& net, int64_t batch = 1024)
      : graph(nets::Build(net, {.batch = batch}).value()) {}

  absl::StatusOr<Program> Lowered(int64_t sub_batches, bool offload_params = false) const {
    return Lower(graph, {.offload_params = offload_params, .sub_batches = sub_batches}, H200());
  }
  ProgramChoice ChooseFrom(const PlannerOptions& options,
                           const DeviceDescription& device = H200()) {
    const auto lower = [&](const ProgramChoice& choice) {
      return Lowered(choice.sub_batches, choice.offload_params);
    };
    return ChooseProgram(lower, options, device, catalog).value().choice;
  }
  // The number of sub-batches, with parameters on the device.
  int64_t Choose(PlannerOptions options) {
    options.offload_params = false;
    return ChooseFrom(options).sub_batches;
  }
  absl::StatusOr<PlanResult> Plan(int64_t sub_batches, int64_t budget,
                                  bool offload_params = false) {
    return MakePlan(Lowered(sub_batches, offload_params).value(), {.budget_bytes = budget}, H200(),
                    catalog);
  }
  int64_t Minimum(int64_t sub_batches, bool offload_params = false) {
    return MinimumBudget(Lowered(sub_batches, offload_params).value(), {}, H200(), catalog).value();
  }

  Graph graph;
  DefaultCatalog catalog;
};

// All kernels of a whole batch take the same time. Those of parts were not measured.
class TimingsOfWholeBatches final : public KernelTimings {
 public:
  TimingsOfWholeBatches(const Planned& net, double seconds, EngineCatalog& catalog)
      : batch_(net.graph.options().batch), seconds_(seconds), catalog_(catalog) {}
  std::vector<TimedEngine> Of(const StepSignature& signature) const override {
    const std::string engine = catalog_.Engines(signature).value().front().id;
    return {{.engine = engine, .batch = batch_, .seconds = seconds_}};
  }

 private:
  int64_t batch_;
  double seconds_;
  EngineCatalog& catalog_;
};

}  // namespace

TEST_CASE("a batch that fits as a whole is not split") {
  Planned net("alexnet");
  const PlanResult whole = net.Plan(1, kUnlimited).value();
  CHECK(net.Choose({.budget_bytes = whole.plan.peak_bytes}) == 1);
  CHECK(net.Choose({}) == 1);
}

TEST_CASE("with memory to spare, more parts take longer: gradients are added up") {
  Planned net("alexnet");
  double before_ms = 0;
  for (const int64_t count : {1, 2, 4}) {
    const double ms = net.Plan(count, kUnlimited)->plan.predicted_ms;
    CHECK(ms > before_ms);
    before_ms = ms;
  }
}

TEST_CASE("below the smallest budget of the whole batch, parts fit, and their plan is valid") {
  Planned net("alexnet");
  const int64_t budget = net.Minimum(1) - kBlockBytes;
  REQUIRE(absl::IsResourceExhausted(net.Plan(1, budget).status()));
  const int64_t count = net.Choose({.budget_bytes = budget});
  CHECK(count > 1);
  const PlanResult split = net.Plan(count, budget).value();
  CHECK(split.plan.sub_batches == count);
  CHECK(split.plan.peak_bytes <= budget);
  CHECK(Verify(split.plan).ok());
  CHECK(MatchesProgram(split.plan, net.Lowered(count).value()).ok());
}

TEST_CASE("the chosen number is never slower than the whole batch") {
  Planned net("alexnet");
  const int64_t least = net.Minimum(1);
  const int64_t most = net.Plan(1, kUnlimited)->plan.peak_bytes;
  for (int64_t part = 0; part <= 4; ++part) {
    const int64_t budget = least + (most - least) * part / 4;
    CAPTURE(budget);
    const int64_t count = net.Choose({.budget_bytes = budget});
    CHECK(IterationMs(net.Plan(count, budget).value()) <= IterationMs(net.Plan(1, budget).value()));
  }
}

TEST_CASE("a measured whole batch is compared with parts by what is known of it") {
  Planned net("alexnet");
  // The whole batch takes three times as long as the cost model says; so do its parts, then.
  const PlanResult modelled = net.Plan(1, kUnlimited).value();
  const double seconds =
      3e-3 * modelled.plan.predicted_ms / static_cast<double>(net.Lowered(1)->steps.size());
  const auto timings = std::make_shared<TimingsOfWholeBatches>(net, seconds, net.catalog);
  const int64_t least = net.Minimum(1);
  const int64_t most = modelled.plan.peak_bytes;
  for (int64_t part = 0; part <= 8; ++part) {
    const PlannerOptions options = {.budget_bytes = least + (most - least) * part / 8,
                                    .kernels = {.timings = timings}};
    CAPTURE(options.budget_bytes);
    const auto planned_ms = [&](int64_t count) {
      return IterationMs(
          MakePlan(net.Lowered(count).value(), options, H200(), net.catalog).value());
    };
    const int64_t count = net.Choose(options);
    CHECK(planned_ms(count) <= planned_ms(1));
    CHECK(planned_ms(count) > 2.5 * modelled.plan.predicted_ms);
    if (part == 8) CHECK(count == 1);
  }
}

TEST_CASE("the number is 1 where bits must not depend on the budget, or images are coupled") {
  Planned net("alexnet");
  const int64_t budget = net.Minimum(1) - kBlockBytes;
  CHECK(net.Choose({.budget_bytes = budget, .strict = true}) == 1);
  CHECK(net.Choose({.budget_bytes = budget, .policy = "superneurons"}) == 1);
  CHECK(net.Choose({.budget_bytes = budget, .sub_batches = 8}) == 8);
  DeviceDescription cpu = H200();
  cpu.kind = "cpu";
  CHECK(net.ChooseFrom({.budget_bytes = budget, .offload_params = false}, cpu).sub_batches == 1);

  Planned normalised("resnet50", 8);
  CHECK(normalised.Choose({.budget_bytes = normalised.Minimum(1) - kBlockBytes}) == 1);
}

TEST_CASE("where no number of parts fits, it is that with the smallest plan") {
  Planned net("alexnet", 4);
  const int64_t count = net.Choose({.budget_bytes = kMiB});
  for (const int64_t other : {1, 2, 3, 4}) CHECK(net.Minimum(count) <= net.Minimum(other));
}

TEST_CASE("parameters are on the host where that is faster by a thousandth") {
  Planned net("resnet18", 64);
  const int64_t least = net.Minimum(1), least_offloaded = net.Minimum(1, /*offload_params=*/true);
  REQUIRE(least_offloaded < least);
  const int64_t most = net.Plan(1, kUnlimited)->plan.peak_bytes;
  bool chosen = false, refused = false;
  for (const int64_t budget : {least, (least + most) / 2, most - most / 8}) {
    CAPTURE(budget);
    const ProgramChoice choice = net.ChooseFrom({.budget_bytes = budget});
    const double ms = IterationMs(net.Plan(1, budget).value());
    const double offloaded_ms = IterationMs(net.Plan(1, budget, true).value());
    CHECK(choice == ProgramChoice{.offload_params = offloaded_ms < 0.999 * ms});
    (choice.offload_params ? chosen : refused) = true;
  }
  CHECK(chosen);
  CHECK(refused);
  CHECK(net.ChooseFrom({.budget_bytes = least - kBlockBytes}).offload_params);
}

TEST_CASE("parameters stay where the options or the policy want them, and on the CPU") {
  Planned net("resnet50", 64);
  const int64_t budget = net.Minimum(1) - kBlockBytes;
  CHECK(!net.ChooseFrom({.budget_bytes = budget, .offload_params = false}).offload_params);
  CHECK(net.ChooseFrom({.offload_params = true}).offload_params);
  CHECK(!net.ChooseFrom({.budget_bytes = budget, .policy = "superneurons"}).offload_params);
  CHECK(!net.ChooseFrom({}).offload_params);
  DeviceDescription shared = H200();
  shared.has_own_memory = false;
  CHECK(!net.ChooseFrom({.budget_bytes = budget}, shared).offload_params);
}

TEST_CASE("a planner chooses for a session") {
  Planned net("alexnet");
  const auto planner = PlannerFor({.policy = "auto"});
  const auto lower = [&](const ProgramChoice& choice) {
    return net.Lowered(choice.sub_batches, choice.offload_params);
  };
  const PlanRequest request = {.budget_bytes = net.Minimum(1) - kBlockBytes};
  const ChosenProgram chosen = planner->Choose(lower, request, H200(), net.catalog).value();
  CHECK(chosen.choice != ProgramChoice{.sub_batches = 1, .offload_params = false});
  const ChosenProgram strict =
      planner->Choose(lower, {.strict = true}, H200(), net.catalog).value();
  CHECK(strict.choice == ProgramChoice{});
  CHECK(!strict.plan.has_value());
  // The plan that was made to choose is the one that is made for the choice.
  REQUIRE(chosen.plan.has_value());
  const Program program = lower(chosen.choice).value();
  const PlanResult again = planner->Plan(program, request, H200(), net.catalog).value();
  CHECK(chosen.plan->plan == again.plan);
}

TEST_CASE("a session does not plan again what was planned to choose its program") {
  struct Counting final : Planner {
    std::shared_ptr<const Planner> planner = PlannerFor({.policy = "auto"});
    mutable int plans = 0;
    int64_t budget_bytes() const override { return kUnlimited; }
    absl::StatusOr<ChosenProgram> Choose(LowerWith lower, const PlanRequest& request,
                                         const DeviceDescription& device,
                                         EngineCatalog& catalog) const override {
      ChosenProgram chosen;
      const absl::StatusOr<Program> program = lower(chosen.choice);
      if (!program.ok()) return program.status();
      absl::StatusOr<PlanResult> plan = planner->Plan(*program, request, device, catalog);
      if (!plan.ok()) return plan.status();
      chosen.plan = *std::move(plan);
      return chosen;
    }
    absl::StatusOr<PlanResult> Plan(const Program& program, const PlanRequest& request,
                                    const DeviceDescription& device,
                                    EngineCatalog& catalog) const override {
      ++plans;
      return planner->Plan(program, request, device, catalog);
    }
    absl::StatusOr<int64_t> MinimumBudget(const Program& program, const PlanRequest& request,
                                          const DeviceDescription& device,
                                          EngineCatalog& catalog) const override {
      return planner->MinimumBudget(program, request, device, catalog);
    }
  };
  const std::unique_ptr<CpuDevice> cpu = CpuDevice::Open().value();
  const auto planner = std::make_shared<Counting>();
  const Graph net = nets::Build("lenet", {.batch = 2}).value();
  REQUIRE(Session::Create(net, *cpu, planner, {.training_only = true}).ok());
  CHECK(planner->plans == 0);
  REQUIRE(Session::Create(net, *cpu, planner).ok());
  CHECK(planner->plans == 1);  // for evaluation
}

}  // namespace neap
