// The CPU as a device, which can run every plan on every machine.
//
// It has the same streams as a GPU and must not be more forgiving: a plan that lacks a wait
// has to fail here, under ThreadSanitizer, before it corrupts a training run on a GPU. Therefore
// the other streams are threads with in-order queues, and their work is visible to the caller only
// after a wait. The compute stream is the calling thread: kernels run when they are enqueued, and a
// wait on it blocks.
//
//   ASSIGN_OR_RETURN(std::unique_ptr<CpuDevice> device, CpuDevice::Open());
//   ASSIGN_OR_RETURN(Buffer arena, device->Allocate(MemoryKind::kDevice, 64 * kMiB));
//   RETURN_IF_ERROR(device->Copy(Stream::kD2h, host.data(), arena.data(), bytes));
//   RETURN_IF_ERROR(device->Synchronize());
//
// *Threads*: one thread at a time. *Signals*: oneDNN's matrix products use the stack pointer for
// other purposes while they run, so a signal handler in the computing thread, or in one of
// OpenMP's, may write its frame over the heap. A program that handles signals must block them in
// these threads, before they start, and receive them in another (sigwait), as apps/cli/interrupt.h
// does. *OpenMP*: kernels run in OpenMP's threads, which by default spin between kernels; if other
// programs need the cores too, training is then several times slower. libgomp reads OMP_WAIT_POLICY
// when it is loaded, so start the program with OMP_WAIT_POLICY=passive, or let it restart itself
// with that variable, as apps/cli/wait_policy.h does. The workspaces of engines depend on the
// number of threads, so set it by OMP_NUM_THREADS rather than omp_set_num_threads(), which does not
// reach the planning thread of a session (Session::SetBudgetAsync). *Ownership*: buffers may
// outlive the device; the destructor finishes queued copies.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "neap/core/device/device.h"
#include "neap/layers/catalog/custom_kernel.h"

namespace neap {

class CopyQueue;
enum class Timing : uint8_t;

struct CpuDeviceOptions {
  std::vector<CustomKernel> kernels = {};  // for custom layers
  RewriteRules rules = {};                 // besides those of neap's own layers
};

class CpuDevice final : public Device {
 public:
  // Errors: RESOURCE_EXHAUSTED if the operating system refuses the threads; INVALID_ARGUMENT
  // for kernels that CheckCustomKernels() refuses, or kernels of built-in layers.
  static absl::StatusOr<std::unique_ptr<CpuDevice>> Open(CpuDeviceOptions options = {});
  ~CpuDevice() override;
  CpuDevice(const CpuDevice&) = delete;
  CpuDevice& operator=(const CpuDevice&) = delete;

  // Rates are nominal (layers/cpu/cpu_description.h).
  const DeviceDescription& description() const override { return description_; }
  // All kinds, including a peer's, are ordinary memory, zeroed and page-aligned; physical pages are
  // allocated on first touch.
  // Errors: RESOURCE_EXHAUSTED for more than description().memory_bytes, or if the operating system
  // refuses; INVALID_ARGUMENT for a negative size.
  absl::StatusOr<Buffer> Allocate(MemoryKind kind, int64_t size_bytes) override;
  // The resident set of this process.
  absl::StatusOr<int64_t> UsedBytes() override;
  absl::StatusOr<std::optional<int64_t>> LibraryBytes() override { return std::nullopt; }
  Backend& backend() override { return *backend_; }

  absl::Status Copy(Stream stream, void* destination, const void* source,
                    int64_t size_bytes) override;
  absl::Status CopyFromNchw(Stream stream, const float* nchw, const TensorSpec& spec,
                            std::byte* stored) override;
  // Enqueues work on a stream other than compute, for the engines of collectives
  // (layers/collectives). An error of it is returned by the next Await(), Synchronize() or other
  // call.
  absl::Status Call(Stream stream, std::function<absl::Status()> work);
  absl::StatusOr<Event> Record(Stream stream) override;
  absl::StatusOr<Event> RecordTime(Stream stream) override;
  absl::StatusOr<double> ElapsedUs(const Event& earlier, const Event& later) override;
  absl::Status Wait(Stream stream, const Event& event) override;
  absl::Status Await(const Event& event) override { return Wait(Stream::kCompute, event); }
  absl::Status Synchronize() override;

 private:
  CpuDevice(DeviceDescription description, std::unique_ptr<Backend> backend);
  CopyQueue& QueueOf(Stream stream);
  absl::StatusOr<Event> Record(Stream stream, Timing timing);
  // The first error, which every later call returns.
  absl::Status Health();
  absl::Status Fail(const absl::Status& error);

  DeviceDescription description_;
  std::unique_ptr<Backend> backend_;
  std::mutex mutex_;
  absl::Status status_;                                          // guarded by mutex_
  std::array<std::unique_ptr<CopyQueue>, kStreamCount> queues_;  // by Stream; none for compute
};

}  // namespace neap
