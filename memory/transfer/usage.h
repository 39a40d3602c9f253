// Usage: the bytes of the arena that are taken at a run, counted in two ways, and limits on both.
//
// The arena is handed out in whole blocks, so that is what has to fit a budget. The layer-wise
// bound (recompute/layerwise_bound.h) and the papers count exact bytes of activations instead.
//
//   const Usage limit = {.bytes = 12 * kGiB, .activation_bytes = kUnlimited};
//   if (!Fits(used, UsageOf(tensor), limit)) Evict(Excess(used, UsageOf(tensor), limit));
#pragma once

#include <cstdint>

#include "neap/core/base/tensor.h"
#include "neap/core/base/units.h"
#include "neap/core/plan/plan.h"
#include "neap/core/program/program.h"

namespace neap {

struct Usage {
  int64_t bytes = 0;  // whole blocks, with the run's workspace, without tensors of fixed place
  int64_t activation_bytes = 0;  // exact, of activations, saved tensors and gradients

  Usage& operator+=(const Usage& other) {
    bytes += other.bytes;
    activation_bytes += other.activation_bytes;
    return *this;
  }
  Usage& operator-=(const Usage& other) {
    bytes -= other.bytes;
    activation_bytes -= other.activation_bytes;
    return *this;
  }
  friend bool operator==(const Usage&, const Usage&) = default;
};

inline constexpr Usage kNoLimit = {kUnlimited, kUnlimited};

// The bytes that a tensor adds to the usage.
inline Usage UsageOf(const Tensor& tensor) {
  return {.bytes = RoundUp(tensor.spec.size_bytes(), kBlockBytes),
          .activation_bytes = CountsAsActivation(tensor.role) ? tensor.spec.size_bytes() : 0};
}

// By how much `used` and `more` together exceed the limit; zero or less where they do not.
inline Usage Excess(const Usage& used, const Usage& more, const Usage& limit) {
  return {
      .bytes = more.bytes - (limit.bytes - used.bytes),
      .activation_bytes = more.activation_bytes - (limit.activation_bytes - used.activation_bytes)};
}

inline bool Fits(const Usage& used, const Usage& more, const Usage& limit) {
  const Usage excess = Excess(used, more, limit);
  return excess.bytes <= 0 && excess.activation_bytes <= 0;
}

}  // namespace neap
