#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/device/device.h"
#include "neap/layers/collectives/nccl_comm.h"
#include "neap/layers/collectives/torchrun_ranks.h"
#include "neap/layers/cuda/cuda_device.h"

namespace neap {
namespace {

using Clock = std::chrono::steady_clock;

absl::StatusOr<std::string> Variable(const std::string& name) {
  const char* const text = std::getenv(name.c_str());
  if (text != nullptr) return std::string(text);
  return absl::InvalidArgumentError(
      absl::StrCat("torchrun's variable ", name, " is not in the environment"));
}

absl::StatusOr<int> Number(const std::string& name, int least) {
  ASSIGN_OR_RETURN(const std::string text, Variable(name));
  int number = 0;
  if (absl::SimpleAtoi(text, &number) && number >= least) return number;
  return absl::InvalidArgumentError(
      absl::StrCat("torchrun's variable ", name, " is '", text, "' in the environment"));
}

// Texts by NCCL on the stream `input`, in slots of equal sizes: the length, and then the text.
class NcclTexts final : public TextExchange {
 public:
  NcclTexts(CudaDevice& device, const NcclLibrary& nccl, int rank, int ranks,
            std::chrono::milliseconds timeout)
      : device_(device),
        nccl_(nccl),
        rank_(rank),
        ranks_(ranks),
        timeout_(timeout),
        comm_(nccl, timeout) {}
  ~NcclTexts() override {
    device_.Native(Stream::kInput).status().IgnoreError();  // for the end of `comm_`
  }

  absl::Status Open(const ncclUniqueId& id) {
    RETURN_IF_ERROR(device_.Native(Stream::kInput).status());
    return comm_.Open(id, rank_, ranks_);
  }

  int rank() const override { return rank_; }
  int ranks() const override { return ranks_; }

  absl::StatusOr<std::vector<std::string>> Exchange(std::string_view text,
                                                    Patience patience) override {
    absl::StatusOr<std::vector<std::string>> texts = Gather(text, TimeoutFor(patience, timeout_));
    if (!texts.ok()) {
      device_.Fail(texts.status());
      comm_.Abort();
    }
    return texts;
  }

 private:
  static constexpr size_t kUsualBytes = 4096;  // of a slot

  absl::StatusOr<std::vector<std::string>> Gather(std::string_view text,
                                                  std::chrono::milliseconds timeout) {
    RETURN_IF_ERROR(Reserve(kUsualBytes));
    RETURN_IF_ERROR(GatherSlots(text, kUsualBytes, timeout));
    size_t longest = 0;
    for (int rank = 0; rank < ranks_; ++rank)
      longest = std::max(longest, LengthIn(Slot(rank, kUsualBytes)));
    size_t bytes = kUsualBytes;
    if (longest > kUsualBytes - sizeof(uint64_t)) {
      bytes = (longest + sizeof(uint64_t) + kUsualBytes - 1) / kUsualBytes * kUsualBytes;
      RETURN_IF_ERROR(Reserve(bytes));
      RETURN_IF_ERROR(GatherSlots(text, bytes, timeout));
    }
    std::vector<std::string> texts;
    for (int rank = 0; rank < ranks_; ++rank) {
      const std::byte* const slot = Slot(rank, bytes);
      const size_t length = std::min(LengthIn(slot), bytes - sizeof(uint64_t));
      texts.emplace_back(reinterpret_cast<const char*>(slot + sizeof(uint64_t)), length);
    }
    return texts;
  }

  absl::Status Reserve(size_t slot_bytes) {
    const auto all = static_cast<int64_t>(slot_bytes) * ranks_;
    if (here_.size_bytes() >= all) return absl::OkStatus();
    ASSIGN_OR_RETURN(here_, device_.Allocate(MemoryKind::kPinnedHost, all));
    ASSIGN_OR_RETURN(there_, device_.Allocate(MemoryKind::kDevice, all));
    return absl::OkStatus();
  }

