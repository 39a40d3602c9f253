// What decides the time of a step's kernel, as one line of text: the key under which measured times
// are kept (layers/profile/profile_database.h).
//
// The text must hold all that can change the time, or measurements of one kernel are taken for
// another's; and nothing else, or what was measured once is measured again: neither the layer's
// seed, nor the constants of an update, nor, for an update, which layer it belongs to. Nor the
// batch: a convolution that runs as micro-batches is one operation, measured at several batches.
// Nor the mode of a convolution, which changes nothing: the text says training.
//
//   TYPE PHASE MODE [rerun] [PARAMETERS] OPERAND...
//   convolution forward training out_channels=64 kernel=3x3 stride=1x1 padding=1x1 dilation=1x1
//     groups=1 bias=false input[0]=Nx64x56x56:fp32:nchw output[0]:=Nx64x56x56:fp32:nchw
//     param[0]=64x64x3x3:fp32:nchw                                                   (in one line)
//   sgd update training param[0]+=10:fp32:nchw param_grad[0]=10:fp32:nchw ...
//
// Operands are sorted by slot and index: = is read, := written, += accumulated. With momentum an
// update has optimizer operands, without it has none. The addition of two gradients has the text of
// the layer Add's forward step with two inputs: one kernel runs both and takes as long for either.
//
//   const std::string operation = SignatureText(signature);
//   const int64_t batch = BatchOf(signature);
//   SignatureText(WithBatch(signature, batch / 2)) == operation;
#pragma once

#include <cstdint>
#include <string>

#include "neap/core/step/step_signature.h"

namespace neap {

// Equal for equal signatures. Where it is equal, the signatures differ in nothing but the batch and
// what takes no time, and an addition of gradients from a layer's sum.
std::string SignatureText(const StepSignature& signature);

// The first extent of the operands that grow with the batch: those with slot input, output,
// input_grad, output_grad or addend whose first extent is that of the first of them. 1 where a step
// has none: an update.
int64_t BatchOf(const StepSignature& signature);

// The same operands with another batch. What a layer saves keeps its shape: meant for steps without
// saved operands, such as a convolution's.
StepSignature WithBatch(StepSignature signature, int64_t batch);

}  // namespace neap
