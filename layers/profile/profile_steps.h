// What a profile measures: each step that a program runs, once, and the parts of a batch on which
// a plan may run those that can be divided.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "neap/core/program/program.h"
#include "neap/core/step/kernel.h"
#include "neap/layers/conv/micro_batching.h"

namespace neap {

// All that a program's steps run, each once: kernels, their reruns, and additions of gradients. A
// session has two programs, of training and of inference.
std::vector<StepSignature> KernelsOf(const Program& program);

// `steps`, the parts of their batches that `divisions` names, and what adds parts up: engines that
// do so by themselves, and additions. Each once, and after what decides which of its engines are
// worth measuring: parts of odd sizes after powers of two, adding after writing.
absl::StatusOr<std::vector<StepSignature>> WithParts(const std::vector<StepSignature>& steps,
                                                     DivisionPolicy divisions,
                                                     EngineCatalog& catalog);

}  // namespace neap
