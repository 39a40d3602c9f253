// An NVIDIA GPU as a device. This header includes no CUDA; in builds without CUDA, Open() returns
// UNIMPLEMENTED.
//
// A plan cannot have all of the GPU's memory: the context, cuDNN and cuBLAS allocate some, partly
// late (code is loaded when a kernel first runs). LibraryBytes() is what they hold: planned bytes +
// LibraryBytes() equals the usage that the driver reports.
//
//   ASSIGN_OR_RETURN(std::unique_ptr<CudaDevice> device, CudaDevice::Open(0));
//   ASSIGN_OR_RETURN(Buffer arena, device->Allocate(MemoryKind::kDevice, 12 * kGiB));
//   ASSIGN_OR_RETURN(std::optional<int64_t> libraries, device->LibraryBytes());
//   // *device->UsedBytes() == *libraries + RoundUp(12 * kGiB, kPageBytes)
//
// Another GPU of the same host may lend its memory as a peer. This GPU's copy streams access it
// over NVLink or PCI Express, and no kernel runs on the peer.
//
//   ASSIGN_OR_RETURN(std::unique_ptr<CudaDevice> device, CudaDevice::Open(0, {.peer = 1}));
//   ASSIGN_OR_RETURN(Buffer lent, device->Allocate(MemoryKind::kPeer, 40 * kGiB));
//
// *Streams*: the streams do not block each other or the legacy default stream. Work on `collective`
// goes before other kernels that wait for a place on the GPU, because other ranks wait for it.
// *Threads*: any thread, one at a time, except where that says more. *Ownership*: buffers and
// events may outlive the device; kernels of its backend may not.
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
#include "neap/layers/catalog/engine_options.h"

namespace neap {

struct CudaDeviceOptions {
  std::optional<int> peer = std::nullopt;  // index of the GPU that lends memory
  std::vector<CustomKernel> kernels = {};  // for custom layers
  RewriteRules rules = {};                 // besides those of neap's own layers
  EngineOptions engines = {};              // which are listed
};

class CudaDevice final : public Device {
 public:
  // The driver rounds allocations up to a multiple of this size.
  static constexpr int64_t kPageBytes = 2 * kMiB;

  // Errors: NOT_FOUND if there is no such GPU, no driver, no cuDNN or no cuBLASLt;
  // FAILED_PRECONDITION for a cuDNN before 9.19, or if GPU `index` cannot access the peer's memory
  // (CudaPeersOf() lists the possible peers); INVALID_ARGUMENT for kernels that
  // CheckCustomKernels() refuses, or kernels of built-in layers; UNIMPLEMENTED in a build without
  // CUDA.
  static absl::StatusOr<std::unique_ptr<CudaDevice>> Open(int index,
                                                          CudaDeviceOptions options = {});
  ~CudaDevice() override;
  CudaDevice(const CudaDevice&) = delete;
  CudaDevice& operator=(const CudaDevice&) = delete;

  // Rates are nominal, except those of copies from host and peer to the device, which Open() times.
  const DeviceDescription& description() const override;
  // One cudaMalloc for device or peer memory, one cudaHostAlloc for host memory: too slow to call
  // in every iteration.
  absl::StatusOr<Buffer> Allocate(MemoryKind kind, int64_t size_bytes) override;
  // Total minus free bytes of the GPU (cudaMemGetInfo), including those of other processes.
  absl::StatusOr<int64_t> UsedBytes() override;
  absl::StatusOr<std::optional<int64_t>> LibraryBytes() override;
  Backend& backend() override;

  absl::Status Copy(Stream stream, void* destination, const void* source,
                    int64_t size_bytes) override;
  absl::Status CopyFromNchw(Stream stream, const float* nchw, const TensorSpec& spec,
                            std::byte* stored) override;
  absl::StatusOr<Event> Record(Stream stream) override;
  absl::StatusOr<Event> RecordTime(Stream stream) override;
  absl::StatusOr<double> ElapsedUs(const Event& earlier, const Event& later) override;
  absl::Status Wait(Stream stream, const Event& event) override;
  // A recording is a CUDA graph.
  absl::StatusOr<std::unique_ptr<Recording>> Capture(
      absl::FunctionRef<absl::Status()> enqueue) override;
  absl::Status Replay(const Recording& recording) override;
  absl::Status Await(const Event& event) override;
  absl::Status Synchronize() override;

  // For engines of sums over ranks (layers/collectives/nccl_ranks.h), from any thread.
  //
  // Makes the GPU current on the calling thread, and returns the stream as a cudaStream_t.
  absl::StatusOr<void*> Native(Stream stream);
  // Whether the event has happened; false also after an error, which the next call returns.
  bool HasHappened(const Event& event);
  // The device has failed: this and later calls return the error, those that wait when the streams
  // are idle.
  void Fail(const absl::Status& error);

 private:
  class Impl;
  explicit CudaDevice(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// The GPUs that Open() can open, in the order of their indices. Empty without a GPU, a driver, or
// CUDA.
absl::StatusOr<std::vector<DeviceDescription>> ListCudaDevices();

// The possible peers of GPU `index` (cudaDeviceCanAccessPeer).
absl::StatusOr<std::vector<int>> CudaPeersOf(int index);

}  // namespace neap
