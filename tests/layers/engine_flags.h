// The flags of an engine as text, to compare those of the same engine from different sources.
#pragma once

#include <string>

#include "neap/core/step/kernel.h"

namespace neap::testing {

// Those that the id has, too.
template <typename Flagged>  // Engine or TimedEngine
std::string FlagsOfId(const Flagged& engine) {
  return std::string(engine.accumulates_in_half ? " in half" : "") +
         (engine.computes_relu ? " with ReLU" : "");
}

inline std::string FlagsOf(const Engine& engine) {
  return FlagsOfId(engine) + (engine.uses_tensor_cores ? " on tensor cores" : "") +
         (engine.is_reference ? " reference" : "");
}

}  // namespace neap::testing
