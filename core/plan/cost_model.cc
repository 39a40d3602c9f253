#include "neap/core/plan/cost_model.h"

#include <algorithm>

namespace neap {
namespace {

int64_t BytesOf(const Program& program, const std::vector<Use>& uses) {
  int64_t bytes = 0;
  for (const Use& use : uses) bytes += program.tensor(use.tensor).spec.size_bytes();
  return bytes;
}

int64_t BytesTouched(const Program& program, const Step& step, bool rerun) {
  const int64_t bytes =
      BytesOf(program, ReadsOf(step, rerun)) + BytesOf(program, WritesOf(step, rerun));
  return rerun ? bytes : bytes + 2 * BytesOf(program, step.accumulates);  // read and written
}

double MemorySeconds(int64_t bytes, const DeviceDescription& device) {
  return device.memory_bandwidth > 0 ? static_cast<double>(bytes) / device.memory_bandwidth : 0;
}

// Adding gradients of parameters to those of the sub-batches before, where the kernel does not.
double ParamSumSeconds(const Program& program, const Step& step, const DeviceDescription& device) {
  double seconds = 0;
  for (const Use& use : step.accumulates) {
    if (use.operand.slot != Slot::kParamGrad || !KernelOverwrites(step, use)) continue;
    seconds += PredictAdditionSeconds(program.tensor(use.tensor).spec, device);
  }
  return seconds;
}

}  // namespace

double PredictSeconds(const Program& program, const Step& step, const DeviceDescription& device,
                      bool rerun) {
  if (IsCollective(step.phase)) return 0;
  const int64_t bytes = BytesTouched(program, step, rerun);
  const double rate = device.FlopsOf(program.net.dtype);
  const double arithmetic = rate > 0 ? step.flops / rate : 0;
  const double sums = rerun ? 0 : ParamSumSeconds(program, step, device);
  return std::max(arithmetic, MemorySeconds(bytes, device)) + sums;
}

double PredictAdditionSeconds(const TensorSpec& spec, const DeviceDescription& device) {
  return MemorySeconds(3 * spec.size_bytes(), device);  // two are read, one is written
}

TimelineCosts TransferCosts(const DeviceDescription& device) {
  return {.d2h_bytes_per_second = device.copy_bandwidth,
          .h2d_bytes_per_second = device.copy_bandwidth,
          .peer_bytes_per_second = device.peer_bandwidth,
          .device_bytes_per_second = device.memory_bandwidth,
          .slowdown_by_copies = device.slowdown_by_copies,
          .collective_bytes_per_second = device.collective_bandwidth,
          .collective_latency_seconds = device.collective_latency_seconds,
          .slowdown_by_sums = device.slowdown_by_sums,
          .doubled_by_sums_seconds = device.doubled_by_sums_seconds};
}

}  // namespace neap
