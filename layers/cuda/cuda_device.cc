#include "neap/layers/cuda/cuda_device.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <limits>
#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/base/units.h"
#include "neap/layers/cuda/cuda_backend.h"
#include "neap/layers/cuda/cuda_description.h"
#include "neap/layers/cuda/device/cuda_graph.h"
#include "neap/layers/cuda/device/cuda_status.h"
#include "neap/layers/cuda/device/event_pool.h"
#include "neap/layers/cuda/device/from_nchw.h"

namespace neap {
namespace {

struct StreamDeleter {
  void operator()(cudaStream_t stream) const { cudaStreamDestroy(stream); }
};
using OwnedStream = std::unique_ptr<std::remove_pointer_t<cudaStream_t>, StreamDeleter>;

absl::StatusOr<OwnedStream> NewStream(int priority) {
  cudaStream_t stream = nullptr;
  RETURN_IF_ERROR(CudaStatus(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, priority),
                             "cudaStreamCreateWithPriority"));
  return OwnedStream(stream);
}

constexpr int64_t kAlignment = 4096;

std::byte* AlignUp(void* p) {
  const uintptr_t address = reinterpret_cast<uintptr_t>(p);
  const uintptr_t aligned = (address + kAlignment - 1) / kAlignment * kAlignment;
  return static_cast<std::byte*>(p) + (aligned - address);
}

absl::StatusOr<int64_t> UsedNow() {
  size_t free = 0, total = 0;
  RETURN_IF_ERROR(CudaStatus(cudaMemGetInfo(&free, &total), "cudaMemGetInfo"));
  return static_cast<int64_t>(total - free);
}

// The status of an allocation. A refusal leaves the device usable, so later kernel launches must
// not report it.
absl::Status Granted(cudaError_t error, const std::string& call) {
  if (error == cudaSuccess) return absl::OkStatus();
  cudaGetLastError();
  const absl::Status status = CudaStatus(error, call);
  return error == cudaErrorInvalidValue ? absl::ResourceExhaustedError(status.message()) : status;
}

}  // namespace

class CudaDevice::Impl {
 public:
  Impl(int index, std::optional<int> peer) : index_(index), peer_(peer) {}
  ~Impl() {
    // Work in flight may still use streams and kernels. A destructor cannot report an error.
    if (cudaSetDevice(index_) == cudaSuccess) cudaDeviceSynchronize();
  }

  absl::Status Open(CudaDeviceOptions options);
  absl::StatusOr<Buffer> Allocate(MemoryKind kind, int64_t size_bytes);
  absl::StatusOr<int64_t> LibraryBytes();

  // Makes the device current, unless an earlier call failed for good.
  absl::Status Enter() {
    RETURN_IF_ERROR(Failure());
    return Keep(CudaStatus(cudaSetDevice(index_), "cudaSetDevice"));
  }
  // Stores the first error. Those of a capture end with it.
  absl::Status Keep(absl::Status status) {
    if (!status.ok() && !is_capturing_) Fail(status);
    return status;
  }
  absl::Status Failure() const {
    const std::lock_guard lock(failure_mutex_);
    return failed_;
  }
  void Fail(const absl::Status& error) {
    const std::lock_guard lock(failure_mutex_);
    failed_.Update(error);
  }
  absl::StatusOr<std::unique_ptr<Recording>> Capture(absl::FunctionRef<absl::Status()> enqueue) {
    RETURN_IF_ERROR(Enter());
    is_capturing_ = true;
    absl::StatusOr<std::unique_ptr<Recording>> captured =
        CaptureGraph(stream(Stream::kCompute), enqueue);
    is_capturing_ = false;
    return captured;
  }
  cudaStream_t stream(Stream which) const { return streams_[static_cast<size_t>(which)].get(); }

