#include "neap/layers/collectives/nccl_ranks.h"

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "neap/core/base/status_macros.h"
#include "neap/core/run/ranks.h"
#include "neap/layers/collectives/local_ranks.h"
#include "neap/layers/collectives/nccl_comm.h"
#include "neap/layers/collectives/nccl_library.h"

namespace neap {
namespace {

using Clock = std::chrono::steady_clock;

class NcclCommunicator final : public Communicator {
 public:
  NcclCommunicator(CudaDevice& device, std::unique_ptr<TextExchange> texts,
                   std::chrono::milliseconds timeout)
      : Communicator(std::move(texts)), device_(device), timeout_(timeout) {}

  ~NcclCommunicator() override {
    device_.Synchronize().IgnoreError();  // still watched
    StopWatching();
    device_.Native(Stream::kCollective).status().IgnoreError();  // for the end of `comm_`
  }

  absl::Status Open() {
    absl::StatusOr<const NcclLibrary*> library = LoadNccl();
    RETURN_IF_ERROR(Agree(library.status(), {}, this));
    nccl_ = *library;
    ASSIGN_OR_RETURN(const ncclUniqueId id, AgreeOnId());
    RETURN_IF_ERROR(device_.Native(Stream::kCollective).status());
    comm_.emplace(*nccl_, timeout_);
    RETURN_IF_ERROR(comm_->Open(id, rank(), ranks()));
    watch_ = std::thread([this] { Watch(); });
    return absl::OkStatus();
  }

  absl::Status AllReduce(absl::Span<const ReduceBuffer> tensors) override {
    return Guarded([&](cudaStream_t stream) -> absl::Status {
      std::vector<ncclRedOp_t> operations;  // made before the group, of which they cannot be a part
      for (const ReduceBuffer& tensor : tensors) {
        ASSIGN_OR_RETURN(operations.emplace_back(), OperationFor(tensor.weight));
      }
      return Begin([&] { return AddSums(tensors, operations, stream); });
    });
  }
  absl::Status ReduceScatter(absl::Span<const ShardedTensor> tensors) override {
    return Guarded([&](cudaStream_t stream) {
      return Begin([&] { return AddParts(tensors, Scatters(stream)); });
    });
  }
  absl::Status AllGather(absl::Span<const ShardedTensor> tensors) override {
    return Guarded([&](cudaStream_t stream) {
      return Begin([&] { return AddParts(tensors, Gathers(stream)); });
    });
  }

 private:
  // Sums that wait for a rank that has ended would wait until the timeout.
  void ExchangeFailed(const absl::Status& error) override {
    const std::lock_guard lock(mutex_);
    if (failed_.ok() && comm_.has_value()) Abort(error);
  }

  struct Sum {
    Event reached, ended;  // the stream has come to it, and has left it
    std::optional<Clock::time_point> waits_since;
  };

  // The identifier that rank 0 makes.
  absl::StatusOr<ncclUniqueId> AgreeOnId() {
    ncclUniqueId id = {};
    absl::Status made;
    if (rank() == 0) made = nccl_->Checked("ncclGetUniqueId", nccl_->get_unique_id(&id));
    RETURN_IF_ERROR(Agree(made, {}, this));
    ASSIGN_OR_RETURN(const std::vector<std::string> ids,
                     Exchange(std::string(id.internal, sizeof(id.internal))));
    if (ids[0].size() != sizeof(id.internal))
      return absl::InternalError("rank 0 has sent no identifier of NCCL's");
    std::memcpy(id.internal, ids[0].data(), sizeof(id.internal));
    return id;
  }

  // Calls `begin` with the stream. After an error the communicator has ended.
  template <typename Begin>
  absl::Status Guarded(const Begin& begin) {
    const std::lock_guard lock(mutex_);
    RETURN_IF_ERROR(failed_);
    ASSIGN_OR_RETURN(void* const stream, device_.Native(Stream::kCollective));
    const absl::Status begun = begin(static_cast<cudaStream_t>(stream));
    if (!begun.ok()) Abort(begun);
    return begun;
  }

