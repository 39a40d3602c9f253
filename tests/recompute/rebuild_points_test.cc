#include "neap/recompute/rebuild_points.h"

#include <doctest/doctest.h>

#include <utility>
#include <vector>

#include "neap/core/program/program.h"
#include "neap/recompute/rebuild_prices.h"
#include "tests/recompute/one_segment.h"

namespace neap {
namespace {

// Points whose runs differ by as many of the last ones as their number says, and which differ from
// the first one, of peak 100, as given.
class Points {
 public:
  explicit Points(ptrdiff_t most_better) : points_(most_better) { Add(100, 0, 0); }

  EvaluatedOrder Order(int64_t peak_bytes, double seconds, int64_t moved_bytes) const {
    ComputeSequence runs = ProgramOrder(program_);
    runs.resize(runs.size() - points_.size());
    return {.runs = std::move(runs),
            .peak_bytes = peak_bytes,
            .seconds = seconds,
            .moved_bytes = moved_bytes};
  }
  void Add(int64_t peak_bytes, double seconds, int64_t moved_bytes, bool hides = true) {
    points_.Add(PointOf(Order(peak_bytes, seconds, moved_bytes), hides, retentions_));
  }
  bool IsWorthwhile(int64_t peak_bytes, double seconds, int64_t moved_bytes,
                    bool hides = true) const {
    return points_.IsWorthwhile(Order(peak_bytes, seconds, moved_bytes), hides);
  }
  std::vector<int64_t> BestPeaks() && {
    std::vector<int64_t> peaks;
    for (const RebuildPoint& point : std::move(points_).Best()) peaks.push_back(point.peak_bytes);
    return peaks;
  }

 private:
  const Program program_ = testing::OneSegment(6);
  const RebuildPrices prices_ = {
      .run_seconds = std::vector<double>(program_.steps.size(), 1),
      .rerun_seconds = std::vector<double>(program_.steps.size(), 1),
      .first_run_seconds = std::vector<double>(program_.steps.size(), 0)};
  const Retentions retentions_{program_, prices_};
  RebuildPoints points_;
};

TEST_CASE("a point is worthwhile unless another one is as good in every respect") {
  Points points(/*most_better=*/0);
  points.Add(50, 2, 10);
  CHECK(!points.IsWorthwhile(50, 2, 10));
  CHECK(!points.IsWorthwhile(60, 3, 20));
  CHECK(points.IsWorthwhile(49, 3, 20));
  CHECK(points.IsWorthwhile(60, 1, 20));
  CHECK(points.IsWorthwhile(60, 3, 9));
}

TEST_CASE("peaks that count copies differently are not compared, unless nothing is moved") {
  Points points(/*most_better=*/0);
  points.Add(50, 2, 10, /*hides=*/true);
  points.Add(40, 4, 0, /*hides=*/true);
  CHECK(points.IsWorthwhile(60, 3, 20, /*hides=*/false));
  CHECK(!points.IsWorthwhile(60, 4, 20, /*hides=*/false));
}

TEST_CASE("second-best points are kept where one other may be as good") {
  Points points(/*most_better=*/1);
  points.Add(50, 2, 0);
  CHECK(points.IsWorthwhile(60, 3, 0));
  points.Add(60, 3, 0);
  CHECK(!points.IsWorthwhile(70, 4, 0));
  points.Add(70, 4, 0);
  CHECK(std::move(points).BestPeaks() == std::vector<int64_t>{100, 60, 50});
}

TEST_CASE("what is no better than the first point is never worthwhile") {
  Points points(/*most_better=*/1);
  CHECK(!points.IsWorthwhile(100, 0, 0));
  points.Add(110, 1, 0);
  CHECK(std::move(points).BestPeaks() == std::vector<int64_t>{100});
}

TEST_CASE("the first point is kept, and the others come in descending order of their peaks") {
  Points points(/*most_better=*/0);
  points.Add(40, 5, 0);
  points.Add(80, 1, 0);
  points.Add(90, 2, 0);
  points.Add(60, 3, 0);
  CHECK(std::move(points).BestPeaks() == std::vector<int64_t>{100, 80, 60, 40});
}

}  // namespace
}  // namespace neap
