#include "neap/memory/parts_search.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <vector>

#include "neap/core/program/sub_batches.h"
#include "tests/random_graph.h"

namespace neap {
namespace {

using Outcome = PartsAttempt::Outcome;

// What plans of a batch would take: kernels a little longer with each part, and moves for what
// exceeds the memory, which a part of more than `fits` images does.
struct Model {
  int64_t batch = 0;
  double per_part_ms = 0;   // of kernels
  double per_image_ms = 0;  // moved
  int64_t unmoved = 0;      // images of a part that need no moves
  int64_t fits = 0;         // images of the largest part that fits
  double noise = 0;

  double KernelsMs(int64_t count) const { return 100 + per_part_ms * static_cast<double>(count); }
  double Ms(int64_t count) const {
    const int64_t images = DivideBatch(batch, count).images;
    std::mt19937 random(static_cast<uint32_t>(images));
    const double factor = 1 + noise * (std::uniform_real_distribution<>(-1, 1)(random));
    const double moved = static_cast<double>(std::max<int64_t>(0, images - unmoved) * count);
    return KernelsMs(count) + per_image_ms * moved * factor;
  }
  bool Fits(int64_t count) const { return DivideBatch(batch, count).images <= fits; }
};

struct Searched {
  double ms = std::numeric_limits<double>::infinity();
  std::vector<int64_t> planned = {}, refused = {};
};

Searched SearchIn(const Model& model, PartsSearchOptions options = {}) {
  Searched result;
  const auto attempt = [&](int64_t count) -> absl::StatusOr<PartsAttempt> {
    CHECK(DivideBatch(model.batch, count).count == count);
    for (const std::vector<int64_t>* tried : {&result.planned, &result.refused})
      CHECK(std::count(tried->begin(), tried->end(), count) == 0);
    PartsAttempt found = {.kernels_ms = model.KernelsMs(count)};
    if (found.kernels_ms >= (1 - kMinPartsGain) * result.ms) {
      found.outcome = Outcome::kSlow;
    } else if (!model.Fits(count)) {
      result.refused.push_back(count);
    } else {
      found.outcome = Outcome::kFits;
      result.planned.push_back(count);
      if (model.Ms(count) < result.ms) found.ms = result.ms = model.Ms(count);
    }
    return found;
  };
  REQUIRE(SearchParts(PartCounts(model.batch), options, attempt).ok());
  return result;
}

double BestMs(const Model& model) {
  double best = std::numeric_limits<double>::infinity();
  for (int64_t count = 1; count <= model.batch; ++count) {
    const int64_t used = DivideBatch(model.batch, count).count;
    if (model.Fits(used)) best = std::min(best, model.Ms(used));
  }
  return best;
}

}  // namespace

TEST_CASE("the counts of a batch are all numbers of parts in which it can be run") {
  CHECK(PartCounts(1) == std::vector<int64_t>{1});
  CHECK(PartCounts(10) == std::vector<int64_t>{1, 2, 3, 4, 5, 10});
  for (int64_t batch = 1; batch <= 300; ++batch) {
    std::vector<int64_t> expected;
    for (int64_t asked = 1; asked <= batch; ++asked) {
      const int64_t count = DivideBatch(batch, asked).count;
      if (expected.empty() || expected.back() != count) expected.push_back(count);
    }
    CAPTURE(batch);
    CHECK(PartCounts(batch) == expected);
  }
}

TEST_CASE("a large batch has few counts, with all small ones and the powers of two among them") {
  for (const int64_t batch : {1025, 4096, 100000, 1 << 24}) {
    CAPTURE(batch);
    const std::vector<int64_t> counts = PartCounts(batch);
    CHECK(counts.size() < 200);
    CHECK(std::adjacent_find(counts.begin(), counts.end(), std::greater_equal<>()) == counts.end());
    CHECK(counts.back() == batch);
    const auto has = [&](int64_t asked) {
      return std::binary_search(counts.begin(), counts.end(), DivideBatch(batch, asked).count);
    };
    for (int64_t asked = 1; asked <= 64; ++asked) CHECK(has(asked));
    for (int64_t power = 128; power <= batch; power *= 2) CHECK(has(power));
    for (const int64_t count : counts) CHECK(DivideBatch(batch, count).count == count);
  }
}

TEST_CASE("what fits as a whole, and needs no moves, is planned once") {
  const Model model = {.batch = 60, .per_part_ms = 1, .per_image_ms = 1, .unmoved = 60, .fits = 60};
  CHECK(SearchIn(model).planned == std::vector<int64_t>{1});
}

TEST_CASE("the search begins where nothing has to move, and ends with the whole batch") {
  const Model model = {.batch = 64, .per_part_ms = 1, .per_image_ms = 1, .unmoved = 9, .fits = 40};
  const Searched found = SearchIn(model, {.start = 8});
  CHECK(found.planned.front() == 8);
  CHECK(found.refused == std::vector<int64_t>{1});
  CHECK(found.ms == BestMs(model));
}

TEST_CASE("random networks: few plans find a number within 2% of the best") {
  std::mt19937 random(1);
  const auto uniform = [&](double low, double high) {
    return std::uniform_real_distribution<>(low, high)(random);
  };
  size_t most_plans = 0, plans = 0;
  int far = 0;
  const int kModels = 2000;
  for (int i = 0; i < kModels; ++i) {
    Model model = {.batch = 1 + static_cast<int64_t>(uniform(0, 400)),
                   .per_part_ms = std::exp(uniform(-5, 2)),
                   .per_image_ms = std::exp(uniform(-5, 1)),
                   .noise = uniform(0, 0.02)};
    model.unmoved = static_cast<int64_t>(uniform(0, static_cast<double>(model.batch)));
    model.fits = 1 + static_cast<int64_t>(uniform(0, static_cast<double>(model.batch)));
    CAPTURE(i);
    const Searched found = SearchIn(model);
    far += found.ms > 1.02 * BestMs(model) ? 1 : 0;
    most_plans = std::max(most_plans, found.planned.size());
    plans += found.planned.size();
  }
  CHECK(far <= kModels / 100);
  CHECK(most_plans <= 20);
  CHECK(plans <= 6 * kModels);
}

}  // namespace neap
