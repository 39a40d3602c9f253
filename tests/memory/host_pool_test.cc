#include "neap/memory/host_pool.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <optional>
#include <random>
#include <vector>

#include "absl/strings/str_cat.h"
#include "neap/core/units.h"

namespace neap {
namespace {

// Tensors of so many blocks, less a few bytes; only what moves is of interest here.
Plan PlanOf(const std::vector<int64_t>& blocks) {
  Plan plan = {.batch = 1};
  for (size_t i = 0; i < blocks.size(); ++i) {
    const int64_t bytes = blocks[i] * kBlockBytes - 4;
    plan.tensors.push_back({TensorId(i), absl::StrCat("t", i), Role::kActivation, Shape{bytes / 4},
                            DType::kFp32, bytes});
  }
  return plan;
}
void Offload(Plan& plan, size_t tensor) {
  plan.actions.emplace_back(OffloadAction{TensorId(tensor)});
}
void Prefetch(Plan& plan, size_t tensor) {
  plan.actions.emplace_back(PrefetchAction{TensorId(tensor)});
}

TEST_CASE("a plan that moves nothing needs no host memory") {
  const Plan plan = PlanOf({3});
  CHECK(HostPeakBytes(plan) == 0);
  CHECK(LayOutHostPool(plan).bytes == 0);
  CHECK(LayOutHostPool(plan).places.empty());
}

TEST_CASE("a copy takes the place of one that has come back, once that one is read") {
  //   actions   0 offload a   1 prefetch a   2 offload b    3 prefetch b
  //   place     [==== a ==================)  [==== b ====================)   b's offload waits for
  //   1
  Plan plan = PlanOf({3, 3});
  Offload(plan, 0);
  Prefetch(plan, 0);
  Offload(plan, 1);
  Prefetch(plan, 1);
  const HostLayout layout = LayOutHostPool(plan);
  CHECK(layout.bytes == 3 * kBlockBytes);
  CHECK(HostPeakBytes(plan) == 3 * kBlockBytes);
  REQUIRE(layout.places.size() == 2);
  CHECK(layout.places[0].action == 0);
  CHECK(!layout.places[0].wait_for.has_value());
  CHECK(layout.places[1].action == 2);
  CHECK(layout.places[1].offset == layout.places[0].offset);
  CHECK(layout.places[1].wait_for == 1);
}

TEST_CASE("a copy that is read twice keeps its place until the second time") {
  //   actions   0 offload a   1 prefetch a   2 offload b   3 prefetch a   4 offload b
  //   place 0   [==== a ==========================================)       [= b again
  //   place 1                                [==== b ====================)
  Plan plan = PlanOf({2, 2});
  Offload(plan, 0);
  Prefetch(plan, 0);
  Offload(plan, 1);
  Prefetch(plan, 0);
  Offload(plan, 1);  // b has changed: its first copy is worth nothing
  Prefetch(plan, 1);
  const HostLayout layout = LayOutHostPool(plan);
  CHECK(layout.bytes == 4 * kBlockBytes);
  REQUIRE(layout.places.size() == 3);
  CHECK(!layout.places[1].wait_for.has_value());
  CHECK(layout.places[1].offset != layout.places[0].offset);
}

TEST_CASE("a copy that nobody reads keeps its place to the end") {
  Plan plan = PlanOf({2, 2});
  Offload(plan, 0);
  Offload(plan, 1);
  Prefetch(plan, 1);
  CHECK(HostPeakBytes(plan) == 4 * kBlockBytes);
}

// Who holds which copy, action by action.
struct Held {
  size_t place = 0;  // index into HostLayout::places
  int64_t begin = 0;
  int64_t end = 0;  // one past the last prefetch; without any, the next offload of it, or the end
  std::optional<int64_t> read = {};
};
std::vector<Held> NaiveCopies(const Plan& plan) {
  std::vector<Held> held;
  for (size_t i = 0; i < plan.actions.size(); ++i) {
    const auto* offload = std::get_if<OffloadAction>(&plan.actions[i]);
    if (offload == nullptr) continue;
    Held copy = {.place = held.size(),
                 .begin = static_cast<int64_t>(i),
                 .end = static_cast<int64_t>(plan.actions.size())};
    for (size_t j = i + 1; j < plan.actions.size(); ++j) {
      if (plan.actions[j] == plan.actions[i]) {
        copy.end = static_cast<int64_t>(j);
        break;
      }
      if (plan.actions[j] == Action(PrefetchAction{offload->tensor}))
        copy.read = static_cast<int64_t>(j);
    }
    if (copy.read.has_value()) copy.end = *copy.read + 1;
    held.push_back(copy);
  }
  return held;
}

void CheckLayout(const Plan& plan) {
  const HostLayout layout = LayOutHostPool(plan);
  const std::vector<Held> copies = NaiveCopies(plan);
  REQUIRE(layout.places.size() == copies.size());
  const auto bytes = [&](size_t i) {
    return RoundUp(plan.tensors[layout.places[i].tensor.index()].bytes, kBlockBytes);
  };
  const auto overlap = [&](size_t i, size_t j) {
    return layout.places[i].offset < layout.places[j].offset + bytes(j) &&
           layout.places[j].offset < layout.places[i].offset + bytes(i);
  };
  int64_t peak = 0;
  for (size_t i = 0; i < copies.size(); ++i) {
    REQUIRE(layout.places[i].action == copies[i].begin);
    REQUIRE(layout.places[i].offset + bytes(i) <= layout.bytes);
    int64_t alive = 0;
    std::optional<int64_t> wait;
    for (size_t j = 0; j < copies.size(); ++j) {
      const bool together = copies[j].begin <= copies[i].begin && copies[i].begin < copies[j].end;
      if (together) alive += bytes(j);
      if (i != j && together) REQUIRE(!overlap(i, j));
      if (j < i && !together && overlap(i, j) && copies[j].read.has_value())
        wait = std::max(wait.value_or(0), *copies[j].read);
    }
    REQUIRE(layout.places[i].wait_for == wait);
    peak = std::max(peak, alive);
  }
  REQUIRE(HostPeakBytes(plan) == peak);
  REQUIRE(layout.bytes >= peak);
}

TEST_CASE(
    "random transfers: no two copies share bytes, and whoever reuses them waits for the last") {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    std::vector<int64_t> blocks;
    for (size_t i = 0; i < 2 + seed % 9; ++i) blocks.push_back(1 + random() % 9);
    Plan plan = PlanOf(blocks);
    std::vector<bool> copied(blocks.size(), false);
    for (int i = 0; i < 40; ++i) {
      const size_t tensor = random() % blocks.size();
      if (copied[tensor] && random() % 3 != 0) {
        Prefetch(plan, tensor);
      } else {
        Offload(plan, tensor);
        copied[tensor] = true;
      }
    }
    CheckLayout(plan);
  }
}

}  // namespace
}  // namespace neap