  // The slots of all ranks lie in `here_` then.
  absl::Status GatherSlots(std::string_view text, size_t bytes, std::chrono::milliseconds timeout) {
    const uint64_t length = text.size();
    std::memcpy(Slot(rank_, bytes), &length, sizeof(length));
    std::memcpy(Slot(rank_, bytes) + sizeof(length), text.data(),
                std::min(text.size(), bytes - sizeof(length)));
    const auto slot = static_cast<int64_t>(bytes);
    std::byte* const own = there_.data() + rank_ * slot;
    RETURN_IF_ERROR(device_.Copy(Stream::kInput, own, Slot(rank_, bytes), slot));
    ASSIGN_OR_RETURN(void* const stream, device_.Native(Stream::kInput));
    RETURN_IF_ERROR(comm_.Finish("ncclAllGather",
                                 nccl_.all_gather(own, there_.data(), bytes, ncclInt8, comm_.get(),
                                                  static_cast<cudaStream_t>(stream))));
    RETURN_IF_ERROR(device_.Copy(Stream::kInput, here_.data(), there_.data(), slot * ranks_));
    ASSIGN_OR_RETURN(const Event arrived, device_.Record(Stream::kInput));
    const Clock::time_point end = Clock::now() + timeout;
    while (!device_.HasHappened(arrived)) {
      RETURN_IF_ERROR(device_.Native(Stream::kInput).status());
      RETURN_IF_ERROR(comm_.Health());
      if (Clock::now() > end) return comm_.NoAnswer();
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
    return absl::OkStatus();
  }

  std::byte* Slot(int rank, size_t bytes) const {
    return here_.data() + static_cast<size_t>(rank) * bytes;
  }
  static size_t LengthIn(const std::byte* slot) {
    uint64_t length = 0;
    std::memcpy(&length, slot, sizeof(length));
    return length;
  }

  CudaDevice& device_;
  const NcclLibrary& nccl_;
  const int rank_, ranks_;
  const std::chrono::milliseconds timeout_;
  Buffer here_, there_;  // slots by rank
  NcclComm comm_;
};

class TorchrunRank final : public Membership {
 public:
  TorchrunRank(const NcclLibrary& nccl, std::chrono::milliseconds timeout)
      : nccl_(nccl), timeout_(timeout) {}

  absl::Status Read() {
    ASSIGN_OR_RETURN(ranks_, Number("WORLD_SIZE", 1));
    ASSIGN_OR_RETURN(rank_, Number("RANK", 0));
    ASSIGN_OR_RETURN(local_rank_, Number("LOCAL_RANK", 0));
    ASSIGN_OR_RETURN(local_ranks_, Number("LOCAL_WORLD_SIZE", 1));
    ASSIGN_OR_RETURN(const std::string address, Variable("MASTER_ADDR"));
    ASSIGN_OR_RETURN(const int port, Number("MASTER_PORT", 1));
    address_ = absl::StrCat(address, ":", port + 1);
    return absl::OkStatus();
  }

  int rank() const override { return rank_; }
  int ranks() const override { return ranks_; }
  int local_rank() const override { return local_rank_; }
  int local_ranks() const override { return local_ranks_; }

  absl::StatusOr<std::unique_ptr<Communicator>> Join(CpuDevice& /*device*/) override {
    return OnlyOnGpus();
  }
  absl::StatusOr<std::unique_ptr<TextExchange>> Texts(Device& device) override {
    auto* const gpu = dynamic_cast<CudaDevice*>(&device);
    if (gpu == nullptr) return OnlyOnGpus();
    // While this variable is set, NCCL's identifier is the address of rank 0, which all ranks
    // know. Other communicators get identifiers of their own.
    const bool is_given = std::getenv("NCCL_COMM_ID") != nullptr;
    if (!is_given) setenv("NCCL_COMM_ID", address_.c_str(), 1);
    ncclUniqueId id = {};
    absl::Status opened = nccl_.Checked("ncclGetUniqueId", nccl_.get_unique_id(&id));
    auto texts = std::make_unique<NcclTexts>(*gpu, nccl_, rank_, ranks_, timeout_);
    if (opened.ok()) opened = texts->Open(id);
    if (!is_given) unsetenv("NCCL_COMM_ID");
    RETURN_IF_ERROR(opened);
    return texts;
  }
  void Abandon() override {}  // torchrun ends the others when this process ends with an error

 private:
  static absl::Status OnlyOnGpus() {
    return absl::UnimplementedError(
        "ranks that torchrun has started train on GPUs (--device cuda:local); those on CPUs are "
        "started by mpirun");
  }

  const NcclLibrary& nccl_;
  const std::chrono::milliseconds timeout_;
  int rank_ = 0, ranks_ = 1, local_rank_ = 0, local_ranks_ = 1;
  std::string address_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Membership>> StartTorchrunRank(std::chrono::milliseconds timeout) {
  ASSIGN_OR_RETURN(const NcclLibrary* const nccl, LoadNccl());
  auto rank = std::make_unique<TorchrunRank>(*nccl, timeout);
  RETURN_IF_ERROR(rank->Read());
  return rank;
}

}  // namespace neap
