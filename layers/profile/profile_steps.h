// The steps that a profile measures: each distinct step of a program, and for divisible steps also
// the parts of the batch that a plan may use.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "neap/core/program/program.h"
#include "neap/core/step/kernel.h"
#include "neap/layers/conv/micro_batching.h"

namespace neap {

// The distinct kernels that a program's steps run, including reruns and additions of gradients. A
// session has two programs, one for training and one for inference.
std::vector<StepSignature> KernelsOf(const Program& program);

// `steps`, the parts of their batches under `divisions`, and the kernels that sum up parts: engines
// that add by themselves, and additions. Each comes once, after the steps that decide which of its
// engines are worth measuring: parts of odd sizes after powers of two, adding after writing.
absl::StatusOr<std::vector<StepSignature>> WithParts(const std::vector<StepSignature>& steps,
                                                     DivisionPolicy divisions,
                                                     EngineCatalog& catalog);

// Selects a catalog's engines for one step, in its order: the first `count`, and each that needs
// less workspace than all before it, which a plan takes where memory is short. Engines that add in
// fp16 or compute a ReLU count apart from the others. Behind others a library's reference
// (Engine::is_reference) is left out, because it would take most of the time.
std::vector<Engine> FirstEngines(const std::vector<Engine>& engines, int64_t count);

}  // namespace neap
