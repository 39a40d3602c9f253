// The examples in the headers of layers/cpu, compiled and not run.
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/base/units.h"
#include "neap/layers/activation.h"
#include "neap/layers/cpu/addend.h"
#include "neap/layers/cpu/converted.h"
#include "neap/layers/cpu/cpu_backend.h"
#include "neap/layers/cpu/cpu_device.h"
#include "neap/layers/cpu/tokens/matrix_product.h"

namespace neap::examples {

// layers/cpu/converted.h
KernelRow ConvertedRow() {
  KernelRow row = {kLayer<Relu>, std::nullopt, cpu::ActivationSteps};
  row.list = cpu::Converted(row.list);  // now also for fp16 and bf16
  return row;
}

// layers/cpu/addend.h
KernelRow RowWithAddend() {
  KernelRow row = {kLayer<Relu>, std::nullopt, cpu::ActivationSteps};
  row.list = cpu::WithAddend(row.list);  // now also for signatures with an addend
  return row;
}

// layers/cpu/cpu_backend.h
absl::Status ListCpuEngines(const StepSignature& signature) {
  std::unique_ptr<Backend> backend = MakeCpuBackend();
  ASSIGN_OR_RETURN(std::vector<Engine> engines, backend->Engines(signature));
  return absl::OkStatus();
}

// layers/cpu/cpu_device.h
absl::Status CopyOnTheCpu(const Buffer& host, int64_t bytes) {
  ASSIGN_OR_RETURN(std::unique_ptr<CpuDevice> device, CpuDevice::Open());
  ASSIGN_OR_RETURN(Buffer arena, device->Allocate(MemoryKind::kDevice, 64 * kMiB));
  RETURN_IF_ERROR(device->Copy(Stream::kD2h, host.data(), arena.data(), bytes));
  RETURN_IF_ERROR(device->Synchronize());
  return absl::OkStatus();
}

// layers/cpu/tokens/matrix_product.h
void Multiply(const float* a, const float* b, float* c, void* scratch) {
  cpu::MatrixProduct product({.rows = 8, .columns = 3, .row_step = 3},  // a
                             {.rows = 3, .columns = 5, .row_step = 5},  // b
                             {.rows = 8, .columns = 5, .row_step = 5},  // c
                             /*adds=*/false);
  product.MakeRunnable();
  product.Run(a, b, c, scratch);  // c = a b
}

}  // namespace neap::examples
