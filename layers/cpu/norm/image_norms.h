// Loops of norms that do not couple images, and what they have in common. Sums are float64. Files
// that include it are compiled without contraction of products and sums (CMakeLists.txt).
#pragma once

#include "neap/layers/cpu/candidates.h"
#include "neap/layers/cpu/converted.h"
#include "neap/layers/cpu/norm/channel_rows.h"

namespace neap::cpu {

// Adds the addend, if the step has one, to dx, which is rounded as if it were stored.
inline void AddAddend(const LoopArgs& args) {
  const float* const addend = args.Find<float>(operands::Addend());
  if (addend == nullptr) return;
  float* const dx = args.Get<float>(operands::Dx());
  const int64_t elements = args.Elements(operands::Dx());
  RoundAs(args.signature.Spec(operands::Dx()).dtype, [&](auto round) {
    for (int64_t i = 0; i < elements; ++i) dx[i] = round(dx[i]) + addend[i];
  });
}

// layer_norm_planes.cc: layer norm where the positions of a channel are neighbours. The workspace
// of backward is two doubles for each channel; forward needs none.
void LayerNormPlanesForward(const LoopArgs& args);
void LayerNormPlanesBackward(const LoopArgs& args);

}  // namespace neap::cpu
