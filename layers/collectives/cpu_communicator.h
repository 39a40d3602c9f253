// The common part of communicators of ranks on CPUs: a call enqueues work on the stream
// `collective` that blocks until all ranks have come. Private to the engines.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "neap/core/device/communicator.h"
#include "neap/layers/cpu/cpu_device.h"

namespace neap {

// *Ownership*: borrows the device. A derived class must wait for the stream before it ends.
class CpuCommunicator : public Communicator {
 public:
  CpuCommunicator(CpuDevice& device, std::unique_ptr<TextExchange> texts)
      : Communicator(std::move(texts)), device_(device) {}

  absl::Status AllReduce(absl::Span<const ReduceBuffer> tensors) final {
    return Enqueue(tensors, &CpuCommunicator::Sum);
  }
  absl::Status ReduceScatter(absl::Span<const ShardedTensor> tensors) final {
    return Enqueue(tensors, &CpuCommunicator::SumParts);
  }
  absl::Status AllGather(absl::Span<const ShardedTensor> tensors) final {
    return Enqueue(tensors, &CpuCommunicator::Gather);
  }

 protected:
  CpuDevice& device() const { return device_; }

 private:
  virtual absl::Status Sum(const std::vector<ReduceBuffer>& bucket) = 0;
  virtual absl::Status SumParts(const std::vector<ShardedTensor>& bucket) = 0;
  virtual absl::Status Gather(const std::vector<ShardedTensor>& bucket) = 0;

  template <typename Tensor>
  absl::Status Enqueue(absl::Span<const Tensor> tensors,
                       absl::Status (CpuCommunicator::*take)(const std::vector<Tensor>&)) {
    return device_.Call(Stream::kCollective,
                        [this, take, bucket = std::vector<Tensor>(tensors.begin(), tensors.end())] {
                          return (this->*take)(bucket);
                        });
  }

  CpuDevice& device_;
};

}  // namespace neap
