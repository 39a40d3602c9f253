#include "neap/core/run/plan_cache.h"

#include <doctest/doctest.h>

#include <memory>
#include <string>

#include "neap/core/graph/graph.h"
#include "neap/layers/convolution.h"
#include "neap/layers/fully_connected.h"
#include "neap/layers/softmax_cross_entropy.h"
#include "neap/memory/planner.h"

namespace neap {
namespace {

Program Net(const Convolution& convolution, Mode mode = Mode::kTraining) {
  Graph net({.name = "net", .batch = 2});
  std::string x = net.Add("conv", convolution, {net.Input({3, 8, 8})});
  net.Loss(net.Add("fc", FullyConnected{.out_features = 4}, {x}), SoftmaxCrossEntropy{});
  absl::StatusOr<Program> program = BuildProgram(net, {.mode = mode});
  REQUIRE_MESSAGE(program.ok(), program.status().ToString());
  return *std::move(program);
}

// Padding and dilation grow together, so that the shapes stay.
constexpr Convolution Conv(int64_t dilation = 1) {
  return {.out_channels = 4, .kernel = 3, .padding = dilation, .dilation = dilation};
}

PlanKey Key(int64_t budget_bytes) {
  static const std::shared_ptr<const Planner> planner = PlannerFor({});
  return {.program = Net(Conv()),
          .planner = planner,
          .request = {.budget_bytes = budget_bytes},
          .device = {}};
}

// A plan that can be distinguished from others.
absl::StatusOr<PlanResult> Numbered(int64_t number) {
  PlanResult result;
  result.plan.arena_bytes = number;
  return result;
}

// The cache's plan for the key; a new plan would have this number.
int64_t Get(PlanCache& cache, PlanKey key, int64_t number) {
  const absl::StatusOr<PlanResult> found =
      cache.FindOrMake(std::move(key), [&] { return Numbered(number); });
  REQUIRE(found.ok());
  return found->plan.arena_bytes;
}

}  // namespace

TEST_CASE("a plan is made once for a program, a budget and a planner") {
  PlanCache cache(8);
  CHECK(Get(cache, Key(100), 1) == 1);
  CHECK(Get(cache, Key(100), 2) == 1);
  CHECK(Get(cache, Key(200), 3) == 3);
  CHECK(Get(cache, Key(100), 4) == 1);
  CHECK(cache.stats().hits == 2);
  CHECK(cache.stats().misses == 2);
}

TEST_CASE("keys that may have different plans are distinguished") {
  PlanCache cache(16);
  const PlanKey key = Key(100);
  CHECK(Get(cache, key, 0) == 0);
  const auto differs = [&](PlanKey other, int64_t number) {
    return Get(cache, std::move(other), number) == number;
  };
  CHECK(differs({Net(Conv(2)), key.planner, key.request, key.device}, 1));  // the same shapes
  CHECK(differs({Net(Conv(), Mode::kInference), key.planner, key.request, key.device}, 2));
  CHECK(differs({key.program, key.planner, key.request, {.name = "another"}}, 3));
  PlanKey other = key;
  other.planner = PlannerFor({.policy = "superneurons"});
  CHECK(differs(other, 4));
  other.planner = PlannerFor({.host_budget_bytes = 1});
  CHECK(differs(other, 5));
  other.planner = PlannerFor({.in_place = false});
  CHECK(differs(other, 6));
  other = key;
  other.request.strict = true;
  CHECK(differs(other, 7));
  CHECK(cache.stats().hits == 0);
  CHECK(Get(cache, key, 8) == 0);
}

TEST_CASE("the least recently used plan is removed when there are too many") {
  PlanCache cache(2);
  Get(cache, Key(1), 1);
  Get(cache, Key(2), 2);
  Get(cache, Key(1), -1);  // 2 is now the older
  CHECK(Get(cache, Key(3), 3) == 3);
  CHECK(cache.size() == 2);
  CHECK(Get(cache, Key(1), -1) == 1);
  CHECK(Get(cache, Key(2), 4) == 4);
}

TEST_CASE("a failure is returned and not cached, and Clear() removes all plans") {
  PlanCache cache(2);
  const auto fail = [] { return absl::StatusOr<PlanResult>(absl::ResourceExhaustedError("no")); };
  CHECK(cache.FindOrMake(Key(1), fail).status().code() == absl::StatusCode::kResourceExhausted);
  CHECK(cache.size() == 0);
  CHECK(Get(cache, Key(1), 1) == 1);
  cache.Clear();
  CHECK(Get(cache, Key(1), 2) == 2);
  CHECK(cache.stats().misses == 3);
}

TEST_CASE(
    "a plan that is made while the cache changes is returned, but cached once or not at all") {
  PlanCache cache(2);
  const auto cleared = cache.FindOrMake(Key(1), [&] {
    cache.Clear();  // as another thread does when an engine cannot be built
    return Numbered(1);
  });
  CHECK(cleared->plan.arena_bytes == 1);
  CHECK(cache.size() == 0);
  const auto second = cache.FindOrMake(Key(1), [&] {
    CHECK(Get(cache, Key(1), 2) == 2);  // another thread is faster
    return Numbered(3);
  });
  CHECK(second->plan.arena_bytes == 3);
  CHECK(cache.size() == 1);
  CHECK(Get(cache, Key(1), 4) == 2);
}

}  // namespace neap