  DeviceDescription description;
  absl::StatusOr<Event> Record(Stream on, EventPool& from);
  // Timed events cost more to record, so they have a pool of their own.
  std::shared_ptr<EventPool> events = std::make_shared<EventPool>(cudaEventDisableTiming);
  std::shared_ptr<EventPool> timed_events = std::make_shared<EventPool>(cudaEventDefault);
  std::array<OwnedStream, kStreamCount> streams_;
  std::unique_ptr<Backend> backend;  // after its streams, to be destroyed before them

 private:
  absl::Status EnablePeer();
  // Bytes per second of copies from memory of kind `from` to the device.
  absl::StatusOr<double> MeasureCopies(MemoryKind from);
  absl::StatusOr<void*> TakeHost(int64_t bytes, const std::string& call);
  absl::StatusOr<void*> TakeDevice(int gpu, int64_t bytes, const std::string& call);

  int index_;
  std::optional<int> peer_;
  mutable std::mutex failure_mutex_;
  absl::Status failed_;  // guarded by failure_mutex_
  std::atomic<bool> is_capturing_ = false;
  // Bytes that Allocate() took, rounded up as the driver does. Shared with buffers, which may
  // outlive the device.
  std::shared_ptr<int64_t> allocated_ = std::make_shared<int64_t>(0);
};

absl::Status CudaDevice::Impl::Open(CudaDeviceOptions options) {
  RETURN_IF_ERROR(CudaStatus(cudaSetDevice(index_), absl::StrCat("cudaSetDevice(", index_, ")")));
  ASSIGN_OR_RETURN(description, DescribeCudaDevice(index_));
  description.rules.Append(options.rules);
  int lowest = 0, highest = 0;  // the lowest is the default
  RETURN_IF_ERROR(CudaStatus(cudaDeviceGetStreamPriorityRange(&lowest, &highest),
                             "cudaDeviceGetStreamPriorityRange"));
  for (OwnedStream& stream : streams_) {
    const bool hurries = &stream == &streams_[static_cast<size_t>(Stream::kCollective)];
    ASSIGN_OR_RETURN(stream, NewStream(hurries ? highest : lowest));
  }
  ASSIGN_OR_RETURN(backend, MakeCudaBackend(stream(Stream::kCompute), std::move(options.kernels),
                                            options.engines));
  ASSIGN_OR_RETURN(description.copy_bandwidth, MeasureCopies(MemoryKind::kPinnedHost));
  if (peer_.has_value()) {
    RETURN_IF_ERROR(EnablePeer());
    ASSIGN_OR_RETURN(description.peer_bandwidth, MeasureCopies(MemoryKind::kPeer));
  }
  return absl::OkStatus();
}

// Enables direct copies between the GPUs, which are not staged on the host.
absl::Status CudaDevice::Impl::EnablePeer() {
  ASSIGN_OR_RETURN(const std::vector<int> peers, CudaPeersOf(index_));
  if (std::find(peers.begin(), peers.end(), *peer_) == peers.end()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "GPU ", index_, " cannot reach the memory of GPU ", *peer_, " (cudaDeviceCanAccessPeer)"));
  }
  const cudaError_t error = cudaDeviceEnablePeerAccess(*peer_, 0);
  if (error != cudaErrorPeerAccessAlreadyEnabled)
    return CudaStatus(error, absl::StrCat("cudaDeviceEnablePeerAccess(", *peer_, ")"));
  cudaGetLastError();  // another device of this process has the same peer
  return absl::OkStatus();
}

