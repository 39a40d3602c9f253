// Which steps can be run in parts of their mini-batch (core/step/divided_kernel.h): convolutions,
// also transposed ones. Images are independent, so forward and backward_data of a part are plain
// convolutions; what the parts of backward_params compute adds up. The first part writes the
// gradients. A later one may add to them itself, if a library has an engine for that: it is the
// same step with its gradients accumulated.
//
//   StepSignature part = WithBatch(step, 64);
//   if (SumsParts(step)) catalog.Engines(AddingSignature(part));  // UNIMPLEMENTED: none adds
#pragma once

#include "neap/core/step/kernel.h"

namespace neap {

// Whether parts of the mini-batch can be run by themselves.
bool IsDivisible(const StepSignature& signature);

// Whether what the parts compute adds up: backward_params.
bool SumsParts(const StepSignature& signature);

// Of a part that adds its gradients to those that are there; what that was made from; and whether
// it is one.
StepSignature AddingSignature(StepSignature signature);
StepSignature WritingSignature(StepSignature signature);
bool AddsToGradients(const StepSignature& signature);

}  // namespace neap
