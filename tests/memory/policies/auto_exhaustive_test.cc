// Policy `auto` against the fastest of all retentions of the tensors of small networks.
#include <doctest/doctest.h>

#include <algorithm>
#include <optional>
#include <random>
#include <vector>

#include "neap/core/plan/plan_memory.h"
#include "neap/core/program/passes.h"
#include "neap/core/verifier/verifier.h"
#include "neap/memory/planner.h"
#include "tests/memory/one_engine.h"
#include "tests/memory/planning.h"
#include "tests/memory/policies/all_retentions.h"
#include "tests/random_graph.h"

namespace neap {
namespace {

using testing::AllRetentions;
using testing::OneEngine;

// An H200 with slower kernels and faster links, because the layers of small networks have little
// arithmetic for each byte: moving a result takes from about a fiftieth of the time of rebuilding
// it to forty times as long.
DeviceDescription DeviceFor(uint32_t seed) {
  constexpr double kLinks[] = {55e9, 200e9, 600e9};
  constexpr double kFlops[] = {60e12, 15e12, 4e12, 1e12};
  DeviceDescription device = testing::H200();
  device.has_own_memory = false;  // no bytes are left to the incoming batch
  device.copy_bandwidth = kLinks[seed % 3];
  device.fp32_flops = kFlops[seed / 3 % 4];
  return device;
}

Program ProgramFor(uint32_t seed, const DeviceDescription& device) {
  return Lower(testing::RandomGraph(seed, {.batch = 64,
                                           .channels = seed % 2 == 0 ? 1 : 3,
                                           .max_channels = 16,
                                           .min_blocks = 3,
                                           .max_blocks = 6,
                                           .max_nesting = seed % 2 == 0 ? 0 : 1,
                                           .residual = seed / 12 % 3 == 0,
                                           .dense = seed / 12 % 3 == 1}),
               {}, device)
      .value();
}

// How far `auto` is from the best plan known, over cases: a program in a budget.
struct Gaps {
  int programs = 0;
  int with_moves = 0, with_reruns = 0, with_both = 0;  // of the best plans
  std::vector<double> factors;  // by case: the time of `auto` in that of best

  void Add(const Plan& found, const Plan& best) {
    const Movement movement = TotalMovement(best);
    const bool moves = movement.offloaded_bytes > 0, reruns = movement.extra_forwards > 0;
    with_moves += moves ? 1 : 0;
    with_reruns += reruns ? 1 : 0;
    with_both += moves && reruns ? 1 : 0;
    factors.push_back(found.predicted_ms / best.predicted_ms);
  }
  // Percent of the cases in which `auto` takes at most so many times as long.
  double PercentWithin(double factor) const {
    const auto within =
        std::count_if(factors.begin(), factors.end(), [&](double f) { return f <= factor; });
    return 100 * static_cast<double>(within) / static_cast<double>(factors.size());
  }
};

void Compare(const AllRetentions& all, const Program& program, const DeviceDescription& device,
             int64_t budget, Gaps& gaps) {
  CAPTURE(budget);
  OneEngine catalog;
  const absl::StatusOr<PlanResult> result =
      MakePlan(program, {.budget_bytes = budget, .policy = "auto"}, device, catalog);
  REQUIRE_MESSAGE(result.ok(), result.status().ToString());
  const Plan& found = result->plan;
  const std::optional<Plan> faster = all.FasterThan(found.predicted_ms, budget);
  const Plan& best = faster.has_value() ? *faster : found;
  INFO("best:", testing::DescribeRetentions(best));
  INFO("auto:", testing::DescribeRetentions(found));
  for (const Plan* plan : {&best, &found}) {
    REQUIRE(Verify(*plan).ok());
    REQUIRE(plan->peak_bytes <= budget);
  }
  CHECK(result->stats.time_bound_ms <= best.predicted_ms * (1 + 1e-9));
  gaps.Add(found, best);
}

// Programs with more choices are left out, and those with less room between the smallest arena and
// that of keeping everything.
constexpr size_t kMaxChoices = 8;
constexpr int64_t kMinRoom = 8 * kBlockBytes;

// At three budgets between these two.
void Compare(uint32_t seed, Gaps& gaps) {
  CAPTURE(seed);
  OneEngine catalog;
  const DeviceDescription device = DeviceFor(seed);
  const Program program = ProgramFor(seed, device);
  if (AllRetentions::CountChoices(program) > kMaxChoices) return;
  const AllRetentions all(program, device, catalog);
  // An order of runs that policies do not try may have a smaller arena than their minimum: where a
  // tensor is rebuilt that would otherwise be kept or moved, a result may overwrite it in place.
  const int64_t least = std::max(
      all.SmallestArena(), MinimumBudget(program, {.policy = "auto"}, device, catalog).value());
  const int64_t natural = MakePlan(program, {}, device, catalog).value().plan.arena_bytes;
  if (natural - least < kMinRoom) return;
  ++gaps.programs;
  for (int part = 1; part <= 3; ++part)
    Compare(all, program, device, least + (natural - least) * part / 4, gaps);
}

// Asked is 95% of the cases within 2%, and none above 8%. `auto` misses the best plan where three
// retentions must change together, and where a larger arena than its level would hide a copy.
TEST_CASE(
    "random small networks: auto is within 8% of the fastest of all retentions, and mostly within "
    "2%") {
  constexpr uint32_t kSeeds = 370;
  Gaps gaps;
  for (uint32_t seed = 0; seed < testing::RandomSeeds(kSeeds); ++seed) Compare(seed, gaps);
  if (gaps.factors.empty()) return;
  MESSAGE(gaps.factors.size(), " cases: ", gaps.PercentWithin(1.02), "% within 2%, ",
          gaps.PercentWithin(1.08), "% within 8%, ", gaps.PercentWithin(1.3),
          "% within 30%; the most is a factor of ",
          *std::max_element(gaps.factors.begin(), gaps.factors.end()), "; the best plan moves in ",
          gaps.with_moves, ", rebuilds in ", gaps.with_reruns, ", both in ", gaps.with_both);
  if (testing::RandomSeeds(kSeeds) < kSeeds) return;
  CHECK(gaps.factors.size() == 300);
  CHECK(gaps.with_moves >= 150);
  CHECK(gaps.with_reruns >= 40);
  CHECK(gaps.with_both >= 15);
  CHECK(gaps.PercentWithin(1.02) >= 99);
  CHECK(gaps.PercentWithin(1.08) == 100);
}

TEST_CASE("a random small network: the bound on time is under the fastest of all retentions") {
  const uint32_t first = std::random_device{}();
  MESSAGE("seed ", first);
  Gaps gaps;
  for (uint32_t seed = first; gaps.programs == 0; ++seed) Compare(seed, gaps);
  CHECK(gaps.factors.size() == 3);
}

}  // namespace
}  // namespace neap
