// Which layers have kernels for which number of spatial axes. The kernels of neap's devices take
// images. Elements of sequences and volumes lie in memory as those of images of other extents, so
// the same kernels run them:
//
//   {N, C, T}        ->  {N, C, 1, T}      all layers
//   {N, C, D, H, W}  ->  {N, C, D H, W}    layers that treat all positions alike, and windows that
//                                          have one element and do not move along D and H
//                        {N, C, D, H W}    such windows along H and W
//
// No kernel has other windows over volumes: they are refused when a plan is made, for every device.
//
//   KernelTable table = {.device = "the CPU", ...};
//   table.view = AsImages;  // both backends (layers/catalog/table_backend.h)
#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "neap/core/step/step_signature.h"

namespace neap {

// Whether there are kernels for the layer with so many spatial axes, whatever its fields. Those of
// layers with windows over volumes depend on the windows.
bool HasKernels(const Layer& layer, int axes);

// The signature of the same step with two spatial axes; unchanged if it has two, or none. `device`
// is named in messages. Errors: UNIMPLEMENTED as above.
absl::StatusOr<StepSignature> AsImages(StepSignature signature, std::string_view device);

}  // namespace neap
