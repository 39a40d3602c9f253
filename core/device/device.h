// A device: memory, five streams and kernels. The executor depends on this interface only.
//
// Streams are in-order queues: compute, d2h (offload), h2d (prefetch) and collective (sums over the
// ranks of data parallelism, core/device/communicator.h) run the actions of a plan, and input
// brings the batch of the next iteration meanwhile. They run concurrently; one is ordered after the
// work of another only by Wait() on a recorded event.
//
//   ASSIGN_OR_RETURN(Buffer arena, device.Allocate(MemoryKind::kDevice, plan.arena_bytes));
//   RETURN_IF_ERROR(device.Copy(Stream::kH2d, arena.data(), pinned.data(), bytes));
//   ASSIGN_OR_RETURN(Event arrived, device.Record(Stream::kH2d));
//   RETURN_IF_ERROR(device.Wait(Stream::kCompute, arrived));  // later kernels see the bytes
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "neap/core/base/tensor.h"
#include "neap/core/device/gpu_properties.h"
#include "neap/core/step/kernel.h"
#include "neap/core/step/rewrite_rules.h"

namespace neap {

enum class Stream : uint8_t { kCompute, kD2h, kH2d, kCollective, kInput };
inline constexpr int kStreamCount = 5;
// The streams that run the actions of a plan.
inline constexpr Stream kPlanStreams[] = {Stream::kCompute, Stream::kD2h, Stream::kH2d,
                                          Stream::kCollective};
std::string_view Name(Stream stream);
// Errors: INVALID_ARGUMENT unless the text names a stream of plans.
absl::StatusOr<Stream> ParseStream(std::string_view text);

enum class MemoryKind : uint8_t { kDevice, kPinnedHost, kPeer };

// The facts about a device for the cost model and the user. Rates are measured if possible,
// otherwise nominal.
struct DeviceDescription {
  std::string name;               // "NVIDIA H200"
  std::string kind;               // "cuda", "cpu"
  int64_t memory_bytes = 0;       // all of it
  int64_t host_memory_bytes = 0;  // of the machine that it is in; 0 if unknown
  double fp32_flops = 0;          // per second
  double tf32_flops = 0;          // per second; equal to fp32_flops without tensor cores
  double half_flops = 0;          // per second, of 16-bit types whose products are added in fp32;
                                  // equal to fp32_flops without tensor cores for them
  // Per second, in bf16, where it is not that of fp16: tensor cores before Ampere lack the type.
  std::optional<double> bf16_flops = {};
  double memory_bandwidth = 0;      // bytes per second, read plus written
  double copy_bandwidth = 0;        // bytes per second, one way, between pinned host and its memory
  double peer_bandwidth = 0;        // bytes per second, one way, to a peer's memory; 0: no peer
  double copy_latency_seconds = 0;  // of each such copy, in addition to the time of its bytes
  // Relative slowdown of a kernel while a copy to the host or a peer runs, and while one from there
  // does; 0.02: 2%.
  double slowdown_by_copies_out = 0;
  double slowdown_by_copies_back = 0;
  // For sums over the ranks, of which the device is one: bytes of the tensors per second, and the
  // time of each sum in addition. 0 for a single rank.
  double collective_bandwidth = 0;
  double collective_latency_seconds = 0;
  // A sum over ranks keeps some multiprocessors for itself. Relative slowdown of a long kernel
  // meanwhile; and the time of a kernel that occupies the device about once, so that what finds no
  // multiprocessor takes as long again.
  double slowdown_by_sums = 0;
  double collective_interference_seconds = 0;
  // The types in which networks are rewritten so that batch norms become a part of 1x1 convolutions
  // (FusionStage::kFold): those in which its kernels are expected to gain from it.
  std::vector<DType> folding_types;
  // How networks are rewritten for its kernels. Not a part of its file (layers/devices): there,
  // they are those of its kind.
  RewriteRules rules = {};
  int64_t page_bytes = 1;  // device memory is allocated in multiples of this
  // The device's memory is not the host's: copies from there run beside kernels at little cost.
  bool has_own_memory = false;
  // Properties with which a library lists the GPU's engines while it is not present (layers/cuda).
  std::optional<GpuProperties> gpu = {};
  // The rate of arithmetic on tensors of this type.
  double FlopsOf(DType dtype) const;
  friend bool operator==(const DeviceDescription&, const DeviceDescription&) = default;
};

// Memory of a device, of its peer, or pinned memory of the host, aligned to 4096 bytes.
// *Ownership*: frees the memory on destruction; movable.
class Buffer {
 public:
  Buffer() = default;
  Buffer(void* data, int64_t size_bytes, std::function<void(void*)> free)
      : data_(static_cast<std::byte*>(data), std::move(free)), size_bytes_(size_bytes) {}
  std::byte* data() const { return data_.get(); }
  int64_t size_bytes() const { return size_bytes_; }

