// The layers that only move elements, as kernels take them (layers/steps/permutation.h).
#pragma once

#include "neap/core/step/step_signature.h"
#include "neap/layers/steps/permutation.h"

namespace neap {

// What a step of ChannelShuffle, PixelShuffle, PixelUnshuffle, or of a layer in layers/shape makes
// of the tensor that it reads; in both phases of Tile, what forward makes of x.
Permutation PermutationOf(const StepSignature& signature);

}  // namespace neap
