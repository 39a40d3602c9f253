// A part of a step's mini-batch and the engine that runs it: how a plan names a kernel. Most steps
// run as one part, the whole batch; convolutions may have several (core/step/divided_kernel.h).
//
//   const std::vector<EngineUse> parts = {{"eng3_k2=0", 64}, {"eng3_k2=0", 64}, {"eng7", 32}};
//   ToString(parts);  // "2 x 64 eng3_k2=0 + 32 eng7"
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "absl/types/span.h"

namespace neap {

struct EngineUse {
  std::string engine;
  int64_t batch = 0;
  // Whether the engine itself accumulates the part's gradients. Only in `backward_params`, and
  // never for the first part.
  bool adds = false;
  friend bool operator==(const EngineUse&, const EngineUse&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const EngineUse& use) {
    return H::combine(std::move(h), use.engine, use.batch, use.adds);
  }
};

// "eng3", or "3 x 64 eng3 + 32 eng7" for micro-batches. "+=" precedes parts whose engine adds by
// itself: in "64 eng3 += 2 x 64 eng3 + 32 eng7" only the last part uses scratch space.
std::string ToString(absl::Span<const EngineUse> parts);

}  // namespace neap
