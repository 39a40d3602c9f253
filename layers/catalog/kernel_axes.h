// How steps of sequences and volumes run. The kernels of neap's devices take images, and elements
// of sequences and volumes lie in memory as those of images of other extents:
//
//   {N, C, T}        ->  {N, C, 1, T}      all layers
//   {N, C, D, H, W}  ->  {N, C, D H, W}    layers that treat all positions alike, and windows that
//                                          have one element and do not move along D and H
//                        {N, C, D, H W}    such windows along H and W
//
// The kernels of Resize, AdaptiveAveragePool, PixelShuffle and PixelUnshuffle take all axes as they
// are. There are no kernels for other windows over volumes. They are refused when engines are
// listed, so no session or plan is made with them. Both backends give their rows such signatures
// (KernelTable::view, layers/catalog/table_backend.h).
#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "neap/core/step/step_signature.h"

namespace neap {

// The signature of the same step with two spatial axes; unchanged if it has two, or none, or if its
// kernels take all axes. `device` is named in messages. Errors: UNIMPLEMENTED as above.
absl::StatusOr<StepSignature> AsImages(StepSignature signature, std::string_view device);

}  // namespace neap
