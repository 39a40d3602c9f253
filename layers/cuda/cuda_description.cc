#include "neap/layers/cuda/cuda_description.h"

#include <cuda_runtime_api.h>

#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/device/host_memory.h"
#include "neap/layers/cuda/cuda_device.h"
#include "neap/layers/cuda/device/cuda_status.h"
#include "neap/layers/devices/nominal_gpu.h"

namespace neap {
namespace {

constexpr double kNominalCopyBandwidth = 25e9;

absl::StatusOr<int64_t> Attribute(cudaDeviceAttr attribute, int index) {
  int value = 0;
  RETURN_IF_ERROR(
      CudaStatus(cudaDeviceGetAttribute(&value, attribute, index), "cudaDeviceGetAttribute"));
  return value;
}

absl::StatusOr<GpuProperties> PropertiesOf(const cudaDeviceProp& of, int index) {
  GpuProperties gpu = {.compute_capability = 10 * of.major + of.minor,
                       .multiprocessors = of.multiProcessorCount,
                       .l2_cache_bytes = of.l2CacheSize,
                       .threads_per_multiprocessor = of.maxThreadsPerMultiProcessor,
                       .blocks_per_multiprocessor = of.maxBlocksPerMultiProcessor};
  ASSIGN_OR_RETURN(gpu.clock_khz, Attribute(cudaDevAttrClockRate, index));
  ASSIGN_OR_RETURN(gpu.memory_clock_khz, Attribute(cudaDevAttrMemoryClockRate, index));
  ASSIGN_OR_RETURN(gpu.memory_bus_bits, Attribute(cudaDevAttrGlobalMemoryBusWidth, index));
  gpu.shared_memory_per_block_bytes = static_cast<int64_t>(of.sharedMemPerBlockOptin);
  gpu.reserved_shared_memory_per_block_bytes = static_cast<int64_t>(of.reservedSharedMemPerBlock);
  return gpu;
}

}  // namespace

absl::StatusOr<DeviceDescription> DescribeCudaDevice(int index) {
  cudaDeviceProp properties = {};
  RETURN_IF_ERROR(
      CudaStatus(cudaGetDeviceProperties(&properties, index), "cudaGetDeviceProperties"));
  ASSIGN_OR_RETURN(const GpuProperties gpu, PropertiesOf(properties, index));
  DeviceDescription device = NominalGpu(properties.name, gpu);
  device.memory_bytes = static_cast<int64_t>(properties.totalGlobalMem);
  device.host_memory_bytes = HostMemoryBytes();
  device.copy_bandwidth = kNominalCopyBandwidth;
  device.page_bytes = CudaDevice::kPageBytes;
  return device;
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