// The best rate of a few copies, because the first includes start-up time.
absl::StatusOr<double> CudaDevice::Impl::MeasureCopies(MemoryKind from) {
  constexpr int64_t kBytes = 32 * kMiB;
  ASSIGN_OR_RETURN(const Buffer source, Allocate(from, kBytes));
  ASSIGN_OR_RETURN(const Buffer device, Allocate(MemoryKind::kDevice, kBytes));
  const cudaStream_t on = stream(Stream::kH2d);
  cudaEvent_t begin = nullptr, end = nullptr;
  RETURN_IF_ERROR(CudaStatus(cudaEventCreate(&begin), "cudaEventCreate"));
  const std::unique_ptr<std::remove_pointer_t<cudaEvent_t>, cudaError_t (*)(cudaEvent_t)> own_begin(
      begin, cudaEventDestroy);
  RETURN_IF_ERROR(CudaStatus(cudaEventCreate(&end), "cudaEventCreate"));
  const std::unique_ptr<std::remove_pointer_t<cudaEvent_t>, cudaError_t (*)(cudaEvent_t)> own_end(
      end, cudaEventDestroy);
  float best_ms = std::numeric_limits<float>::max();
  for (int i = 0; i < 4; ++i) {
    RETURN_IF_ERROR(CudaStatus(cudaEventRecord(begin, on), "cudaEventRecord"));
    RETURN_IF_ERROR(
        CudaStatus(cudaMemcpyAsync(device.data(), source.data(), kBytes, cudaMemcpyDefault, on),
                   "cudaMemcpyAsync"));
    RETURN_IF_ERROR(CudaStatus(cudaEventRecord(end, on), "cudaEventRecord"));
    RETURN_IF_ERROR(CudaStatus(cudaEventSynchronize(end), "cudaEventSynchronize"));
    float ms = 0;
    RETURN_IF_ERROR(CudaStatus(cudaEventElapsedTime(&ms, begin, end), "cudaEventElapsedTime"));
    best_ms = std::min(best_ms, ms);
  }
  return static_cast<double>(kBytes) / (static_cast<double>(best_ms) * 1e-3);
}

absl::StatusOr<Buffer> CudaDevice::Impl::Allocate(MemoryKind kind, int64_t size_bytes) {
  RETURN_IF_ERROR(Enter());
  if (kind == MemoryKind::kPeer && !peer_.has_value()) {
    return absl::FailedPreconditionError(
        absl::StrCat("GPU ", index_, " was opened without a peer to allocate memory on"));
  }
  const int gpu = kind == MemoryKind::kPeer ? *peer_ : index_;
  const bool on_host = kind == MemoryKind::kPinnedHost;
  const std::string call = on_host
                               ? absl::StrCat("cudaHostAlloc(", size_bytes, " bytes)")
                               : absl::StrCat("cudaMalloc(", size_bytes, " bytes) on GPU ", gpu);
  if (size_bytes < 0) return absl::InvalidArgumentError(call);
  if (size_bytes > std::numeric_limits<int64_t>::max() - CudaDevice::kPageBytes)
    return absl::ResourceExhaustedError(call);
  // The driver allocates whole, aligned pages. Host memory gets extra bytes for alignment.
  const int64_t taken = on_host ? size_bytes + kAlignment
                                : RoundUp(std::max<int64_t>(size_bytes, 1), CudaDevice::kPageBytes);
  ASSIGN_OR_RETURN(void* const base,
                   on_host ? TakeHost(taken, call) : TakeDevice(gpu, taken, call));
  std::byte* const data = AlignUp(base);
  if (on_host) return Buffer(data, size_bytes, [base](void*) { cudaFreeHost(base); });
  // Only the device's own bytes are counted, not those of its peer.
  const std::shared_ptr<int64_t> counted =
      gpu == index_ ? allocated_ : std::make_shared<int64_t>(0);
  *counted += taken;
  Buffer buffer(data, size_bytes, [base, counted, taken](void*) {
    cudaFree(base);  // works for either GPU, whichever is current
    *counted -= taken;
  });
  if (data == base) return buffer;
  return absl::InternalError(absl::StrCat(call, ": not aligned to ", kAlignment, " bytes"));
}

absl::StatusOr<Event> CudaDevice::Impl::Record(Stream on, EventPool& from) {
  RETURN_IF_ERROR(Enter());
  ASSIGN_OR_RETURN(Event event, from.Take());
  RETURN_IF_ERROR(Keep(CudaStatus(
      cudaEventRecord(static_cast<cudaEvent_t>(event.get()), stream(on)), "cudaEventRecord")));
  return event;
}

