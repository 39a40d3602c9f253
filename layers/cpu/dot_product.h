// The product of two vectors.
#pragma once

#include <cstdint>
#include <numeric>

namespace neap::cpu {

// The sum of the products, in a fixed order that vectors have.
inline float DotProduct(const float* a, const float* b, int64_t count) {
  constexpr int64_t kLanes = 16;
  float sums[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (int64_t lane = 0; lane < kLanes; ++lane) sums[lane] += a[i + lane] * b[i + lane];
  }
  float sum = 0;
  for (; i < count; ++i) sum += a[i] * b[i];
  return std::accumulate(sums, sums + kLanes, sum);
}

}  // namespace neap::cpu