 private:
  std::unique_ptr<std::byte, std::function<void(void*)>> data_{nullptr, [](void*) {}};
  int64_t size_bytes_ = 0;
};

// A point in a stream's work. Copyable; released with its last copy.
using Event = std::shared_ptr<void>;

// Work on the streams of a device that was captured once and can be replayed by one call.
// *Ownership*: must not outlive the device and the memory, kernels and events that the work uses.
class Recording {
 public:
  virtual ~Recording() = default;
};

// *Threads*: one thread at a time, except that others may ask the backend for engines
// (core/step/kernel.h). *Errors*: INTERNAL with the failing call; RESOURCE_EXHAUSTED from Allocate.
// Once a stream has failed, every later call returns that error.
class Device {
 public:
  virtual ~Device() = default;
  virtual const DeviceDescription& description() const = 0;
  // Errors: FAILED_PRECONDITION for memory of a peer if there is no peer.
  virtual absl::StatusOr<Buffer> Allocate(MemoryKind kind, int64_t size_bytes) = 0;
  // Bytes of device memory in use by this process for any purpose, according to the driver (or the
  // operating system).
  virtual absl::StatusOr<int64_t> UsedBytes() = 0;
  // The part of UsedBytes() that Allocate() did not take: the driver's context, code and libraries,
  // some of which load when a kernel first runs. nullopt if it cannot be told apart from the
  // process's own memory.
  virtual absl::StatusOr<std::optional<int64_t>> LibraryBytes() = 0;
  virtual Backend& backend() = 0;

  // Enqueues a copy between any two of: the arena, pinned host memory, the peer's memory.
  virtual absl::Status Copy(Stream stream, void* destination, const void* source,
                            int64_t size_bytes) = 0;
  // Enqueues FromNchw() (core/base/layout.h) of values in this device's memory, such as those of
  // another library: after the work that the caller has enqueued on CUDA's legacy default stream.
  virtual absl::Status CopyFromNchw(Stream stream, const float* nchw, const TensorSpec& spec,
                                    std::byte* stored) = 0;
  virtual absl::StatusOr<Event> Record(Stream stream) = 0;
  // Like Record(), but the event also has a time, which costs some time on the stream.
  virtual absl::StatusOr<Event> RecordTime(Stream stream) = 0;
  // The time between two events on any streams, to within a microsecond; negative if `later` came
  // first. Errors, which leave the device usable: INVALID_ARGUMENT unless both come from
  // RecordTime(); FAILED_PRECONDITION unless both have happened.
  virtual absl::StatusOr<double> ElapsedUs(const Event& earlier, const Event& later) = 0;
  virtual absl::Status Wait(Stream stream, const Event& event) = 0;

  // Calls `enqueue` once, and records the work that it enqueues instead of running it. The work
  // begins and ends on the compute stream: all work on other streams waits for an event of that
  // stream first, and the compute stream waits for it in the end. Errors, which leave the device
  // usable: UNIMPLEMENTED if the device cannot record; those of `enqueue`, or of work that cannot
  // be recorded.
  virtual absl::StatusOr<std::unique_ptr<Recording>> Capture(
      absl::FunctionRef<absl::Status()> enqueue);
  // Enqueues the recorded work, a result of this device's Capture(), on the compute stream.
  virtual absl::Status Replay(const Recording& recording);

  // Blocks the caller until the event has happened.
  virtual absl::Status Await(const Event& event) = 0;
  // Blocks the caller until every stream is idle.
  virtual absl::Status Synchronize() = 0;
};

}  // namespace neap