  // Begins what `add` adds to a group of NCCL's, and watches it.
  template <typename Add>
  absl::Status Begin(const Add& add) {
    ASSIGN_OR_RETURN(Event reached, device_.Record(Stream::kCollective));
    RETURN_IF_ERROR(nccl_->Checked("ncclGroupStart", nccl_->group_start()));
    const absl::Status added = add();
    const ncclResult_t ended = nccl_->group_end();
    RETURN_IF_ERROR(added);
    RETURN_IF_ERROR(comm_->Finish("ncclGroupEnd", ended));
    ASSIGN_OR_RETURN(Event event, device_.Record(Stream::kCollective));
    running_.push_back({std::move(reached), std::move(event), std::nullopt});
    return absl::OkStatus();
  }

  absl::Status AddSums(absl::Span<const ReduceBuffer> tensors,
                       const std::vector<ncclRedOp_t>& operations, cudaStream_t stream) {
    absl::Status added;
    for (size_t i = 0; i < tensors.size(); ++i) {
      const ReduceBuffer& tensor = tensors[i];
      if (tensor.count == 0) continue;
      added.Update(nccl_->Checked(
          "ncclAllReduce",
          nccl_->all_reduce(tensor.data, tensor.data, static_cast<size_t>(tensor.count),
                            ncclFloat32, operations[i], comm_->get(), stream)));
    }
    return added;
  }

  // Calls for as many bytes of each rank, one after another, and for bytes of one rank. In place.
  struct PartCalls {
    std::function<absl::Status(std::byte* data, int64_t bytes_each)> of_all;
    std::function<absl::Status(std::byte* data, int64_t bytes, int owner)> of_one;
  };

  // Even parts go at once, so that all links are used in both directions.
  static absl::Status AddParts(absl::Span<const ShardedTensor> tensors, const PartCalls& calls) {
    absl::Status added;
    for (const ShardedTensor& tensor : tensors) {
      const int64_t each = EvenBytes(tensor);
      if (each > 0) added.Update(calls.of_all(tensor.data, each));
      std::byte* data = tensor.data;
      for (size_t owner = 0; owner < tensor.bytes.size(); ++owner) {
        const int64_t rest = tensor.bytes[owner] - each;
        if (rest > 0) added.Update(calls.of_one(data + each, rest, static_cast<int>(owner)));
        data += tensor.bytes[owner];
      }
    }
    return added;
  }

  // The bytes of all parts but the last one, which may be larger; 0 if they are not the same.
  static int64_t EvenBytes(const ShardedTensor& tensor) {
    const int64_t each = tensor.bytes.front();
    const bool even = std::all_of(tensor.bytes.begin(), tensor.bytes.end() - 1,
                                  [&](int64_t bytes) { return bytes == each; });
    return even && tensor.bytes.back() >= each ? each : 0;
  }

  PartCalls Scatters(cudaStream_t stream) const {
    const auto of_all = [this, stream](std::byte* data, int64_t bytes_each) {
      const auto count = static_cast<size_t>(bytes_each) / sizeof(float);
      std::byte* const own = data + rank() * bytes_each;
      return nccl_->Checked(
          "ncclReduceScatter",
          nccl_->reduce_scatter(data, own, count, ncclFloat32, ncclSum, comm_->get(), stream));
    };
    const auto of_one = [this, stream](std::byte* data, int64_t bytes, int owner) {
      const auto count = static_cast<size_t>(bytes) / sizeof(float);
      return nccl_->Checked("ncclReduce", nccl_->reduce(data, data, count, ncclFloat32, ncclSum,
                                                        owner, comm_->get(), stream));
    };
    return {.of_all = of_all, .of_one = of_one};
  }

  PartCalls Gathers(cudaStream_t stream) const {
    const auto of_all = [this, stream](std::byte* data, int64_t bytes_each) {
      return nccl_->Checked("ncclAllGather", nccl_->all_gather(data + rank() * bytes_each, data,
                                                               static_cast<size_t>(bytes_each),
                                                               ncclInt8, comm_->get(), stream));
    };
    const auto of_one = [this, stream](std::byte* data, int64_t bytes, int owner) {
      return nccl_->Checked(
          "ncclBroadcast", nccl_->broadcast(data, data, static_cast<size_t>(bytes), ncclInt8, owner,
                                            comm_->get(), stream));
    };
    return {.of_all = of_all, .of_one = of_one};
  }

