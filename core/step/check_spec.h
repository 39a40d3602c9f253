// Checks of a layer's spec, made before its tensors and operands are looked up by their numbers.
//
// Users write layers of their own, so a spec may refer to an input, a parameter or a saved tensor
// that does not exist, to a gradient that is not known yet, or have an enum's value that came from
// an uninitialised integer.
//
//   LayerSpec spec = {.output = x, .steps = {{.reads = {operands::X(3)}}}};
//   CheckSpec(spec, {.inputs = {x}}, /*is_loss=*/false).IgnoreError();  // "... reads input[3] ..."
#pragma once

#include "absl/status/status.h"
#include "neap/core/step/layer_spec.h"

namespace neap {

// `context` is the one that was specified; a loss has no gradient of its output. Errors:
// INVALID_ARGUMENT saying what is wrong; the caller prepends the layer's name.
absl::Status CheckSpec(const LayerSpec& spec, const LayerContext& context, bool is_loss);

}  // namespace neap
