#include "neap/core/cost_model.h"

#include <algorithm>

namespace neap {

double PredictSeconds(const Program& program, const Step& step, const DeviceDescription& device) {
  int64_t bytes = 0;
  for (const std::vector<Use>* uses :
       {&step.reads, &step.writes, &step.accumulates, &step.accumulates}) {
    for (const Use& use : *uses) bytes += program.tensor(use.tensor).spec.size_bytes();
  }
  const double rate = program.net.dtype == DType::kFp32 ? device.fp32_flops : device.tensor_flops;
  const double arithmetic = rate > 0 ? step.flops / rate : 0;
  const double memory =
      device.memory_bandwidth > 0 ? static_cast<double>(bytes) / device.memory_bandwidth : 0;
  return std::max(arithmetic, memory);
}

}  // namespace neap
