// The CPU as the most hostile device that meets the contract: streams run in any order that events
// allow, fresh memory holds NaN, and every buffer lies between guards.
//
// On a real device a forgotten wait goes unnoticed as long as copies happen to be fast. Here
// nothing runs when it is enqueued, not even kernels: work waits in one queue per stream until the
// caller waits for it. Then a seed decides which stream continues:
//
//   seeds 0..5    one fixed order of preference among compute, d2h and h2d each: the preferred
//                 stream runs until it has to wait, so that copies are as late or as early as
//                 possible
//   seeds 6..11   the same, but work that has begun ends only when no other stream can begin any
//   seeds 12..23  the same as 0..11, but the stream input comes first instead of last
//   others        the preference changes at random
//
//   queues    compute  f1 | f2 | wait for copy | f3 (writes where f1's result was)
//             d2h      wait for f1 | copy of f1's result
//   seed 0    f1 f2 copy f3     compute runs as long as it can; without its wait, f3's result
//                               would be copied
//   seed 2    f1 copy f2 f3     d2h goes first
//
// Between the beginning and the end of a kernel or a copy, the bytes that it overwrites hold NaN.
//
//   AdversarialDevice device(*cpu, seed);
//   ...                                // train a session on it, and on *cpu
//   CHECK(device.Fault() == "");
//
// A kernel therefore finds NaN in everything that it must not rely on: its workspace, and the
// operands that it overwrites, unless they share bytes with others. A copy or an operand that does
// not lie within one buffer is refused and is a fault, and so is a write to a guard.
//
// *Ownership*: borrows the CPU device. Buffers and kernels may outlive this device. *Threads*: one
// at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "tests/forwarding_device.h"

namespace neap {

class AdversarialDevice final : public ForwardingDevice {
 public:
  static constexpr uint32_t kFixedOrders = 24;  // seeds below it never change the preference

  AdversarialDevice(Device& cpu, uint32_t seed);
  ~AdversarialDevice() override;  // runs all queued work

  // Freeing a buffer first runs all queued work, as cudaFree() does.
  absl::StatusOr<Buffer> Allocate(MemoryKind kind, int64_t size_bytes) override;
  Backend& backend() override { return *backend_; }
  absl::Status Copy(Stream stream, void* destination, const void* source,
                    int64_t size_bytes) override;
  absl::Status CopyFromNchw(Stream stream, const float* nchw, const TensorSpec& spec,
                            std::byte* stored) override;
  absl::StatusOr<Event> Record(Stream stream) override;
  absl::StatusOr<Event> RecordTime(Stream stream) override;
  absl::StatusOr<double> ElapsedUs(const Event& earlier, const Event& later) override;
  absl::Status Wait(Stream stream, const Event& event) override;
  absl::Status Await(const Event& event) override;
  absl::Status Synchronize() override;

  // The first fault of buffers and their guards; empty if there was none.
  std::string Fault() const;
  // Kernels and copies that ran before one that had been enqueued earlier.
  int64_t overtakings() const;

 private:
  class Streams;
  class QueueingBackend;
  class QueuedKernel;

  std::shared_ptr<Streams> streams_;
  std::unique_ptr<Backend> backend_;
};

}  // namespace neap
