// A communicator: one rank's end of a group of ranks that train one network together, each on a
// device of its own, in one process or in several.
//
// All ranks call the same functions in the same order, each on a thread of its own. AllReduce(),
// ReduceScatter() and AllGather() enqueue: the sum is taken on the stream `collective` of the
// rank's device, after what that stream has waited for, when all ranks have reached it. (The first
// one may block until all ranks have called it.) Everything else blocks until then.
//
//   std::vector<ReduceBuffer> bucket = {{.data = conv1_grad, .count = 432},
//                                  {.data = bn1_grad, .count = 32}};
//   RETURN_IF_ERROR(device.Wait(Stream::kCollective, computed));
//   RETURN_IF_ERROR(communicator.AllReduce(bucket));
//   ASSIGN_OR_RETURN(const Event summed, device.Record(Stream::kCollective));
//
// The engines for ranks on CPUs are MPI and threads (layers/collectives); that for ranks on GPUs is
// NCCL (layers/collectives/nccl_ranks.h).
// *Threads*: one at a time. *Errors*: UNAVAILABLE, naming the rank if it is known, if another rank
// has ended or does not answer; those of the engine. After an error neither the communicator nor
// its device works any more.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace neap {

// fp32 values in the device's memory.
struct ReduceBuffer {
  float* data = nullptr;
  int64_t count = 0;
  float weight = 1;  // of this rank
  friend bool operator==(const ReduceBuffer&, const ReduceBuffer&) = default;
};

// A tensor in the device's memory of which each rank owns a part. The parts follow each other.
struct ShardedTensor {
  std::byte* data = nullptr;
  std::vector<int64_t> bytes = {};  // of each rank's part, by rank
  friend bool operator==(const ShardedTensor&, const ShardedTensor&) = default;
};

// The ranks as those that tell each other texts.
class TextExchange {
 public:
  virtual ~TextExchange() = default;
  virtual int rank() const = 0;
  virtual int ranks() const = 0;

  // How long Exchange() waits for the others: as long as for a sum, or for ranks that read or write
  // files meanwhile.
  enum class Patience : uint8_t { kUsual, kForFiles };
  static constexpr std::chrono::hours kForFiles{1};
  // The texts of all ranks, by rank.
  virtual absl::StatusOr<std::vector<std::string>> Exchange(
      std::string_view text, Patience patience = Patience::kUsual) = 0;
};

// Texts are exchanged by what has started the ranks, whatever sums.
class Communicator : public TextExchange {
 public:
  explicit Communicator(std::unique_ptr<TextExchange> texts) : texts_(std::move(texts)) {}
  int rank() const final { return texts_->rank(); }
  int ranks() const final { return texts_->ranks(); }
  absl::StatusOr<std::vector<std::string>> Exchange(std::string_view text,
                                                    Patience patience = Patience::kUsual) final {
    absl::StatusOr<std::vector<std::string>> texts = texts_->Exchange(text, patience);
    if (!texts.ok()) ExchangeFailed(texts.status());
    return texts;
  }

  // Every value becomes the sum of all ranks' values, each multiplied by its rank's weight, with
  // the same bits on all ranks. The spans have the same sizes on all ranks.
  virtual absl::Status AllReduce(absl::Span<const ReduceBuffer> tensors) = 0;
  // A rank's own parts, which hold fp32 values, become the sums of all ranks' values, with the bits
  // of AllReduce() on CPUs; its other parts are unspecified then. The parts have the same sizes on
  // all ranks, here and in AllGather().
  virtual absl::Status ReduceScatter(absl::Span<const ShardedTensor> tensors) = 0;
  // All parts become those of their owners.
  virtual absl::Status AllGather(absl::Span<const ShardedTensor> tensors) = 0;

 private:
  // The group has ended, so sums that wait for others wait in vain.
  virtual void ExchangeFailed(const absl::Status& /*error*/) {}

  std::unique_ptr<TextExchange> texts_;
};

}  // namespace neap
