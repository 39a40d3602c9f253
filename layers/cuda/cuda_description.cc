#include "neap/layers/cuda/cuda_description.h"

#include <cuda_runtime_api.h>

#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/device/host_memory.h"
#include "neap/layers/cuda/cuda_device.h"
#include "neap/layers/cuda/cuda_status.h"

namespace neap {
namespace {

constexpr double kFp32FlopsPerClock =
    256;  // 128 multiply-adds per multiprocessor for compute capability 8.6 and later
constexpr int kHopper = 9;  // the compute capability's major number
constexpr double kNominalCopyBandwidth = 25e9;
// Those of an H200 (core/device/device_description.cc).
constexpr double kNominalSlowdownByCopies = 0.02;
constexpr double kNominalSlowdownBySums = 0.25;
constexpr double kNominalDoubledBySumsSeconds = 90e-6;

// Per multiprocessor and clock, dense, tf32.
double Tf32FlopsPerClock(int major) {
  if (major >= kHopper) return 2048;
  return major == 8 ? 1024 : kFp32FlopsPerClock;
}
// The same for 16-bit types, for which tensor cores exist since compute capability 7.0.
double HalfFlopsPerClock(int major) {
  if (major >= 8) return 2 * Tf32FlopsPerClock(major);
  return major == 7 ? 1024 : kFp32FlopsPerClock;
}

// Measured (docs/results.md): with folded batch norms ResNet-50 is 11% faster in bf16 on an H100,
// and as fast in tf32 on an H200, in two thirds of the memory. fp16 has the same kernels as bf16;
// it and later GPUs were not measured.
std::vector<DType> FoldingTypes(int major) {
  if (major < kHopper) return {};
  return {DType::kFp16, DType::kBf16, DType::kTf32};
}

absl::StatusOr<double> Attribute(cudaDeviceAttr attribute, int index) {
  int value = 0;
  RETURN_IF_ERROR(
      CudaStatus(cudaDeviceGetAttribute(&value, attribute, index), "cudaDeviceGetAttribute"));
  return static_cast<double>(value);
}

}  // namespace

absl::StatusOr<DeviceDescription> DescribeCudaDevice(int index) {
  cudaDeviceProp properties = {};
  RETURN_IF_ERROR(
      CudaStatus(cudaGetDeviceProperties(&properties, index), "cudaGetDeviceProperties"));
  ASSIGN_OR_RETURN(const double clock_khz, Attribute(cudaDevAttrClockRate, index));
  ASSIGN_OR_RETURN(const double memory_khz, Attribute(cudaDevAttrMemoryClockRate, index));
  ASSIGN_OR_RETURN(const double bus_bits, Attribute(cudaDevAttrGlobalMemoryBusWidth, index));
  const double clocks = clock_khz * 1e3 * properties.multiProcessorCount;
  // A multiprocessor of the A100 has half as many fp32 units.
  const bool half = properties.major == 8 && properties.minor == 0;
  return DeviceDescription{.name = properties.name,
                           .kind = "cuda",
                           .memory_bytes = static_cast<int64_t>(properties.totalGlobalMem),
                           .host_memory_bytes = HostMemoryBytes(),
                           .fp32_flops = clocks * kFp32FlopsPerClock / (half ? 2 : 1),
                           .tf32_flops = clocks * Tf32FlopsPerClock(properties.major),
                           .half_flops = clocks * HalfFlopsPerClock(properties.major),
                           .memory_bandwidth = 2 * memory_khz * 1e3 * bus_bits / 8,
                           .copy_bandwidth = kNominalCopyBandwidth,
                           .slowdown_by_copies = kNominalSlowdownByCopies,
                           .slowdown_by_sums = kNominalSlowdownBySums,
                           .doubled_by_sums_seconds = kNominalDoubledBySumsSeconds,
                           .folding_types = FoldingTypes(properties.major),
                           .page_bytes = CudaDevice::kPageBytes,
                           .has_own_memory = true};
}

absl::StatusOr<std::vector<DeviceDescription>> ListCudaDevices() {
  int count = 0;
  // A missing or outdated driver is not an error; the list is empty.
  if (cudaGetDeviceCount(&count) != cudaSuccess) count = 0;
  std::vector<DeviceDescription> devices;
  for (int i = 0; i < count; ++i) {
    ASSIGN_OR_RETURN(DeviceDescription device, DescribeCudaDevice(i));
    devices.push_back(std::move(device));
  }
  return devices;
}

absl::StatusOr<std::vector<int>> CudaPeersOf(int index) {
  int count = 0;
  RETURN_IF_ERROR(CudaStatus(cudaGetDeviceCount(&count), "cudaGetDeviceCount"));
  std::vector<int> peers;
  for (int peer = 0; peer < count; ++peer) {
    int can_access = 0;
    if (peer == index) continue;
    RETURN_IF_ERROR(CudaStatus(cudaDeviceCanAccessPeer(&can_access, index, peer),
                               absl::StrCat("cudaDeviceCanAccessPeer(", index, ", ", peer, ")")));
    if (can_access != 0) peers.push_back(peer);
  }
  return peers;
}

}  // namespace neap
