#include "neap/recompute/faster_fates.h"

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
std::vector<Fate> AllRebuilt(const Program& program, Fates fates) {
  for (const Step& step : program.steps) {
    if (fates.CanBeRebuilt(step.id)) fates.Set(step.id, Fate::kRebuiltEachTime);
  }
  return fates.all();
}

bool Contains(const std::vector<Fate>& fates, Fate fate) {
  return std::find(fates.begin(), fates.end(), fate) != fates.end();
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
    Fates fates(program, prices);
    const std::vector<Fate> nothing = fates.all(), all = AllRebuilt(program, fates);
    const bool hides = seed % 2 == 0;
    FasterFates faster(program, fates, hides);
    CHECK(faster.Find(nothing, kUnlimited, /*may_move=*/true, kUnlimited).empty());
    if (!Contains(all, Fate::kRebuiltEachTime)) continue;

    fates.Restore(all);
    const FatedOrder before = fates.Order(hides);
    if (before.seconds == 0) continue;  // no backward step reads anything
    const FatedPoint free = faster.Find(all, kUnlimited, /*may_move=*/false, kUnlimited).front();
    CHECK(free.point.seconds == 0);
    for (const bool may_move : {false, true}) {
      const std::vector<FatedPoint> found =
          faster.Find(all, before.peak_bytes, may_move, kUnlimited);
      for (const auto& [point, with_fates] : found) {
        CHECK(point.peak_bytes <= before.peak_bytes);
        CHECK(point.seconds < before.seconds);
        if (!may_move) CHECK(!Contains(with_fates, Fate::kMoved));
        kept += Contains(with_fates, Fate::kKept);
        moved += Contains(with_fates, Fate::kMoved);
        spared += point.spares;
        // The point is that of its fates, less what is spared.
        fates.Restore(with_fates);
        const FatedOrder whole = fates.Order(hides);
        CHECK((ExtraForwards(point.runs) < ExtraForwards(whole.runs)) == point.spares);
        const int64_t crowded_bytes = before.peak_bytes - before.peak_bytes / 10;
        const int64_t crowded = fates.PositionsAbove(crowded_bytes);
        const FatedOrder order = fates.Evaluate(point.runs, hides);
        CHECK(fates.PositionsAbove(crowded_bytes) <= crowded);  // what is spared leaves some room
        CHECK(order.peak_bytes == point.peak_bytes);
        CHECK(order.seconds == point.seconds);
      }
      // It does not depend on what was found before.
      const std::vector<FatedPoint> again =
          FasterFates(program, fates, hides).Find(all, before.peak_bytes, may_move, kUnlimited);
      CHECK(std::equal(found.begin(), found.end(), again.begin(), again.end(),
                       [](const FatedPoint& a, const FatedPoint& b) {
                         return a.fates == b.fates && a.point.runs == b.point.runs;
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
