// How steps of sequences and volumes run. Elements of sequences, and mostly of volumes, lie in
// memory as those of images of other extents, so the kernels of images take them:
//
//   {N, C, T}        ->  {N, C, 1, T}      all layers
//   {N, C, D, H, W}  ->  {N, C, D H, W}    layers that treat all positions alike, and windows that
//                                          have one element and do not move along D and H
//                        {N, C, D, H W}    such windows along H and W
//                        {N, C, D, H, W}   other windows, Crop and ZeroPad
//
// Kernels of layers with windows therefore know two spatial axes and three, and those of most other
// layers two; those of Attention, whose inputs may have different axes, Resize,
// AdaptiveAveragePool, PixelShuffle, PixelUnshuffle, Softmax, the layers of layers/shape and losses
// with finer labels take all axes as they are. Both backends give their rows such signatures
// (KernelTable::view, layers/catalog/table_backend.h).
#pragma once

#include "neap/core/step/step_signature.h"

namespace neap {

// The signature of the same step as kernels take it; unchanged if it has two spatial axes, or none,
// or if its kernels take all axes. With three, all extents have a number for each.
StepSignature WithKernelAxes(StepSignature signature);

}  // namespace neap
