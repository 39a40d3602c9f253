// The tensors that are read when an iteration of inference has ended, so a plan keeps them until
// then.
//
//   for (TensorId tensor : InferenceResults(program)) Keep(tensor);
//   const Tensor& logits = program.tensor(LogitsOf(program, program.predictions.front()));
//
// The loss may not write its output over the logits then, as it does in training.
#pragma once

#include <vector>

#include "neap/core/base/ids.h"
#include "neap/core/program/program.h"

namespace neap {

// The logits of `predictions`, one of Program::predictions: the first tensor that the step which
// computes them reads.
TensorId LogitsOf(const Program& program, TensorId predictions);

// Program::predictions and their logits; none unless the program is one of Mode::kInference in
// exact accounting.
std::vector<TensorId> InferenceResults(const Program& program);

}  // namespace neap