  absl::StatusOr<ncclRedOp_t> OperationFor(float weight) {
    if (weight == 1) return ncclSum;
    const auto [known, is_new] = weighted_.try_emplace(weight, ncclSum);
    if (is_new) {
      RETURN_IF_ERROR(
          comm_->Finish("ncclRedOpCreatePreMulSum",
                        nccl_->red_op_create_pre_mul_sum(&known->second, &weight, ncclFloat32,
                                                         ncclScalarHostImmediate, comm_->get())));
    }
    return known->second;
  }

  void Watch() {
    constexpr std::chrono::milliseconds kPeriod(100);
    std::unique_lock lock(mutex_);
    while (!stops_.wait_for(lock, kPeriod, [this] { return stopped_ || !failed_.ok(); })) {
      if (const absl::Status status = Look(); !status.ok()) Abort(status);
    }
  }

  absl::Status Look() {
    RETURN_IF_ERROR(device_.Native(Stream::kCollective).status());
    RETURN_IF_ERROR(comm_->Health());
    while (!running_.empty() && device_.HasHappened(running_.front().ended)) running_.pop_front();
    if (running_.empty()) return absl::OkStatus();
    Sum& first = running_.front();
    if (!first.waits_since.has_value() && device_.HasHappened(first.reached))
      first.waits_since = Clock::now();
    const bool late = first.waits_since.has_value() && Clock::now() - *first.waits_since > timeout_;
    return late ? comm_->NoAnswer() : absl::OkStatus();
  }

  void Abort(const absl::Status& error) {
    failed_ = error;
    device_.Fail(error);
    comm_->Abort();
  }

  void StopWatching() {
    {
      const std::lock_guard lock(mutex_);
      stopped_ = true;
    }
    stops_.notify_all();
    if (watch_.joinable()) watch_.join();
  }

  CudaDevice& device_;
  const std::chrono::milliseconds timeout_;
  const NcclLibrary* nccl_ = nullptr;

  std::mutex mutex_;  // guards all that follows, except while no other thread has begun
  std::condition_variable stops_;
  bool stopped_ = false;
  absl::Status failed_;
  std::optional<NcclComm> comm_;
  std::map<float, ncclRedOp_t> weighted_;
  std::deque<Sum> running_;  // in their order
  std::thread watch_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Communicator>> JoinByNccl(CudaDevice& device,
                                                         std::unique_ptr<TextExchange> texts,
                                                         std::chrono::milliseconds timeout) {
  auto communicator = std::make_unique<NcclCommunicator>(device, std::move(texts), timeout);
  RETURN_IF_ERROR(communicator->Open());
  return communicator;
}

absl::StatusOr<std::vector<std::unique_ptr<Communicator>>> JoinByNccl(
    absl::Span<CudaDevice* const> devices, std::chrono::milliseconds timeout) {
  LocalRanks group(static_cast<int>(devices.size()), timeout);
  std::vector<std::unique_ptr<Communicator>> joined(devices.size());
  std::vector<absl::Status> ended(devices.size());
  std::vector<std::thread> threads;
  const auto join = [&](size_t rank) -> absl::Status {
    ASSIGN_OR_RETURN(auto texts, group.MembershipOf(static_cast<int>(rank))->Texts(*devices[rank]));
    ASSIGN_OR_RETURN(joined[rank], JoinByNccl(*devices[rank], std::move(texts), timeout));
    return absl::OkStatus();
  };
  for (size_t rank = 0; rank < devices.size(); ++rank)
    threads.emplace_back([&, rank] { ended[rank] = join(rank); });
  for (std::thread& thread : threads) thread.join();
  for (const absl::Status& status : ended) RETURN_IF_ERROR(status);
  return joined;
}

}  // namespace neap
