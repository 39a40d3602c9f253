// Budgets that change while training goes on: no step waits for the planner, and no bit changes.
#include <doctest/doctest.h>

#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "neap/core/run/session.h"
#include "tests/core/run/held_planner.h"
#include "tests/core/run/pending_budget.h"
#include "tests/scratch_directory.h"
#include "tests/small_training.h"

namespace neap {
namespace {

constexpr absl::StatusCode kExhausted = absl::StatusCode::kResourceExhausted;
constexpr absl::StatusCode kUnusable = absl::StatusCode::kFailedPrecondition;

}  // namespace

TEST_CASE("steps do not wait while the planner is at work, and the next one takes its plan") {
  const auto device = OpenCpu();
  const BudgetNeeds needs = NeedsOn(*device);
  const auto planner = std::make_shared<HeldPlanner>(needs.least);
  Session session = SessionPlannedBy(planner, *device);
  const int64_t arena_bytes = session.memory().arena_bytes;
  CHECK(!session.budget_pending());
  CHECK(session.AwaitBudget().ok());  // there is nothing to wait for
  REQUIRE(session.SetBudgetAsync(needs.least).ok());
  planner->AwaitAsked();
  Train(session, 3);
  CHECK(session.Evaluate(MakeBatch(0)).ok());
  CHECK(session.budget_pending());
  CHECK(session.memory().arena_bytes == arena_bytes);
  planner->Release();
  TrainWhilePending(session);
  CHECK(session.memory().arena_bytes == needs.least);
  CHECK(session.plan().policy == "auto");
  CHECK(session.AwaitBudget().ok());
  Train(session, 2);
  CHECK(session.memory().measured_peak_bytes == session.memory().predicted_peak_bytes);
  CheckAsSteady(session, *device);
}

TEST_CASE("budgets that change at any time, with two steps in flight too, cost no bit") {
  const auto device = OpenCpu();
  const BudgetNeeds needs = NeedsOn(*device);
  Session session = MakeSession(*device, {.budget_bytes = needs.most});
  Session steady = MakeSession(*device, {});
  const int64_t budgets[] = {needs.least, needs.most,     needs.least - kBlockBytes,
                             kUnlimited,  needs.most / 2, (needs.least + needs.most) / 2};
  Trained changed(1), unchanged(1);
  REQUIRE(session.Begin(MakeBatch(0)).ok());
  for (uint64_t i = 1; i < 60; ++i) {
    if (i % 2 == 0) REQUIRE(session.SetBudgetAsync(budgets[i / 2 % std::size(budgets)]).ok());
    if (i % 9 == 0) session.AwaitBudget().IgnoreError();
    REQUIRE(session.Begin(MakeBatch(i)).ok());
    FinishInto(changed, session);
  }
  FinishInto(changed, session);
  for (uint64_t i = 0; i < 60; ++i) {
    REQUIRE(steady.Begin(MakeBatch(i)).ok());
    FinishInto(unchanged, steady);
  }
  AppendState(changed, session);
  AppendState(unchanged, steady);
  CHECK(AreSame(changed, unchanged));
}

TEST_CASE("every kind of change takes effect with a step in flight") {
  const auto device = OpenCpu();
  const BudgetNeeds needs = NeedsOn(*device);
  Session session = MakeSession(*device, {.budget_bytes = needs.most});
  for (const int64_t budget : {needs.least, needs.most, needs.least}) {
    const auto step = static_cast<uint64_t>(session.step());
    REQUIRE(session.Begin(MakeBatch(step)).ok());
    REQUIRE(session.SetBudgetAsync(budget).ok());
    CHECK(session.SetBudget(budget).code() == kUnusable);  // which leaves the change pending
    REQUIRE(session.AwaitBudget().ok());
    CHECK(session.memory().arena_bytes <= budget);
    CHECK(session.plan().budget_bytes == budget);
    REQUIRE(session.Begin(MakeBatch(step + 1)).ok());
    CHECK(session.Begin(MakeBatch(step + 2)).code() == kUnusable);
    CHECK(session.Finish()->step == static_cast<int64_t>(step));
    CHECK(session.Finish().ok());
  }
  CheckAsSteady(session, *device);
}

TEST_CASE("a second change replaces the first, which the planner has not finished") {
  const auto device = OpenCpu();
  const BudgetNeeds needs = NeedsOn(*device);
  const auto planner = std::make_shared<HeldPlanner>(needs.most + kBlockBytes);
  Session session = SessionPlannedBy(planner, *device);
  REQUIRE(session.SetBudgetAsync(needs.most + kBlockBytes).ok());
  planner->AwaitAsked();
  const int plans = planner->plans();
  REQUIRE(session.SetBudgetAsync(needs.least - kBlockBytes).ok());  // never planned
  REQUIRE(session.SetBudgetAsync(needs.least).ok());
  Train(session, 1);
  CHECK(planner->plans() == plans);
  planner->Release();
  REQUIRE(session.AwaitBudget().ok());
  CHECK(session.plan().budget_bytes == needs.least);
  CHECK(planner->plans() == plans + 1 + 2);  // evaluation's for the first, both for the last
  Train(session, 1);
  CheckAsSteady(session, *device);
}

TEST_CASE("SetBudget() replaces a pending change at once, also if it is refused") {
  const auto device = OpenCpu();
  const BudgetNeeds needs = NeedsOn(*device);
  const auto planner = std::make_shared<HeldPlanner>(needs.most + kBlockBytes);
  Session session = SessionPlannedBy(planner, *device);
  const int64_t arena_bytes = session.memory().arena_bytes;
  REQUIRE(session.SetBudgetAsync(needs.most + kBlockBytes).ok());
  planner->AwaitAsked();
  CHECK(session.SetBudget(needs.least - kBlockBytes).code() == kExhausted);
  CHECK(!session.budget_pending());
  CHECK(session.AwaitBudget().ok());
  CHECK(session.memory().arena_bytes == arena_bytes);
  REQUIRE(session.SetBudgetAsync(needs.most + kBlockBytes).ok());
  REQUIRE(session.SetBudget(needs.least).ok());
  Train(session, 1);
  planner->Release();
  CHECK(session.AwaitBudget().ok());
  Train(session, 1);
  CHECK(session.plan().budget_bytes == needs.least);
  REQUIRE(session.SetBudgetAsync(needs.most).ok());  // by the same thread, or a new one
  REQUIRE(session.AwaitBudget().ok());
  CHECK(session.plan().budget_bytes == needs.most);
  CheckAsSteady(session, *device);
}

TEST_CASE("two budgets are planned at the same time on two threads") {
  const auto steady = OpenCpu();
  const BudgetNeeds needs = NeedsOn(*steady);
  for (int round = 0; round < 4; ++round) {
    const auto device = OpenCpu();
    const auto planner = std::make_shared<HeldPlanner>(needs.most);
    Session session =
        SessionPlannedBy(planner, *device);  // has not asked for the engines of reruns
    REQUIRE(session.SetBudgetAsync(needs.most).ok());
    planner->AwaitAsked();
    planner->Release();
    REQUIRE(session.SetBudget(needs.least).ok());
    Train(session, 1);
    CHECK(session.plan().budget_bytes == needs.least);
    CheckAsSteady(session, *steady);
  }
}

TEST_CASE(
    "a graph is planned within the budget that was pending, or the old one if it is refused") {
  const auto device = OpenCpu();
  const Graph part = SmallNet(Layout::kChannelsFirst, /*with_block=*/false);
  const BudgetNeeds needs = NeedsOn(*device);
  Session session = MakeSession(*device, {.budget_bytes = needs.most});
  Session steady = MakeSession(*device, {});
  Train(session, 1);
  Train(steady, 1);
  REQUIRE(session.SetBudgetAsync(needs.least).ok());
  REQUIRE(session.SetTrainingGraph(part).ok());
  REQUIRE(steady.SetTrainingGraph(part).ok());
  CHECK(!session.budget_pending());
  CHECK(session.plan().budget_bytes == needs.least);
  CHECK(Train(session, 2) == Train(steady, 2));
  REQUIRE(session.SetBudgetAsync(kBlockBytes).ok());
  REQUIRE(session.SetTrainingGraph(SmallNet()).ok());
  REQUIRE(steady.SetTrainingGraph(SmallNet()).ok());
  CHECK(session.AwaitBudget().code() == kExhausted);
  CHECK(session.plan().budget_bytes == needs.least);
  CHECK(Train(session, 2) == Train(steady, 2));
  CheckSameState(steady, session);
}

TEST_CASE("a change stays pending while the session saves, loads and reads values") {
  const auto device = OpenCpu();
  const ScratchDirectory directory;
  const std::string path = directory.File("checkpoint.safetensors");
  const BudgetNeeds needs = NeedsOn(*device);
  const auto planner = std::make_shared<HeldPlanner>(needs.least);
  Session session = SessionPlannedBy(planner, *device);
  Train(session, 2);
  REQUIRE(session.SetBudgetAsync(needs.least).ok());
  REQUIRE(session.Save(path).ok());
  Train(session, 2);
  CHECK(session.Values("fc.weight").ok());
  CHECK(session.TimeStep(MakeBatch(4)).ok());
  REQUIRE(session.Load(path).ok());
  CHECK(session.step() == 2);
  CHECK(session.budget_pending());
  planner->Release();
  REQUIRE(session.AwaitBudget().ok());
  CHECK(session.memory().arena_bytes == needs.least);
  Train(session, 2);
  CheckAsSteady(session, *device);
}

TEST_CASE("a session with a pending change may be moved, and assigned to") {
  const auto device = OpenCpu();
  const BudgetNeeds needs = NeedsOn(*device);
  const auto planner = std::make_shared<HeldPlanner>(needs.least);
  Session first = SessionPlannedBy(planner, *device);
  Train(first, 1);
  REQUIRE(first.SetBudgetAsync(needs.least).ok());
  planner->AwaitAsked();
  Session session = std::move(first);
  CHECK(session.budget_pending());
  planner->Release();
  REQUIRE(session.AwaitBudget().ok());
  CHECK(session.memory().arena_bytes == needs.least);
  Train(session, 1);
  CheckAsSteady(session, *device);
  REQUIRE(session.SetBudgetAsync(needs.most).ok());
  session = MakeSession(*device, {});
  CHECK(!session.budget_pending());
  Train(session, 1);
  CheckAsSteady(session, *device);
}

TEST_CASE("a session that is destroyed waits for the planner to return") {
  const auto device = OpenCpu();
  const BudgetNeeds needs = NeedsOn(*device);
  const auto planner = std::make_shared<HeldPlanner>(needs.least);
  std::optional<Session> session = SessionPlannedBy(planner, *device);
  const int plans = planner->plans();
  REQUIRE(session->SetBudgetAsync(needs.least).ok());
  planner->AwaitAsked();
  std::thread release([&] { planner->Release(); });
  session.reset();
  CHECK(planner.use_count() == 1);  // no thread uses the planner any more
  CHECK(planner->plans() == plans + 2);
  release.join();
}

TEST_CASE("sessions for training only and for inference only change their budgets, too") {
  const auto device = OpenCpu();
  const BudgetNeeds needs = NeedsOn(*device);
  Session trains = MakeSession(*device, {.budget_bytes = needs.most}, {.training_only = true});
  REQUIRE(trains.SetBudgetAsync(needs.least).ok());
  TrainWhilePending(trains);
  CHECK(trains.AwaitBudget().ok());
  CHECK(trains.plan().budget_bytes == needs.least);
  CHECK(trains.memory().arena_bytes == needs.least);
  Train(trains, 1);
  CheckAsSteady(trains, *device);

  Session infers = MakeSession(*device, {.budget_bytes = needs.most}, {.inference_only = true});
  const int64_t least = infers.planning().minimum_budget_bytes;
  const Batch batch = MakeBatch(0);
  const std::vector<float> before = infers.Predict(batch.images)->probabilities;
  REQUIRE(infers.SetBudgetAsync(least).ok());
  while (infers.budget_pending()) {
    CHECK(SameBits(infers.Predict(batch.images)->probabilities, before));
  }
  CHECK(infers.AwaitBudget().ok());
  CHECK(infers.memory().arena_bytes == least);
  CHECK(SameBits(infers.Predict(batch.images)->probabilities, before));
  CHECK(infers.TrainStep(batch).status().code() == kUnusable);
}

}  // namespace neap
