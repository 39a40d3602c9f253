// A line of text with everything that determines the time of a step's kernel: the key under which
// measured times are stored (layers/profile/profile_database.h).
//
// The text must contain everything that can change the time, or the measurements of one kernel are
// used for another; and nothing else, or the same kernel is measured again. It therefore omits the
// layer's seed, the constants of an update, and the layer that an update belongs to. It also omits
// the batch: a convolution that runs as micro-batches is one operation, measured at several
// batches. It states the mode of a convolution, which does not change the time, always as training.
//
//   TYPE PHASE MODE [rerun] [PARAMETERS] OPERAND...
//   convolution forward training out_channels=64 kernel=3x3 stride=1x1 padding=1x1 dilation=1x1
//     groups=1 bias=false input[0]=Nx64x56x56:fp32:nchw output[0]:=Nx64x56x56:fp32:nchw
//     param[0]=64x64x3x3:fp32:nchw                                                   (in one line)
//   sgd update training param[0]+=10:fp32:nchw param_grad[0]=10:fp32:nchw ...
//
// Operands are sorted by slot and index: = is read, := written, += accumulated. An update has
// optimizer operands only with momentum. The addition of two gradients has the text of the forward
// step of the layer Add with two inputs: the same kernel runs both, in the same time.
//
//   const std::string operation = SignatureText(signature);
//   const int64_t batch = BatchOf(signature);
//   SignatureText(WithBatch(signature, batch / 2)) == operation;
#pragma once

#include <cstdint>
#include <string>

#include "neap/core/step/step_signature.h"

namespace neap {

// Equal for equal signatures. Signatures with equal texts differ only in the batch and in what
// takes no time, or are an addition of gradients and a layer's sum.
std::string SignatureText(const StepSignature& signature);

// The first extent of the operands that grow with the batch: those with slot input, output,
// input_grad, output_grad or addend whose first extent equals that of the first of them. 1 if a
// step has no such operands, as an update.
int64_t BatchOf(const StepSignature& signature);

// The same operands with another batch. Saved operands keep their shapes, so this is meant for
// steps without any, such as those of a convolution.
StepSignature WithBatch(StepSignature signature, int64_t batch);

}  // namespace neap
