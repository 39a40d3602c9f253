#include "neap/layers/conv/micro_batching.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"

namespace neap {
namespace {

using Engines = std::vector<TimedEngine>;
using Parts = std::vector<EngineUse>;

constexpr double kTolerance = 1e-10;  // sums of picoseconds
constexpr DivisionPolicy kPolicies[] = {DivisionPolicy::kUndivided, DivisionPolicy::kPowerOfTwo,
                                        DivisionPolicy::kAll};

// Up to three engines for every size. Times and workspaces have few possible values, so many are
// equal. In every second instance parts are summed, by scratch memory or by engines that add.
Engines RandomEngines(std::mt19937& random, int64_t batch) {
  const bool sums = random() % 2 == 0;
  Addition by_scratch = {static_cast<int64_t>(random() % 30),
                         0.001 * static_cast<double>(random() % 3)};
  if (random() % 4 == 0) by_scratch.seconds.reset();
  Engines engines;
  for (int64_t size = 1; size <= batch; ++size) {
    const int count = static_cast<int>(random() % 4);
    for (int i = 0; i < count; ++i) {
      engines.push_back({.engine = absl::StrCat("engine", i),
                         .batch = size,
                         .workspace_bytes = static_cast<int64_t>(random() % 5) * 10 * size,
                         .seconds = 0.001 * static_cast<double>(1 + random() % 12)});
      if (!sums) continue;
      engines.back().adds = random() % 3 == 0;
      if (!engines.back().adds) engines.back().addition = by_scratch;
    }
  }
  return engines;
}

// Appends `part` to the configuration.
void Append(const TimedEngine& part, Configuration& configuration) {
  const Addition addition = configuration.parts.empty() ? Addition{} : part.addition;
  configuration.parts.push_back(part.use());
  configuration.workspace_bytes =
      std::max(configuration.workspace_bytes, part.workspace_bytes + addition.workspace_bytes);
  configuration.seconds += part.seconds + addition.seconds.value();
}

// Enumerates all divisions of `batch` images: any first part, then parts no larger than `largest`.
void Enumerate(const Engines& engines, int64_t batch, int64_t largest, const Configuration& begun,
               std::vector<Configuration>& all) {
  if (batch == 0) return all.push_back(begun);
  for (const TimedEngine& engine : engines) {
    if (engine.batch > std::min(batch, largest)) continue;
    if (begun.parts.empty() ? engine.adds : !engine.addition.seconds.has_value()) continue;
    Configuration longer = begun;
    Append(engine, longer);
    Enumerate(engines, batch - engine.batch, begun.parts.empty() ? batch : engine.batch, longer,
              all);
  }
}
// Whether, in some order of the parts after the first, all but the last are multiples.
bool IsAllowed(const Parts& parts, int64_t granularity) {
  const auto is_odd = [&](const EngineUse& part) { return part.batch % granularity != 0; };
  return parts.size() == 1 ||
         (!is_odd(parts.front()) && std::count_if(parts.begin(), parts.end(), is_odd) <= 1);
}
std::vector<Configuration> AllDivisions(const Engines& engines, int64_t batch,
                                        int64_t granularity) {
  std::vector<Configuration> all;
  Enumerate(engines, batch, batch, {}, all);
  std::erase_if(all, [&](const Configuration& c) { return !IsAllowed(c.parts, granularity); });
  return all;
}

// The best by time, then number of parts, then workspace; nullopt if nothing fits.
std::optional<Configuration> BestByBruteForce(const std::vector<Configuration>& all,
                                              int64_t limit_bytes) {
  std::optional<Configuration> best;
  for (const Configuration& one : all) {
    if (one.workspace_bytes > limit_bytes) continue;
    if (!best.has_value() || one.seconds < best->seconds - kTolerance) {
      best = one;
      continue;
    }
    if (one.seconds > best->seconds + kTolerance) continue;
    if (std::tuple(one.parts.size(), one.workspace_bytes) <
        std::tuple(best->parts.size(), best->workspace_bytes)) {
      best = one;
    }
  }
  return best;
}

// Asserts that it is a division, in order, with the time and the workspace that it claims.
void CheckConsistent(const Configuration& configuration, const Engines& engines, int64_t batch,
                     int64_t granularity) {
  int64_t images = 0;
  Configuration again;
  for (const EngineUse& part : configuration.parts) {
    const auto engine = std::find_if(engines.begin(), engines.end(),
                                     [&](const TimedEngine& e) { return e.use() == part; });
    REQUIRE(engine != engines.end());
    CHECK(images % granularity == 0);
    images += part.batch;
    Append(*engine, again);
  }
  CHECK(images == batch);
  CHECK(configuration.workspace_bytes == again.workspace_bytes);
  CHECK(configuration.seconds == doctest::Approx(again.seconds).epsilon(1e-9));
  const bool has_rest = batch % granularity != 0 && configuration.parts.size() > 1;
  CHECK(std::is_sorted(configuration.parts.rbegin() + (has_rest ? 1 : 0),
                       configuration.parts.rend() - 1,
                       [](const EngineUse& a, const EngineUse& b) { return a.batch < b.batch; }));
}

TEST_CASE("the text of a configuration groups equal parts, and marks those that add") {
  using Parts = std::vector<EngineUse>;
  CHECK(ToString(Parts{{"a", 64}}) == "a");
  CHECK(ToString(Parts{{"a", 64}, {"a", 64}, {"a", 64}, {"b", 32}}) == "3 x 64 a + 32 b");
  const Parts mixed = {{"a", 64}, {"a", 64, true}, {"a", 64, true}, {"a", 64}, {"b", 32, true}};
  CHECK(ToString(mixed) == "64 a += 2 x 64 a + 64 a += 32 b");
}

TEST_CASE("policies have names, and no policy loses the undivided step") {
  using Sizes = std::vector<int64_t>;
  for (const DivisionPolicy policy : kPolicies) {
    CHECK(ParseDivisionPolicy(Name(policy)).value() == policy);
    CHECK(MicroBatchSizes(policy, 1, 1) == Sizes{1});
  }
  CHECK(MicroBatchSizes(DivisionPolicy::kUndivided, 6, 1) == Sizes{6});
  CHECK(MicroBatchSizes(DivisionPolicy::kPowerOfTwo, 6, 1) == Sizes{1, 2, 4, 6});
  CHECK(MicroBatchSizes(DivisionPolicy::kPowerOfTwo, 8, 1) == Sizes{1, 2, 4, 8});
  CHECK(MicroBatchSizes(DivisionPolicy::kAll, 6, 1) == Sizes{1, 2, 3, 4, 5, 6});
  CHECK(MicroBatchSizes(DivisionPolicy::kPowerOfTwo, 150, 4) ==
        Sizes{2, 4, 8, 16, 32, 64, 128, 150});
  CHECK(MicroBatchSizes(DivisionPolicy::kPowerOfTwo, 11, 4) == Sizes{3, 4, 8, 11});
  CHECK(MicroBatchSizes(DivisionPolicy::kAll, 11, 4) == Sizes{3, 4, 7, 8, 11});
  CHECK(MicroBatchSizes(DivisionPolicy::kAll, 12, 4) == Sizes{4, 8, 12});
  const absl::Status unknown = ParseDivisionPolicy("powerOfTwo").status();
  CHECK(unknown.code() == absl::StatusCode::kInvalidArgument);
  CHECK(std::string(unknown.message()) ==
        "unknown division 'powerOfTwo'; known: undivided power-of-two all");
}

TEST_CASE("the fast engine runs in parts if it does not fit for the whole batch") {
  // The drawing of configuration.h.
  const Engines engines = {
      {"implicit", 6, 0, 9},
      {"winograd", 6, 60, 3},
      {"winograd", 3, 30, 2},
      {"winograd", 2, 20, 2},
  };
  CHECK(FastestDivision(engines, 6, 1, 60)->parts == Parts{{"winograd", 6}});
  CHECK(FastestDivision(engines, 6, 1, 59) ==
        Configuration{{{"winograd", 3}, {"winograd", 3}}, 30, 4, TimeSource::kMeasured});
  CHECK(FastestDivision(engines, 6, 1, 29) ==
        Configuration{
            {{"winograd", 2}, {"winograd", 2}, {"winograd", 2}}, 20, 6, TimeSource::kMeasured});
  CHECK(FastestDivision(engines, 6, 1, 19) ==
        Configuration{{{"implicit", 6}}, 0, 9, TimeSource::kMeasured});
}

TEST_CASE("larger parts come first") {
  const Engines engines = {{"fast", 2, 0, 1}, {"fast", 3, 0, 1}};
  CHECK(FastestDivision(engines, 8, 1, 0)->parts == Parts{{"fast", 3}, {"fast", 3}, {"fast", 2}});
}

TEST_CASE("ties in time go to fewer parts, then less workspace, then the first by name") {
  CHECK(FastestDivision(Engines{{"a", 2, 0, 1}, {"a", 4, 100, 2}}, 4, 1, 100)->parts ==
        Parts{{"a", 4}});
  CHECK(FastestDivision(Engines{{"a", 4, 100, 2}, {"b", 4, 50, 2}}, 4, 1, 100)->parts ==
        Parts{{"b", 4}});
  CHECK(FastestDivision(Engines{{"b", 4, 50, 2}, {"a", 4, 50, 2}}, 4, 1, 100)->parts ==
        Parts{{"a", 4}});
  // 0.1 + 0.2 is not 0.3 in doubles, but is as fast.
  CHECK(FastestDivision(Engines{{"a", 1, 0, 0.1}, {"a", 2, 0, 0.2}, {"a", 3, 0, 0.3}}, 3, 1, 0)
            ->parts.size() == 1);
}

TEST_CASE("if nothing fits, or no sizes add up to the batch, there is no division") {
  const Engines engines = {{"a", 4, 10, 1}, {"a", 8, 20, 1}};
  CHECK(!FastestDivision(engines, 8, 1, 9).has_value());
  CHECK(!FastestDivision(engines, 8, 1, -1).has_value());
  CHECK(!FastestDivision(engines, 6, 1, 1000).has_value());
  CHECK(!FastestDivision({}, 8, 1, 1000).has_value());
  CHECK(DesirableConfigurations(engines, 8, 1, 9).empty());
  CHECK(DesirableConfigurations(engines, 6, 1, 1000).empty());
  CHECK(FastestDivision(engines, 4, 1, 10)->parts == Parts{{"a", 4}});  // not the one for 8
}

TEST_CASE("a budget one byte short of the scratch falls back to the undivided step") {
  const Addition sum = {.workspace_bytes = 64, .seconds = 0.5};
  Engines engines = {{"slow", 4, 10, 5}, {"fast", 2, 30, 1}, {"fast", 4, 1000, 1}};
  engines[1].addition = sum;
  CHECK(FastestDivision(engines, 4, 1, 94) ==
        Configuration{{{"fast", 2}, {"fast", 2}}, 94, 2.5, TimeSource::kMeasured});
  CHECK(FastestDivision(engines, 4, 1, 93) ==
        Configuration{{{"slow", 4}}, 10, 5, TimeSource::kMeasured});
  CHECK(FastestDivision(engines, 4, 1, 999)->workspace_bytes == 94);
  CHECK(FastestDivision(engines, 4, 1, 1000) ==
        Configuration{{{"fast", 4}}, 1000, 1, TimeSource::kMeasured});
}

TEST_CASE("a batch is not divided if adding up the parts costs more than they gain") {
  const auto parts = [](double sum_seconds) {
    Engines engines = {{"a", 4, 0, 5}, {"a", 2, 0, 1}, {"a", 1, 0, 0.2}};
    for (TimedEngine& engine : engines) engine.addition.seconds = sum_seconds;
    return FastestDivision(engines, 4, 1, 0)->parts.size();
  };
  CHECK(parts(0) == 4);
  CHECK(parts(1) == 2);
  CHECK(parts(4) == 1);
}

TEST_CASE("the part that is most expensive to add goes first") {
  const Addition dear = {.workspace_bytes = 100, .seconds = 9};
  Engines engines = {{"by_scratch", 1, 20, 1}, {"by_itself", 3, 10, 2}};
  engines[0].addition = dear;
  engines[1].adds = true;
  CHECK(FastestDivision(engines, 4, 1, 20) ==
        Configuration{{{"by_scratch", 1}, {"by_itself", 3, true}}, 20, 3, TimeSource::kMeasured});
  CHECK(!FastestDivision(engines, 3, 1, 20).has_value());  // an engine that adds cannot be first
}

TEST_CASE("a part whose addition has no known time can only be the first") {
  Engines engines = {{"by_scratch", 2, 20, 1}, {"by_itself", 2, 10, 2}, {"whole", 4, 10, 9}};
  engines[0].addition.seconds.reset();
  CHECK(FastestDivision(engines, 4, 1, 20)->parts == Parts{{"by_scratch", 2}, {"by_itself", 2}});
  engines[1].adds = true;
  CHECK(FastestDivision(engines, 4, 1, 20)->parts ==
        Parts{{"by_scratch", 2}, {"by_itself", 2, true}});
  engines.erase(engines.begin() + 1);
  CHECK(FastestDivision(engines, 4, 1, 20)->parts == Parts{{"whole", 4}});
}

TEST_CASE("all parts but the last are multiples of the granularity") {
  const Engines engines = {
      {"a", 150, 99, 9}, {"a", 128, 50, 4}, {"a", 16, 10, 1}, {"a", 4, 5, 0.5}, {"a", 2, 5, 0.1}};
  CHECK(FastestDivision(engines, 150, 4, 60)->parts ==
        Parts{{"a", 128}, {"a", 16}, {"a", 4}, {"a", 2}});
  CHECK(FastestDivision(engines, 150, 8, 98) == std::nullopt);
  CHECK(FastestDivision(engines, 6, 4, 60)->parts == Parts{{"a", 4}, {"a", 2}});  // not 3 x 2
  const Engines unlike = {{"a", 4, 0, 1}, {"a", 7, 0, 1}};
  CHECK(FastestDivision(unlike, 15, 4, 0)->parts == Parts{{"a", 4}, {"a", 4}, {"a", 7}});
}

TEST_CASE("the fastest division is the best of all divisions, on random instances") {
  MESSAGE("seed 1");
  std::mt19937 random(1);
  for (int i = 0; i < 400; ++i) {
    CAPTURE(i);
    const auto batch = static_cast<int64_t>(1 + random() % 8);
    const int64_t granularity = i % 2 == 0 ? 1 : static_cast<int64_t>(1 + random() % 4);
    const Engines engines = RandomEngines(random, batch);
    const std::vector<Configuration> all = AllDivisions(engines, batch, granularity);
    for (int64_t limit_bytes = 0; limit_bytes <= 320; limit_bytes += 1 + limit_bytes / 10) {
      CAPTURE(limit_bytes);
      const auto expected = BestByBruteForce(all, limit_bytes);
      const auto found = FastestDivision(engines, batch, granularity, limit_bytes);
      REQUIRE(found.has_value() == expected.has_value());
      if (!found.has_value()) continue;
      CheckConsistent(*found, engines, batch, granularity);
      CHECK(found->seconds == doctest::Approx(expected->seconds).epsilon(1e-9));
      CHECK(found->parts.size() == expected->parts.size());
      CHECK(found->workspace_bytes == expected->workspace_bytes);
    }
  }
}

// The divisions that no other dominates; one of several equal ones.
std::vector<Configuration> FrontByBruteForce(std::vector<Configuration> all, int64_t limit_bytes) {
  std::sort(all.begin(), all.end(), [](const Configuration& a, const Configuration& b) {
    return std::tie(a.workspace_bytes, a.seconds) < std::tie(b.workspace_bytes, b.seconds);
  });
  std::vector<Configuration> front;
  for (const Configuration& one : all) {
    if (one.workspace_bytes > limit_bytes) break;
    if (front.empty() || one.seconds < front.back().seconds - kTolerance) front.push_back(one);
  }
  return front;
}

TEST_CASE("the desirable configurations are the Pareto front of all divisions") {
  MESSAGE("seed 2");
  std::mt19937 random(2);
  for (int i = 0; i < 400; ++i) {
    CAPTURE(i);
    const auto batch = static_cast<int64_t>(1 + random() % 8);
    const int64_t granularity = i % 2 == 0 ? 1 : static_cast<int64_t>(1 + random() % 4);
    const Engines engines = RandomEngines(random, batch);
    const auto limit_bytes = static_cast<int64_t>(random() % 320);
    const auto expected = FrontByBruteForce(AllDivisions(engines, batch, granularity), limit_bytes);
    const auto front = DesirableConfigurations(engines, batch, granularity, limit_bytes);
    REQUIRE(front.size() == expected.size());
    for (size_t k = 0; k < front.size(); ++k) {
      CheckConsistent(front[k], engines, batch, granularity);
      CHECK(front[k].workspace_bytes == expected[k].workspace_bytes);
      CHECK(front[k].seconds == doctest::Approx(expected[k].seconds).epsilon(1e-9));
    }
  }
}

TEST_CASE("the front contains every optimum, and more workspace is never slower") {
  MESSAGE("seed 3");
  std::mt19937 random(3);
  for (int i = 0; i < 40; ++i) {
    CAPTURE(i);
    const auto batch = static_cast<int64_t>(20 + random() % 40);
    const int64_t granularity = 1 + i % 4;
    const Engines engines = RandomEngines(random, batch);
    const auto front = DesirableConfigurations(engines, batch, granularity, 4000);
    CHECK(FastestThatFits(front, -1) == nullptr);
    double seconds = std::numeric_limits<double>::infinity();
    for (int64_t limit_bytes = 0; limit_bytes <= 4000; limit_bytes += 7) {
      const auto fastest = FastestDivision(engines, batch, granularity, limit_bytes);
      const Configuration* const fits = FastestThatFits(front, limit_bytes);
      REQUIRE(fastest.has_value() == (fits != nullptr));
      if (fits == nullptr) continue;
      CHECK(fits->workspace_bytes <= limit_bytes);
      CHECK(fits->seconds == fastest->seconds);
      CHECK(fits->seconds <= seconds);
      seconds = fits->seconds;
    }
  }
}

TEST_CASE("undivided is never better than power-of-two, nor power-of-two than all") {
  MESSAGE("seed 4");
  std::mt19937 random(4);
  for (int i = 0; i < 100; ++i) {
    CAPTURE(i);
    const auto batch = static_cast<int64_t>(1 + random() % 50);
    const int64_t granularity = 1 + i % 4;
    const Engines engines = RandomEngines(random, batch);
    for (const int64_t limit_bytes : {0, 30, 100, 300, 3000}) {
      double seconds = std::numeric_limits<double>::infinity();
      for (const DivisionPolicy policy : kPolicies) {
        const std::vector<int64_t> sizes = MicroBatchSizes(policy, batch, granularity);
        Engines used;
        for (const TimedEngine& engine : engines) {
          if (std::binary_search(sizes.begin(), sizes.end(), engine.batch)) used.push_back(engine);
        }
        const auto fastest = FastestDivision(used, batch, granularity, limit_bytes);
        CHECK((fastest.has_value() || seconds == std::numeric_limits<double>::infinity()));
        if (!fastest.has_value()) continue;
        CHECK(fastest->seconds <= seconds);
        seconds = fastest->seconds;
      }
    }
  }
}

}  // namespace
}  // namespace neap