absl::StatusOr<void*> CudaDevice::Impl::TakeHost(int64_t bytes, const std::string& call) {
  void* base = nullptr;
  const cudaError_t error = cudaHostAlloc(&base, static_cast<size_t>(bytes), cudaHostAllocDefault);
  RETURN_IF_ERROR(Granted(error, call));
  return base;
}

// GPU `gpu` is current only during the allocation.
absl::StatusOr<void*> CudaDevice::Impl::TakeDevice(int gpu, int64_t bytes,
                                                   const std::string& call) {
  void* base = nullptr;
  RETURN_IF_ERROR(Keep(CudaStatus(cudaSetDevice(gpu), absl::StrCat("cudaSetDevice(", gpu, ")"))));
  const absl::Status granted = Granted(cudaMalloc(&base, static_cast<size_t>(bytes)), call);
  RETURN_IF_ERROR(Enter());
  RETURN_IF_ERROR(granted);
  return base;
}

absl::StatusOr<int64_t> CudaDevice::Impl::LibraryBytes() {
  RETURN_IF_ERROR(Enter());
  ASSIGN_OR_RETURN(const int64_t used, UsedNow());
  return used - *allocated_;
}

CudaDevice::CudaDevice(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
CudaDevice::~CudaDevice() = default;

absl::StatusOr<std::unique_ptr<CudaDevice>> CudaDevice::Open(int index, CudaDeviceOptions options) {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error == cudaErrorInsufficientDriver)
    return absl::NotFoundError("there is no NVIDIA driver, or one that is too old for CUDA 13");
  if (error != cudaSuccess)
    return absl::NotFoundError(CudaStatus(error, "cudaGetDeviceCount").message());
  if (index < 0 || index >= count) {
    return absl::NotFoundError(absl::StrCat("no CUDA device ", index, ": there are ", count));
  }
  const std::optional<int> peer = options.peer;
  if (peer.has_value() && (*peer < 0 || *peer >= count)) {
    return absl::NotFoundError(absl::StrCat("no CUDA device ", *peer, ": there are ", count));
  }
  auto impl = std::make_unique<Impl>(index, peer);
  RETURN_IF_ERROR(impl->Open(std::move(options)));
  return std::unique_ptr<CudaDevice>(new CudaDevice(std::move(impl)));
}

const DeviceDescription& CudaDevice::description() const { return impl_->description; }
Backend& CudaDevice::backend() { return *impl_->backend; }

absl::StatusOr<Buffer> CudaDevice::Allocate(MemoryKind kind, int64_t size_bytes) {
  return impl_->Allocate(kind, size_bytes);
}

absl::StatusOr<int64_t> CudaDevice::UsedBytes() {
  RETURN_IF_ERROR(impl_->Enter());
  return UsedNow();
}

absl::StatusOr<std::optional<int64_t>> CudaDevice::LibraryBytes() { return impl_->LibraryBytes(); }

absl::Status CudaDevice::Copy(Stream stream, void* destination, const void* source,
                              int64_t size_bytes) {
  RETURN_IF_ERROR(impl_->Enter());
  if (size_bytes == 0) return absl::OkStatus();
  const cudaError_t error = cudaMemcpyAsync(destination, source, static_cast<size_t>(size_bytes),
                                            cudaMemcpyDefault, impl_->stream(stream));
  if (error == cudaSuccess) return absl::OkStatus();
  return impl_->Keep(CudaStatus(error, absl::StrCat("cudaMemcpyAsync(", std::string(Name(stream)),
                                                    ", ", size_bytes, " bytes)")));
}

