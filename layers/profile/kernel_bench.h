// Runs kernels one at a time on operands of its own, in one block of device memory, and measures
// how long they take.
//
//   memory   [numbers in each type, zeros)[operands of the kernel)[workspace ....)[other operands)
//
// Operands are filled with random numbers before each step's first kernel, because kernels run
// faster on zeros, and because infinities that one kernel leaves would change the next one's time.
//
// Run after run with the same operands, a kernel would find them in the cache. In an iteration only
// what the step before has written is there: the input of a forward step, the gradient of a
// backward step's output. So the other operands are in several places, as far as there is memory,
// and runs take them in turn.
//
//   ASSIGN_OR_RETURN(KernelBench bench, KernelBench::Create(device, 2 * kGiB, /*samples=*/7));
//   RETURN_IF_ERROR(bench.Place(signature));
//   for (const Engine& engine : engines) {
//     if (engine.workspace_bytes > bench.WorkspaceBytes(signature)) continue;
//     ASSIGN_OR_RETURN(Measurement time, bench.Measure(signature, engine));
//   }
//
// *Ownership*: borrows the device. *Threads*: one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "neap/core/base/units.h"
#include "neap/core/device/device.h"
#include "neap/core/step/kernel.h"
#include "neap/layers/conv/configuration.h"
#include "neap/layers/profile/kernel_timer.h"
#include "neap/layers/profile/profile_row.h"

namespace neap {

class KernelBench {
 public:
  // The memory of the numbers from which operands are filled.
  static constexpr int64_t kOwnBytes = 16 * kMiB;

  // The bytes of a bench for a step with a workspace, with its own.
  static int64_t BytesFor(const StepSignature& signature, int64_t workspace_bytes);

  // `bytes` of device memory; `samples` as in KernelTimer. Errors: those of the device.
  static absl::StatusOr<KernelBench> Create(Device& device, int64_t bytes, int64_t samples);

  // The memory that is left beside the operands; negative if they do not fit.
  int64_t WorkspaceBytes(const StepSignature& signature) const;

  // Fills the operands of the step, which must fit, for the calls that follow: in all the places
  // that its kernels take in turn.
  absl::Status Place(const StepSignature& signature);

  // Times one engine of the step that was placed, within WorkspaceBytes(). If it does not build or
  // run, the measurement has the reason. `hopeless_seconds` and `go_on` are those of KernelTimer.
  // Errors: CANCELLED; RESOURCE_EXHAUSTED from the device.
  absl::StatusOr<Measurement> Measure(
      const StepSignature& signature, const Engine& engine,
      double hopeless_seconds = std::numeric_limits<double>::infinity(),
      const std::function<bool()>& go_on = nullptr);

  // The time of a whole configuration of the step that was placed, with all parts and additions.
  // Errors: those of the kernel and the device.
  absl::StatusOr<double> MedianSeconds(const StepSignature& signature,
                                       const Configuration& configuration);

 private:
  KernelBench(Device& device, int64_t samples) : device_(&device), timer_(device, samples) {}
  // Operands of the step that was placed.
  struct Operands {
    std::vector<void*> places;
    const std::byte* begin = nullptr;  // of those that other runs have elsewhere
    bool is_filled = true;
  };

  const std::byte* PatternFor(const OperandSpec& operand) const;
  std::byte* Workspace(const StepSignature& signature) const;
  absl::Status Fill(const OperandSpec& operand, std::byte* place);
  // All operands that have a place beside a workspace of so many bytes. Those that a larger
  // workspace has overwritten are filled again.
  absl::StatusOr<std::vector<KernelArgs>> ArgsInTurn(const StepSignature& signature,
                                                     int64_t workspace_bytes);
  absl::Status FillElsewhere(const StepSignature& signature, const Operands& operands);

  Device* device_;
  KernelTimer timer_;
  Buffer memory_;
  std::vector<Operands> in_turn_;  // the first before the workspace, the others from the end down
};

}  // namespace neap
