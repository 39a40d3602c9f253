#include "neap/core/run/initialize.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace neap {
namespace {

Tensor Weights(int64_t count) {
  Tensor tensor;
  tensor.name = "fc.weight";
  tensor.spec.shape = {count, 1, 1, 1};
  tensor.init = {.kind = Init::Kind::kNormal, .scale = 0.5F};
  return tensor;
}

}  // namespace

TEST_CASE("an initial value depends on its place, not on the thread that computes it") {
  const std::vector<float> all = InitialValues(Weights(100'000), 7);
  for (const int64_t count : {1, 1'000, 50'000, 99'999}) {
    CAPTURE(count);
    const std::vector<float> first = InitialValues(Weights(count), 7);
    CHECK(std::equal(first.begin(), first.end(), all.begin()));
  }
  CHECK(InitialValues(Weights(100'000), 8) != all);
}

}  // namespace neap
