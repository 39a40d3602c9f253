// Runs one step of one layer on any backend with values from the host, and checks that the kernel
// respects its signature: outputs start as NaN, memory beyond every operand and the workspace must
// not change, nor operands that are only read.
//
// Values are doubles in logical N, C, H, W order whatever the dtype and layout of the tensor; the
// iteration's scalars are {learning_rate, step, seed}.
//
//   StepSignature forward =
//       SignatureOf(step_spec, {.layer = layer, .spec = spec, .inputs = inputs});
//   auto out = RunStep(*backend, HostAccess(), forward, {{operands::X(), x}});
//   out->at(operands::Y());
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "neap/core/step/kernel.h"
#include "neap/core/step/operands.h"

namespace neap::testing {

struct OperandLess {
  bool operator()(const Operand& a, const Operand& b) const {
    return std::pair(a.slot, a.index) < std::pair(b.slot, b.index);
  }
};
using Values = std::map<Operand, std::vector<double>, OperandLess>;

// The harness's access to the memory that a backend's kernels use.
struct DeviceAccess {
  std::function<void*(int64_t bytes)> allocate;  // 256-byte aligned
  std::function<void(void*)> release;
  std::function<void(void* device, const void* host, int64_t bytes)> copy_in;
  std::function<void(void* host, const void* device, int64_t bytes)> copy_out;  // after the kernels
};
DeviceAccess HostAccess();

// Position in memory of element `logical` (numbered in N, C, H, W order).
int64_t MemoryIndex(const TensorSpec& spec, int64_t logical);
// Converts host values to the tensor's bytes and back.
std::vector<std::byte> ToBytes(const TensorSpec& spec, const std::vector<double>& values);
std::vector<double> FromBytes(const TensorSpec& spec, const std::byte* bytes);
// The values that the tensor has if `values` are stored in it.
std::vector<double> Rounded(const TensorSpec& spec, const std::vector<double>& values);

struct SignatureOptions {
  Layer layer;
  LayerSpec spec;
  std::vector<TensorSpec> inputs;
  Mode mode = Mode::kTraining;
  bool rerun = false;
  bool accumulate = false;  // adds to input gradients (steps that accumulate natively)
  uint64_t layer_seed = 11;
};
// The signature of `step` as the program would make it: a rerun does not write states or the
// operands that it reads.
StepSignature SignatureOf(const StepSpec& step, const SignatureOptions& options);
// Each rule with and without what it may keep; clipped or not, averaged or not.
std::vector<Optimizer> SomeOptimizers();
// The update of `params`.
StepSignature UpdateSignature(const Layer& layer, const std::vector<TensorSpec>& params,
                              const Optimizer& optimizer);

struct RunOptions {
  std::string engine = {};  // empty: the first that the backend lists
  std::vector<std::pair<Operand, Operand>> in_place = {};  // {written, read} that share bytes
};
// The operands that the step wrote or accumulated into. `given` has those that it reads or
// accumulates into. Errors: the backend's; INTERNAL if the kernel wrote to other memory.
absl::StatusOr<Values> RunStep(Backend& backend, const DeviceAccess& access,
                               const StepSignature& signature, const Values& given,
                               const RunOptions& options = {});

}  // namespace neap::testing
