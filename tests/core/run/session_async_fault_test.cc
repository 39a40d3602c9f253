// Budgets that are set while training goes on and refused, by the planner, the verifier, the device
// or the system: training goes on with the plan that there is, and no bit changes.
#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "neap/core/plan/forwarding_planner.h"
#include "neap/core/run/session.h"
#include "neap/memory/planner.h"
#include "tests/core/run/held_planner.h"
#include "tests/core/run/pending_budget.h"
#include "tests/guarded_device.h"
#include "tests/no_threads.h"
#include "tests/small_training.h"

namespace neap {

TEST_CASE("a budget that is too small is refused in the background, and training goes on") {
  const auto device = OpenCpu();
  const BudgetNeeds needs = NeedsOn(*device);
  Session session = MakeSession(*device, {.budget_bytes = needs.most});
  for (const int64_t budget : {needs.least - kBlockBytes, int64_t{0}, int64_t{-1}}) {
    REQUIRE(session.SetBudgetAsync(budget).ok());
    TrainWhilePending(session);
    for (int i = 0; i < 2; ++i) {
      const absl::Status refused = session.AwaitBudget();
      CHECK(refused.code() == absl::StatusCode::kResourceExhausted);
      CHECK(std::string(refused.message()).find(std::to_string(needs.least)) != std::string::npos);
    }
    CHECK(session.plan().budget_bytes == needs.most);
    Train(session, 1);
  }
  REQUIRE(session.SetBudgetAsync(needs.least).ok());
  CHECK(session.AwaitBudget().ok());  // the outcome of the last change
  CHECK(session.memory().arena_bytes == needs.least);
  CheckAsSteady(session, *device);
}

TEST_CASE("plans are verified in the background, and a wrong one is refused") {
  class WrongPlanner final : public ForwardingPlanner {
   public:
    WrongPlanner() : ForwardingPlanner(PlannerFor({})) {}
    absl::StatusOr<PlanResult> Plan(const Program& program, const PlanRequest& request,
                                    const DeviceDescription& device,
                                    EngineCatalog& catalog) const override {
      auto result = ForwardingPlanner::Plan(program, request, device, catalog);
      if (result.ok() && request.budget_bytes != kUnlimited) result->plan.peak_bytes += kBlockBytes;
      return result;
    }
  };
  const auto device = OpenCpu();
  Session session = SessionPlannedBy(std::make_shared<WrongPlanner>(), *device);
  Train(session, 1);
  REQUIRE(session.SetBudgetAsync(2 * session.memory().arena_bytes).ok());
  while (session.budget_pending()) std::this_thread::yield();  // no call that could verify it
  CHECK(!session.AwaitBudget().ok());
  Train(session, 2);
  CheckAsSteady(session, *device);
}

TEST_CASE("memory that the device refuses at the switch leaves the old plan, and is reported") {
  const auto cpu = OpenCpu();
  const BudgetNeeds needs = NeedsOn(*cpu);
  GuardedDevice device(*cpu);
  Session session = MakeSession(device, {.budget_bytes = needs.most});
  REQUIRE(session.SetBudgetAsync(needs.least).ok());
  device.RefuseArenas(1);
  TrainWhilePending(session);  // the step that switches back trains, too
  const absl::Status refused = session.AwaitBudget();
  CHECK(refused.code() == absl::StatusCode::kResourceExhausted);
  CHECK(std::string(refused.message()) == "refused by the test");
  CHECK(session.plan().budget_bytes == needs.most);
  REQUIRE(session.SetBudgetAsync(needs.least).ok());
  CHECK(session.AwaitBudget().ok());
  Train(session, 1);
  CHECK(device.GuardsIntact());
  CheckAsSteady(session, *cpu);
}

TEST_CASE("a session whose arena is lost at the switch goes on with the next budget") {
  const auto cpu = OpenCpu();
  const BudgetNeeds needs = NeedsOn(*cpu);
  GuardedDevice device(*cpu);
  Session session = MakeSession(device, {.budget_bytes = needs.most});
  Train(session, 2);
  REQUIRE(session.SetBudgetAsync(needs.least).ok());
  device.RefuseArenas(2);
  CHECK(session.AwaitBudget().code() == absl::StatusCode::kResourceExhausted);
  CHECK(session.TrainStep(MakeBatch(2)).status().code() == absl::StatusCode::kFailedPrecondition);
  REQUIRE(session.SetBudgetAsync(needs.least).ok());
  while (session.budget_pending()) session.TrainStep(MakeBatch(2)).status().IgnoreError();
  CHECK(session.AwaitBudget().ok());
  CHECK(session.step() == 3);
  CheckAsSteady(session, *cpu);
}

TEST_CASE("a change waits for another plan if a kernel cannot be made at the switch") {
  // Engines that cannot be built are withdrawn; here one is merely refused.
  class RefusingBackend final : public Backend {
   public:
    explicit RefusingBackend(Backend& backend) : backend_(backend) {}
    absl::StatusOr<std::vector<Engine>> Engines(const StepSignature& signature) override {
      return backend_.Engines(signature);
    }
    std::string Versions() const override { return backend_.Versions(); }
    absl::StatusOr<std::unique_ptr<Kernel>> MakeKernel(const StepSignature& signature,
                                                       std::string_view engine) override {
      if (std::exchange(refuses_next, false)) return absl::AbortedError("plan again");
      return backend_.MakeKernel(signature, engine);
    }
    bool refuses_next = false;

   private:
    Backend& backend_;
  };
  const auto cpu = OpenCpu();
  const BudgetNeeds needs = NeedsOn(*cpu);
  GuardedDevice device(*cpu);
  RefusingBackend backend(cpu->backend());
  device.Replace(backend);
  const auto planner = std::make_shared<HeldPlanner>(kUnlimited - 1);
  Session session = SessionPlannedBy(planner, device);
  const int plans = planner->plans();
  REQUIRE(session.SetBudgetAsync(needs.least).ok());
  backend.refuses_next = true;
  TrainWhilePending(session);
  CHECK(!backend.refuses_next);
  CHECK(session.AwaitBudget().ok());
  CHECK(planner->plans() == plans + 2 + 2);
  CHECK(session.memory().arena_bytes == needs.least);
  CheckAsSteady(session, *cpu);
}

TEST_CASE("a change whose thread the system refuses is an error at once") {
  const auto device = OpenCpu();
  const BudgetNeeds needs = NeedsOn(*device);
  Session session = MakeSession(*device, {.budget_bytes = needs.most});
  {
    const testing::NoThreads none;
    CHECK(session.SetBudgetAsync(needs.least).code() == absl::StatusCode::kResourceExhausted);
  }
  CHECK(!session.budget_pending());
  CHECK(session.AwaitBudget().ok());
  Train(session, 2);
  CHECK(session.plan().budget_bytes == needs.most);
  CheckAsSteady(session, *device);
}

}  // namespace neap
