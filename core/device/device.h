// A device: memory, three streams and kernels. The executor is written against this and nothing
// else.
//
// Streams are in-order queues: compute, d2h (offload) and h2d (prefetch). They run concurrently;
// one sees another's work only after Wait() on a recorded event.
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

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "neap/core/step/kernel.h"

namespace neap {

enum class Stream : uint8_t { kCompute, kD2h, kH2d };
inline constexpr int kStreamCount = 3;
std::string_view Name(Stream stream);
absl::StatusOr<Stream> ParseStream(std::string_view text);

enum class MemoryKind : uint8_t { kDevice, kPinnedHost, kPeer };

// What the cost model and the user know of a device. Rates are measured where possible, nominal
// otherwise.
struct DeviceDescription {
  std::string name;               // "NVIDIA H200"
  std::string kind;               // "cuda", "cpu"
  int64_t memory_bytes = 0;       // all of it
  int64_t host_memory_bytes = 0;  // of the machine that it is in; 0: not known
  double fp32_flops = 0;          // per second
  double tensor_flops = 0;        // per second, tf32; equal to fp32_flops without tensor cores
  double memory_bandwidth = 0;    // bytes per second, read plus written
  double copy_bandwidth =
      0;  // bytes per second between pinned host and device memory, one direction
  double peer_bandwidth = 0;  // the same between a peer's memory and its own; 0: there is no peer
  int64_t page_bytes = 1;     // device memory is taken in multiples of this
  friend bool operator==(const DeviceDescription&, const DeviceDescription&) = default;
};

// Memory of a device, of its peer, or pinned on the host. *Ownership*: frees on destruction;
// movable. 4096-byte aligned.
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

// A point in a stream's work. Copyable; refers to nothing once every copy is gone.
using Event = std::shared_ptr<void>;

// *Threads*: one thread at a time. *Errors*: INTERNAL with the failing call; RESOURCE_EXHAUSTED
// from Allocate. Once a stream has failed, every later call returns that error.
class Device {
 public:
  virtual ~Device() = default;
  virtual const DeviceDescription& description() const = 0;
  // FAILED_PRECONDITION for memory of a peer where there is none.
  virtual absl::StatusOr<Buffer> Allocate(MemoryKind kind, int64_t size_bytes) = 0;
  // Bytes of device memory in use by this process for anything, as the driver (or the operating
  // system) sees it.
  virtual absl::StatusOr<int64_t> UsedBytes() = 0;
  // Those of them that Allocate() did not take: of the driver's context, of code, of libraries,
  // some of which load when a kernel first runs. nullopt where nobody tells them apart from the
  // process's own memory.
  virtual absl::StatusOr<std::optional<int64_t>> LibraryBytes() = 0;
  virtual Backend& backend() = 0;

  // Enqueues a copy between any two of: the arena, pinned host memory, the peer's memory.
  virtual absl::Status Copy(Stream stream, void* destination, const void* source,
                            int64_t size_bytes) = 0;
  virtual absl::StatusOr<Event> Record(Stream stream) = 0;
  // As Record(), and the event also tells when it happened: what is measured pays for it.
  virtual absl::StatusOr<Event> RecordTime(Stream stream) = 0;
  // From one to the other, on whatever streams, to within a microsecond; negative if `later` came
  // first. Errors, which leave the device as it was: INVALID_ARGUMENT unless both come from
  // RecordTime(); FAILED_PRECONDITION unless both have happened.
  virtual absl::StatusOr<double> ElapsedUs(const Event& earlier, const Event& later) = 0;
  virtual absl::Status Wait(Stream stream, const Event& event) = 0;
  // Blocks the caller until the event has happened.
  virtual absl::Status Await(const Event& event) = 0;
  // Blocks the caller until every stream is idle.
  virtual absl::Status Synchronize() = 0;
};

}  // namespace neap
