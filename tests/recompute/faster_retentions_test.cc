#include "neap/recompute/faster_retentions.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "neap/core/base/units.h"
#include "neap/core/program/passes.h"
#include "neap/layers/devices/device_description.h"
#include "tests/random_graph.h"
#include "tests/recompute/prices.h"

namespace neap {
namespace {

// Every result that can be rebuilt is, for each backward step that reads it.
std::vector<Retention> AllRebuilt(const Program& program, Retentions retentions) {
  for (const Step& step : program.steps) {
    if (retentions.CanBeRebuilt(step.id)) retentions.Set(step.id, Retention::kRebuiltEachTime);
  }
  return retentions.all();
}

bool Contains(const std::vector<Retention>& retentions, Retention retention) {
  return std::find(retentions.begin(), retentions.end(), retention) != retentions.end();
}

TEST_CASE("without a limit everything is kept, under one no peak is higher and no order slower") {
  int kept = 0, moved = 0, spared = 0;
  for (uint32_t seed = 0; seed < testing::RandomSeeds(100); ++seed) {
    CAPTURE(seed);
    const Program program = Lower(testing::RandomGraph(seed, {.residual = seed % 3 == 0}), {},
                                  DescribedDevice("h200").value())
                                .value();
    RebuildPrices prices = testing::RerunPrices(program);
    prices.copy_seconds_per_byte = 1 / DescribedDevice("h200")->copy_bandwidth;
    Retentions retentions(program, prices);
    const std::vector<Retention> nothing = retentions.all(), all = AllRebuilt(program, retentions);
    const bool hides = seed % 2 == 0;
    FasterRetentions faster(program, retentions, hides);
    CHECK(faster.Find(nothing, kUnlimited, /*may_move=*/true, kUnlimited).empty());
    if (!Contains(all, Retention::kRebuiltEachTime)) continue;

    retentions.Restore(all);
    const EvaluatedOrder before = retentions.Order(hides);
    if (before.seconds == 0) continue;  // no backward step reads anything
    const RetentionPoint free =
        faster.Find(all, kUnlimited, /*may_move=*/false, kUnlimited).front();
    CHECK(free.point.seconds == 0);
    for (const bool may_move : {false, true}) {
      const std::vector<RetentionPoint> found =
          faster.Find(all, before.peak_bytes, may_move, kUnlimited);
      for (const auto& [point, with_retentions] : found) {
        CHECK(point.peak_bytes <= before.peak_bytes);
        CHECK(point.seconds < before.seconds);
        if (!may_move) CHECK(!Contains(with_retentions, Retention::kMoved));
        kept += Contains(with_retentions, Retention::kKept);
        moved += Contains(with_retentions, Retention::kMoved);
        spared += point.spares;
        // The point is that of its retentions, less what is spared.
        retentions.Restore(with_retentions);
        const EvaluatedOrder whole = retentions.Order(hides);
        CHECK((ExtraForwards(point.runs) < ExtraForwards(whole.runs)) == point.spares);
        const int64_t crowded_bytes = before.peak_bytes - before.peak_bytes / 10;
        const int64_t crowded = retentions.PositionsAbove(crowded_bytes);
        const EvaluatedOrder order = retentions.Evaluate(point.runs, hides);
        CHECK(retentions.PositionsAbove(crowded_bytes) <=
              crowded);  // what is spared leaves some room
        CHECK(order.peak_bytes == point.peak_bytes);
        CHECK(order.seconds == point.seconds);
      }
      // It does not depend on what was found before.
      const std::vector<RetentionPoint> again =
          FasterRetentions(program, retentions, hides)
              .Find(all, before.peak_bytes, may_move, kUnlimited);
      CHECK(std::equal(found.begin(), found.end(), again.begin(), again.end(),
                       [](const RetentionPoint& a, const RetentionPoint& b) {
                         return a.retentions == b.retentions && a.point.runs == b.point.runs;
                       }));
    }
    CHECK(faster.Find(all, kUnlimited, /*may_move=*/true, /*most_walked=*/0).empty());
  }
  CHECK(kept > 0);
  CHECK(moved > 0);
  CHECK(spared > 0);
}

}  // namespace
}  // namespace neap
