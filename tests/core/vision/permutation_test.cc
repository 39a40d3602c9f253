#include "neap/core/vision/permutation.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <vector>

namespace neap {
namespace {

TEST_CASE("a permutation takes every index once, whatever its size") {
  for (int64_t size : {1, 2, 3, 4, 5, 15, 16, 17, 1000, 1437}) {
    CAPTURE(size);
    const Permutation permutation(size, /*seed=*/5, /*epoch=*/0);
    std::vector<int64_t> images;
    for (int64_t i = 0; i < size; ++i) images.push_back(permutation(i));
    std::sort(images.begin(), images.end());
    for (int64_t i = 0; i < size; ++i) REQUIRE(images[static_cast<size_t>(i)] == i);
  }
  CHECK(Permutation(int64_t{1} << 40, 1, 1)(12345) < int64_t{1} << 40);
}

TEST_CASE("every order of three comes up, about equally often") {
  std::map<std::vector<int64_t>, int> counts;
  for (uint64_t epoch = 0; epoch < 6000; ++epoch) {
    const Permutation permutation(3, /*seed=*/1, epoch);
    ++counts[{permutation(0), permutation(1), permutation(2)}];
  }
  CHECK(counts.size() == 6);
  for (const auto& [order, count] : counts) CHECK((count > 700 && count < 1300));
}

TEST_CASE("permutations of two epochs or seeds are unrelated") {
  constexpr int64_t kSize = 1000;
  const Permutation a(kSize, 1, 0);
  const Permutation b(kSize, 1, 1);
  const Permutation c(kSize, 2, 0);
  int same = 0;
  int64_t neighbours = 0;
  for (int64_t i = 0; i < kSize; ++i) {
    same += (a(i) == b(i) ? 1 : 0) + (a(i) == c(i) ? 1 : 0) + (a(i) == i ? 1 : 0);
    if (i > 0 && std::abs(a(i) - a(i - 1)) == 1) ++neighbours;
  }
  CHECK(same < 20);        // 3 expected
  CHECK(neighbours < 15);  // 2 expected
}

}  // namespace
}  // namespace neap
