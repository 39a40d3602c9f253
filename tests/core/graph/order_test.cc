#include "neap/core/graph/order.h"

#include <doctest/doctest.h>

#include <vector>

namespace neap {
namespace {

using Inputs = std::vector<std::vector<size_t>>;
using Order = std::vector<size_t>;

TEST_CASE("a chain runs front to back") {
  CHECK(ExecutionOrder({{}, {0}, {1}, {2}}) == Order{0, 1, 2, 3});
  CHECK(ExecutionOrder({{1}, {2}, {3}, {}}) == Order{3, 2, 1, 0});
}

TEST_CASE("a fan is walked branch by branch, and the join waits for all of them") {
  //      1 -> 2
  //    /        \        .
  //  0            5 -> 6
  //    \        /
  //      3 -> 4
  CHECK(ExecutionOrder({{}, {0}, {1}, {0}, {3}, {2, 4}, {5}}) == Order{0, 1, 2, 3, 4, 5, 6});
}

TEST_CASE("a residual block runs its long branch before the sum") {
  CHECK(ExecutionOrder({{}, {0}, {1}, {0, 2}, {3}}) == Order{0, 1, 2, 3, 4});
}

TEST_CASE("a fan within a branch is finished before the next branch of the outer one begins") {
  //        +-> 2 --+
  //   +-> 1        4 --+
  //   |    +-> 3 --+   |
  //   0                6
  //   +------> 5 ------+
  CHECK(ExecutionOrder({{}, {0}, {1}, {1}, {2, 3}, {0}, {4, 5}}) == Order{0, 1, 2, 3, 4, 5, 6});
}

TEST_CASE("branches and sources run in the order in which they were added") {
  CHECK(ExecutionOrder({{}, {}, {1}, {0}, {2, 3}}) == Order{0, 3, 1, 2, 4});
}

TEST_CASE("a layer that reads the same input twice runs once") {
  CHECK(ExecutionOrder({{}, {0, 0}, {1}}) == Order{0, 1, 2});
}

TEST_CASE("layers that depend on a cycle are left out") {
  CHECK(ExecutionOrder({{}, {0, 3}, {1}, {2}, {0}}) == Order{0, 4});
  CHECK(ExecutionOrder({{0}}).empty());
  CHECK(ExecutionOrder({}).empty());
}

TEST_CASE("100,000 layers deep does not overflow the stack") {
  constexpr size_t kLayers = 100'000;
  Inputs inputs(kLayers);
  for (size_t i = 1; i < kLayers; ++i) inputs[i] = i < 2 ? Order{i - 1} : Order{i - 1, i - 2};
  const Order order = ExecutionOrder(inputs);
  REQUIRE(order.size() == kLayers);
  for (size_t i = 0; i < kLayers; ++i) REQUIRE(order[i] == i);
}

}  // namespace
}  // namespace neap
