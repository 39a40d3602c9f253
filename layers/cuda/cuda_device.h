// An NVIDIA GPU as a device. Includes no CUDA, and exists in builds without it, where Open() says
// so.
//
// The GPU's memory is not all ours to plan: the context, cuDNN and cuBLAS take some for themselves,
// some of it late (code is loaded when a kernel first runs). LibraryBytes() is what they hold, so
// that planned bytes + LibraryBytes() is what the driver sees.
//
//   ASSIGN_OR_RETURN(std::unique_ptr<CudaDevice> device, CudaDevice::Open(0));
//   ASSIGN_OR_RETURN(Buffer arena, device->Allocate(MemoryKind::kDevice, 12 * kGiB));
//   // ... one training step ...
//   ASSIGN_OR_RETURN(std::optional<int64_t> libraries, device->LibraryBytes());
//   // *device->UsedBytes() == *libraries + RoundUp(12 * kGiB, kPageBytes)
//
// Another GPU of the same host may lend it memory, as a peer: that is reached over NVLink or PCI
// Express by this GPU's own copy streams, and nothing ever runs there.
//
//   ASSIGN_OR_RETURN(std::unique_ptr<CudaDevice> device, CudaDevice::Open(0, {.peer = 1}));
//   ASSIGN_OR_RETURN(Buffer lent, device->Allocate(MemoryKind::kPeer, 40 * kGiB));
//
// *Streams*: three that do not block each other or the legacy default stream. *Threads*: one at a
// time, any one. *Ownership*: buffers and events may outlive the device; kernels of its backend may
// not.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "neap/core/base/units.h"
#include "neap/core/device/device.h"
#include "neap/layers/catalog/custom_kernel.h"

namespace neap {

struct CudaDeviceOptions {
  std::optional<int> peer = std::nullopt;  // the GPU that lends memory
  std::vector<CustomKernel> kernels = {};  // of layers of the program's own
};

class CudaDevice final : public Device {
 public:
  // What the driver rounds allocations up to.
  static constexpr int64_t kPageBytes = 2 * kMiB;

  // Errors: NOT_FOUND when there is no such GPU or no driver; FAILED_PRECONDITION when GPU `index`
  // cannot reach the peer's memory (CudaPeersOf() says which it can); INVALID_ARGUMENT for kernels
  // that CheckCustomKernels() refuses, or that are of a layer of neap's; UNIMPLEMENTED in a build
  // without CUDA.
  static absl::StatusOr<std::unique_ptr<CudaDevice>> Open(int index,
                                                          CudaDeviceOptions options = {});
  ~CudaDevice() override;
  CudaDevice(const CudaDevice&) = delete;
  CudaDevice& operator=(const CudaDevice&) = delete;

  // Rates are nominal, but for the copies from host and peer to the device, which Open() times.
  const DeviceDescription& description() const override;
  // Device memory is one cudaMalloc, that of the peer one there, host memory one cudaHostAlloc:
  // none belongs in an iteration.
  absl::StatusOr<Buffer> Allocate(MemoryKind kind, int64_t size_bytes) override;
  // Total less free bytes of the GPU (cudaMemGetInfo): other processes count, if there are any.
  absl::StatusOr<int64_t> UsedBytes() override;
  absl::StatusOr<std::optional<int64_t>> LibraryBytes() override;
  Backend& backend() override;

  absl::Status Copy(Stream stream, void* destination, const void* source,
                    int64_t size_bytes) override;
  absl::StatusOr<Event> Record(Stream stream) override;
  absl::StatusOr<Event> RecordTime(Stream stream) override;
  absl::StatusOr<double> ElapsedUs(const Event& earlier, const Event& later) override;
  absl::Status Wait(Stream stream, const Event& event) override;
  absl::Status Await(const Event& event) override;
  absl::Status Synchronize() override;

 private:
  class Impl;
  explicit CudaDevice(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// The GPUs that Open() would open, in its order. Empty without a GPU, a driver, or CUDA.
absl::StatusOr<std::vector<DeviceDescription>> ListCudaDevices();

// The GPUs that GPU `index` can be opened with as a peer (cudaDeviceCanAccessPeer).
absl::StatusOr<std::vector<int>> CudaPeersOf(int index);

}  // namespace neap
