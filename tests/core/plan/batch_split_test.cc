#include "neap/core/plan/batch_split.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>
#include <optional>
#include <random>
#include <vector>

namespace neap {
namespace {

constexpr double kDoesNotFit = std::numeric_limits<double>::infinity();
using Split = std::vector<int64_t>;
// Seconds of a rank for a number of images.
using TimeOf = std::function<double(int64_t images)>;

struct Found {
  BatchSplit search;
  int predicted = 0;
};

Found Search(int64_t batch, const std::vector<TimeOf>& ranks) {
  Found found = {BatchSplit(batch, static_cast<int>(ranks.size()))};
  while (const std::optional<Split> split = found.search.Next()) {
    REQUIRE(std::accumulate(split->begin(), split->end(), int64_t{0}) == batch);
    REQUIRE(*std::min_element(split->begin(), split->end()) >= 1);
    std::vector<double> seconds;
    for (size_t rank = 0; rank < ranks.size(); ++rank)
      seconds.push_back(ranks[rank]((*split)[rank]));
    found.search.Add(seconds);
    ++found.predicted;
  }
  return found;
}

TimeOf Steady(double images_per_second) {
  return [=](int64_t images) { return static_cast<double>(images) / images_per_second; };
}

TEST_CASE("equal ranks keep even parts, which are predicted once") {
  const Found found = Search(17, {Steady(100), Steady(100), Steady(100)});
  CHECK(found.search.best() == Split{6, 6, 5});
  CHECK(found.predicted == 1);
}

TEST_CASE("ranks get parts in proportion to their speed") {
  const Found found = Search(512, {Steady(3000), Steady(1000)});
  CHECK(found.search.best() == Split{384, 128});
  CHECK(found.search.best_seconds() == doctest::Approx(0.128));
  CHECK(found.predicted == 2);
}

TEST_CASE("a rank that is slower with more images gets what it computes in the same time") {
  // Beyond 100 images it rebuilds tensors, each image takes twice as long.
  const TimeOf tight = [](int64_t images) {
    return static_cast<double>(images + std::max<int64_t>(0, images - 100)) / 1000;
  };
  const Found found = Search(512, {Steady(1000), tight});
  REQUIRE(found.search.best().has_value());
  // 308 images in 0.308 s, 204 in 0.308 s.
  CHECK(found.search.best_seconds() == doctest::Approx(0.308).epsilon(0.02));
  CHECK(found.predicted <= 8);
}

TEST_CASE("a part that does not fit is given to the others") {
  const TimeOf small = [](int64_t images) {
    return images > 60 ? kDoesNotFit : static_cast<double>(images) / 1000;
  };
  const Found found = Search(256, {Steady(1000), small});
  REQUIRE(found.search.best().has_value());
  CHECK((*found.search.best())[1] <= 60);
  CHECK((*found.search.best())[1] >= 50);
}

TEST_CASE("nothing is found where nothing fits") {
  const TimeOf none = [](int64_t) { return kDoesNotFit; };
  CHECK(Search(64, {none, none}).search.best() == std::nullopt);
  CHECK(Search(2, {none, Steady(1)}).search.best() == std::nullopt);
}

TEST_CASE("of random ranks, the split found is nearly the best of all") {
  std::mt19937 random(1);
  const auto draw = [&](double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(random);
  };
  for (int round = 0; round < 300; ++round) {
    CAPTURE(round);
    const auto batch = static_cast<int64_t>(draw(2, 400));
    std::vector<TimeOf> ranks;
    for (int rank = 0; rank < 2; ++rank) {
      const double each = draw(1, 5), start = draw(0, 20), extra = draw(0, 3);
      const auto turn = static_cast<int64_t>(draw(0, static_cast<double>(batch)));
      const auto most = static_cast<int64_t>(draw(static_cast<double>(batch) / 2, 600)) + 1;
      ranks.push_back([=](int64_t images) {
        if (images > most) return kDoesNotFit;
        return start + each * static_cast<double>(images) +
               extra * static_cast<double>(std::max<int64_t>(0, images - turn));
      });
    }
    const Found found = Search(batch, ranks);
    double best = kDoesNotFit;
    for (int64_t first = 1; first < batch; ++first)
      best = std::min(best, std::max(ranks[0](first), ranks[1](batch - first)));
    REQUIRE(found.search.best().has_value());
    CHECK(found.search.best_seconds() <= 1.05 * best + 10);  // 10: a unit of images
    CHECK(found.predicted <= 8);
  }
}

}  // namespace
}  // namespace neap
