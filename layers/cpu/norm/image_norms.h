// Loops of norms that do not couple images, and what they have in common. Sums are float64. Files
// that include it are compiled without contraction of products and sums (CMakeLists.txt).
#pragma once

#include <algorithm>

#include "neap/layers/cpu/candidates.h"

namespace neap::cpu {

// Writes the sums, or adds them to what is there, if the step has the operand.
inline void StoreSums(const LoopArgs& args, Operand operand, const double* sums) {
  float* const to = args.Find<float>(operand);
  if (to == nullptr) return;
  const bool adds = args.signature.Accumulates(operand);
  std::transform(sums, sums + args.Elements(operand), to, to, [adds](double sum, float before) {
    const auto value = static_cast<float>(sum);
    return adds ? before + value : value;
  });
}

// layer_norm_planes.cc: layer norm where the positions of a channel are neighbours. The workspace
// of backward is two doubles for each channel; forward needs none.
void LayerNormPlanesForward(const LoopArgs& args);
void LayerNormPlanesBackward(const LoopArgs& args);

}  // namespace neap::cpu