absl::Status CudaDevice::CopyFromNchw(Stream stream, const float* nchw, const TensorSpec& spec,
                                      std::byte* stored) {
  RETURN_IF_ERROR(impl_->Enter());
  ASSIGN_OR_RETURN(const Event given, impl_->events->Take());
  const auto event = static_cast<cudaEvent_t>(given.get());
  RETURN_IF_ERROR(
      impl_->Keep(CudaStatus(cudaEventRecord(event, cudaStreamLegacy), "cudaEventRecord")));
  RETURN_IF_ERROR(Wait(stream, given));
  return impl_->Keep(
      CudaStatus(cuda::FromNchw(nchw, spec, stored, impl_->stream(stream)), "FromNchw"));
}

absl::StatusOr<Event> CudaDevice::Record(Stream stream) {
  return impl_->Record(stream, *impl_->events);
}
absl::StatusOr<Event> CudaDevice::RecordTime(Stream stream) {
  return impl_->Record(stream, *impl_->timed_events);
}

absl::StatusOr<double> CudaDevice::ElapsedUs(const Event& earlier, const Event& later) {
  RETURN_IF_ERROR(impl_->Enter());
  if (earlier == nullptr || later == nullptr)
    return absl::InvalidArgumentError("ElapsedUs: no event");
  float ms = 0;
  const cudaError_t error = cudaEventElapsedTime(&ms, static_cast<cudaEvent_t>(earlier.get()),
                                                 static_cast<cudaEvent_t>(later.get()));
  if (error == cudaSuccess) return 1e3 * static_cast<double>(ms);
  if (error != cudaErrorNotReady && error != cudaErrorInvalidResourceHandle)
    return impl_->Keep(CudaStatus(error, "cudaEventElapsedTime"));
  cudaGetLastError();  // an invalid query leaves the device usable
  if (error == cudaErrorNotReady)
    return absl::FailedPreconditionError("ElapsedUs: an event has not happened");
  return absl::InvalidArgumentError("ElapsedUs: an event without time");
}

absl::Status CudaDevice::Wait(Stream stream, const Event& event) {
  RETURN_IF_ERROR(impl_->Enter());
  if (event == nullptr) return absl::InvalidArgumentError("Wait: no event");
  return impl_->Keep(CudaStatus(
      cudaStreamWaitEvent(impl_->stream(stream), static_cast<cudaEvent_t>(event.get()), 0),
      "cudaStreamWaitEvent"));
}

absl::StatusOr<std::unique_ptr<Recording>> CudaDevice::Capture(
    absl::FunctionRef<absl::Status()> enqueue) {
  return impl_->Capture(enqueue);
}

absl::Status CudaDevice::Replay(const Recording& recording) {
  RETURN_IF_ERROR(impl_->Enter());
  return impl_->Keep(LaunchGraph(recording, impl_->stream(Stream::kCompute)));
}

absl::Status CudaDevice::Await(const Event& event) {
  RETURN_IF_ERROR(impl_->Enter());
  if (event == nullptr) return absl::InvalidArgumentError("Await: no event");
  RETURN_IF_ERROR(impl_->Keep(CudaStatus(
      cudaEventSynchronize(static_cast<cudaEvent_t>(event.get())), "cudaEventSynchronize")));
  return impl_->Failure();
}

absl::Status CudaDevice::Synchronize() {
  RETURN_IF_ERROR(impl_->Enter());
  for (int i = 0; i < kStreamCount; ++i) {
    RETURN_IF_ERROR(impl_->Keep(CudaStatus(
        cudaStreamSynchronize(impl_->stream(static_cast<Stream>(i))), "cudaStreamSynchronize")));
  }
  return impl_->Failure();
}

absl::StatusOr<void*> CudaDevice::Native(Stream stream) {
  RETURN_IF_ERROR(impl_->Enter());
  return impl_->stream(stream);
}

bool CudaDevice::HasHappened(const Event& event) {
  const bool is_current = impl_->Enter().ok();
  return is_current && cudaEventQuery(static_cast<cudaEvent_t>(event.get())) == cudaSuccess;
}

void CudaDevice::Fail(const absl::Status& error) { impl_->Fail(error); }

}  // namespace neap
