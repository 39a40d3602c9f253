// Which units a step of a layer that drops some keeps (layers/dropout.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "neap/core/base/philox.h"
#include "neap/layers/cpu/candidates.h"
#include "neap/layers/dropout.h"

namespace neap::cpu {

// The mask of units that have the numbers first, first + 1, ...
struct DropoutMask {
  DropoutMask(const LoopArgs& args, const DroppedUnits& dropped)
      : iteration(*args.Get<IterationScalars>(operands::Iteration())),
        layer_seed(args.signature.layer_seed),
        first(dropped.first),
        probability(dropped.probability) {}
  PhiloxBlock Block(int64_t block) const {
    return DropoutBlock(iteration.seed, layer_seed, iteration.step, static_cast<uint64_t>(block));
  }
  float FactorOf(uint32_t random) const {
    return ToUnitFloat(random) >= probability ? 1.0F / (1.0F - probability) : 0.0F;
  }
  float Factor(int64_t unit) const {
    const int64_t i = first + unit;
    return FactorOf(Block(i / 4)[static_cast<size_t>(i % 4)]);
  }
  IterationScalars iteration;
  uint64_t layer_seed;
  int64_t first;
  float probability;
};

// What is dropped becomes 0 whatever it is, also NaN.
inline float Masked(float value, float factor) { return factor == 0 ? 0 : value * factor; }

}  // namespace neap::cpu
