#include "neap/core/plan/collective_cost.h"

#include <doctest/doctest.h>

#include "neap/core/plan/cost_model.h"
#include "neap/core/plan/timeline.h"
#include "tests/plan_script.h"

namespace neap {
namespace {

constexpr RankLink kLink = {.bytes_per_second = 100e9, .hop_seconds = 5e-6};

TEST_CASE("sums cost two hops for each doubling, and almost two passes over the link") {
  const DeviceDescription two = WithCollectives({}, 2, kLink);
  CHECK(two.collective_latency_seconds == doctest::Approx(10e-6));
  CHECK(two.collective_bandwidth == doctest::Approx(100e9));
  const DeviceDescription many = WithCollectives({}, 512, kLink);
  CHECK(many.collective_latency_seconds == doctest::Approx(90e-6));
  CHECK(many.collective_bandwidth == doctest::Approx(100e9 * 512 / 1022));
  CHECK(WithCollectives({}, 5, kLink).collective_latency_seconds == doctest::Approx(30e-6));
  CHECK(WithCollectives({}, 1, kLink) == DeviceDescription{});
}

TEST_CASE("a timeline has sums beside computation, and an update waits for them") {
  const Plan plan = PlanFromScript(kSumPlan);
  TimelineCosts costs = TransferCosts({});
  costs.compute_seconds = SecondsEach(plan, 1, 0);  // f, e, f again, update
  costs.collective_latency_seconds = 0.5;
  costs.collective_bytes_per_second = 1024;  // the first bucket has 1028 bytes, the second 1024
  const Timeline timeline = PredictTimeline(plan, costs);
  // compute     |f|e|f|  .  |update
  // collective      |1.504 |1.5  |
  const double first = 1e6 * (0.5 + 1028.0 / 1024);
  CHECK(timeline.busy_us[static_cast<size_t>(Stream::kCollective)] ==
        doctest::Approx(first + 1.5e6));
  CHECK(timeline.total_us == doctest::Approx(2e6 + first + 1.5e6 + 1e6));
  REQUIRE(timeline.stalls.size() == 1);
  CHECK(timeline.stalls[0].begin_us == doctest::Approx(3e6));
  const Overlap overlap = FindOverlap(plan, timeline);
  CHECK(overlap.collective_us == doctest::Approx(first + 1.5e6));
  CHECK(overlap.hidden_collective_us == doctest::Approx(1e6));
}

TEST_CASE("a reduce-scatter and an all-gather cost half a sum each") {
  const Plan plan = PlanFromScript(kShardPlan);
  TimelineCosts costs = TransferCosts({});
  costs.compute_seconds = SecondsEach(plan, 1, 0);  // forward, backward, update
  costs.collective_latency_seconds = 0.5;
  costs.collective_bytes_per_second = 1024;  // of v and of g, 1024 bytes each
  // compute              |f|b|     |update|
  // collective  |0.75    |   |0.75 |
  const Timeline timeline = PredictTimeline(plan, costs);
  CHECK(timeline.busy_us[static_cast<size_t>(Stream::kCollective)] == doctest::Approx(1.5e6));
  CHECK(timeline.total_us == doctest::Approx(4.5e6));
}

}  // namespace
}  // namespace neap
