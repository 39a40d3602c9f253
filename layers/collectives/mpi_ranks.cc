#include "neap/layers/collectives/mpi_ranks.h"

#include <mpi.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <numeric>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"
#include "neap/layers/collectives/cpu_communicator.h"
#include "neap/layers/collectives/rank_sums.h"

namespace neap {
namespace {

using Clock = std::chrono::steady_clock;

absl::Status Checked(std::string_view call, int error) {
  if (error == MPI_SUCCESS) return absl::OkStatus();
  std::array<char, MPI_MAX_ERROR_STRING> text = {};
  int length = 0;
  MPI_Error_string(error, text.data(), &length);
  return absl::UnavailableError(
      absl::StrCat(std::string(call), ": ", std::string(text.data(), static_cast<size_t>(length))));
}

// A communicator of MPI's own for one thread, so that its calls do not meet those of another.
class Channel {
 public:
  Channel() = default;
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  absl::Status Open() {
    RETURN_IF_ERROR(Checked("MPI_Comm_dup", MPI_Comm_dup(MPI_COMM_WORLD, &comm_)));
    RETURN_IF_ERROR(
        Checked("MPI_Comm_set_errhandler", MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN)));
    MPI_Comm_rank(comm_, &rank_);
    MPI_Comm_size(comm_, &ranks_);
    return absl::OkStatus();
  }
  MPI_Comm comm() const { return comm_; }
  int rank() const { return rank_; }
  int ranks() const { return ranks_; }

  // Waits for a call that was begun, as long as the timeout allows. After an error, MPI may still
  // use the buffers of the call.
  absl::Status Finish(std::string_view call, int begun, MPI_Request& request,
                      std::chrono::milliseconds timeout) {
    absl::Status status = Checked(call, begun);
    const Clock::time_point end = Clock::now() + timeout;
    for (int done = 0; status.ok() && done == 0;) {
      status = Checked(call, MPI_Test(&request, &done, MPI_STATUS_IGNORE));
      if (done != 0 || !status.ok()) break;
      if (Clock::now() > end) {
        status =
            absl::UnavailableError(absl::StrCat("another rank does not answer within ",
                                                static_cast<double>(timeout.count()) / 1000, " s"));
      }
      std::this_thread::yield();
    }
    return status;
  }

 private:
  MPI_Comm comm_ = MPI_COMM_NULL;
  int rank_ = 0, ranks_ = 1;
};

class MpiTexts final : public TextExchange {
 public:
  explicit MpiTexts(std::chrono::milliseconds timeout) : timeout_(timeout) {}
  // The buffers of a call that has not ended are left to MPI.
  ~MpiTexts() override {
    if (failed_) new Buffers(std::move(buffers_));
  }
  absl::Status Open() { return channel_.Open(); }

  int rank() const override { return channel_.rank(); }
  int ranks() const override { return channel_.ranks(); }

  absl::StatusOr<std::vector<std::string>> Exchange(std::string_view text,
                                                    Patience patience) override {
    const std::chrono::milliseconds timeout = TimeoutFor(patience, timeout_);
    Buffers& use = buffers_;
    use.text = std::string(text);
    use.count = static_cast<int>(text.size());
    use.counts.assign(static_cast<size_t>(ranks()), 0);
    const auto finish = [&](std::string_view call, int begun, MPI_Request& request) {
      const absl::Status finished = channel_.Finish(call, begun, request, timeout);
      failed_ = failed_ || !finished.ok();
      return finished;
    };
    MPI_Request request = MPI_REQUEST_NULL;
    RETURN_IF_ERROR(finish("MPI_Iallgather",
                           MPI_Iallgather(&use.count, 1, MPI_INT, use.counts.data(), 1, MPI_INT,
                                          channel_.comm(), &request),
                           request));
    use.begins.clear();
    int total = 0;
    for (const int each : use.counts) {
      use.begins.push_back(total);
      total += each;
    }
    use.all.assign(static_cast<size_t>(total), '\0');
    RETURN_IF_ERROR(finish(
        "MPI_Iallgatherv",
        MPI_Iallgatherv(use.text.data(), use.count, MPI_CHAR, use.all.data(), use.counts.data(),
                        use.begins.data(), MPI_CHAR, channel_.comm(), &request),
        request));
    std::vector<std::string> texts;
    for (size_t rank = 0; rank < use.counts.size(); ++rank) {
      texts.push_back(use.all.substr(static_cast<size_t>(use.begins[rank]),
                                     static_cast<size_t>(use.counts[rank])));
    }
    return texts;
  }

 private:
  struct Buffers {
    std::string text, all;
    int count = 0;
    std::vector<int> counts, begins;
  };

  const std::chrono::milliseconds timeout_;
  Channel channel_;
  Buffers buffers_;
  bool failed_ = false;
};

class MpiCommunicator final : public CpuCommunicator {
 public:
  MpiCommunicator(CpuDevice& device, std::unique_ptr<TextExchange> texts,
                  std::chrono::milliseconds timeout)
      : CpuCommunicator(device, std::move(texts)), timeout_(timeout) {}
  // The buffers of a call that has not ended are left to MPI.
  ~MpiCommunicator() override {
    device().Synchronize().IgnoreError();
    if (!device().Record(Stream::kCollective).ok()) new Buffers(std::move(buffers_));
  }

  absl::Status Open() { return sums_.Open(); }

 private:
  struct Buffers {
    std::vector<float> own, parts, sum;
    std::vector<int> sent, sent_begins, received, received_begins;  // bytes, by rank
  };

  static std::vector<int> Begins(const std::vector<int>& bytes) {
    std::vector<int> begins;
    std::exclusive_scan(bytes.begin(), bytes.end(), std::back_inserter(begins), 0);
    return begins;
  }
  static std::byte* Bytes(std::vector<float>& values) {
    return reinterpret_cast<std::byte*>(values.data());
  }

  // Each rank sends each owner what it has of the owner's shards.
  absl::Status SumParts(const std::vector<ShardedTensor>& bucket) override {
    Buffers& use = buffers_;
    use.own.resize(kPieceValues);
    use.sum.resize(kPieceValues);
    ShardPieces pieces(bucket, kPieceValues * int64_t{sizeof(float)});
    while (pieces.Next()) {
      use.sent = pieces.bytes();
      use.sent_begins = Begins(use.sent);
      for (int owner = 0; owner < ranks(); ++owner)
        pieces.Pack(owner, Bytes(use.own) + use.sent_begins[static_cast<size_t>(owner)]);
      const int own_bytes = use.sent[static_cast<size_t>(rank())];
      const int64_t count = own_bytes / int64_t{sizeof(float)};
      use.received.assign(static_cast<size_t>(ranks()), own_bytes);
      use.received_begins = Begins(use.received);
      use.parts.resize(static_cast<size_t>(count * ranks()));
      MPI_Request request = MPI_REQUEST_NULL;
      RETURN_IF_ERROR(
          sums_.Finish("MPI_Ialltoallv",
                       MPI_Ialltoallv(use.own.data(), use.sent.data(), use.sent_begins.data(),
                                      MPI_BYTE, use.parts.data(), use.received.data(),
                                      use.received_begins.data(), MPI_BYTE, sums_.comm(), &request),
                       request, timeout_));
      std::vector<const float*> part_of_rank;
      for (int rank = 0; rank < ranks(); ++rank)
        part_of_rank.push_back(use.parts.data() + rank * count);
      SumInOrder(part_of_rank, count, use.sum.data());
      pieces.Unpack(rank(), Bytes(use.sum));
    }
    return absl::OkStatus();
  }

  absl::Status Gather(const std::vector<ShardedTensor>& bucket) override {
    Buffers& use = buffers_;
    use.own.resize(kPieceValues);
    use.parts.resize(kPieceValues);
    ShardPieces pieces(bucket, kPieceValues * int64_t{sizeof(float)});
    while (pieces.Next()) {
      use.received = pieces.bytes();
      use.received_begins = Begins(use.received);
      pieces.Pack(rank(), Bytes(use.own));
      MPI_Request request = MPI_REQUEST_NULL;
      RETURN_IF_ERROR(sums_.Finish(
          "MPI_Iallgatherv",
          MPI_Iallgatherv(use.own.data(), use.received[static_cast<size_t>(rank())], MPI_BYTE,
                          use.parts.data(), use.received.data(), use.received_begins.data(),
                          MPI_BYTE, sums_.comm(), &request),
          request, timeout_));
      for (int owner = 0; owner < ranks(); ++owner) {
        if (owner != rank())
          pieces.Unpack(owner, Bytes(use.parts) + use.received_begins[static_cast<size_t>(owner)]);
      }
    }
    return absl::OkStatus();
  }

  // A piece has as many values for each rank to sum.
  absl::Status Sum(const std::vector<ReduceBuffer>& bucket) override {
    const int64_t share = (kPieceValues + ranks() - 1) / ranks();
    const auto size = static_cast<size_t>(share * ranks());
    Buffers& use = buffers_;
    use.own.resize(size);
    use.parts.resize(size);
    use.sum.resize(static_cast<size_t>(share));
    std::vector<const float*> part_of_rank;
    Packing packing(bucket, kPieceValues);
    while (const int64_t packed = packing.Pack(use.own.data())) {
      const int64_t count = (packed + ranks() - 1) / ranks();
      part_of_rank.clear();
      for (int rank = 0; rank < ranks(); ++rank)
        part_of_rank.push_back(use.parts.data() + rank * count);
      MPI_Request request = MPI_REQUEST_NULL;
      const int each = static_cast<int>(count);
      RETURN_IF_ERROR(sums_.Finish("MPI_Ialltoall",
                                   MPI_Ialltoall(use.own.data(), each, MPI_FLOAT, use.parts.data(),
                                                 each, MPI_FLOAT, sums_.comm(), &request),
                                   request, timeout_));
      SumInOrder(part_of_rank, count, use.sum.data());
      RETURN_IF_ERROR(sums_.Finish("MPI_Iallgather",
                                   MPI_Iallgather(use.sum.data(), each, MPI_FLOAT, use.own.data(),
                                                  each, MPI_FLOAT, sums_.comm(), &request),
                                   request, timeout_));
      packing.Unpack(use.own.data());
    }
    return absl::OkStatus();
  }

  const std::chrono::milliseconds timeout_;
  Channel sums_;
  Buffers buffers_;
};

class Mpi final : public MpiRanks {
 public:
  explicit Mpi(std::chrono::milliseconds timeout) : timeout_(timeout) {}
  ~Mpi() override {
    if (started_ && !abandoned_) MPI_Finalize();
  }

  absl::Status Begin() {
    int allowed = MPI_THREAD_SINGLE;
    RETURN_IF_ERROR(Checked("MPI_Init_thread",
                            MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &allowed)));
    started_ = true;
    if (allowed < MPI_THREAD_MULTIPLE)
      return absl::UnavailableError("this MPI does not allow several threads");
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks_);
    if (ranks_ != RanksOfMpi().value_or(ranks_)) {
      return absl::UnavailableError(absl::StrCat("mpirun has started ", *RanksOfMpi(),
                                                 " ranks, but MPI finds ", ranks_,
                                                 "; is it the mpirun of another MPI?"));
    }
    MPI_Comm here = MPI_COMM_NULL;
    RETURN_IF_ERROR(Checked(
        "MPI_Comm_split_type",
        MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &here)));
    MPI_Comm_rank(here, &local_rank_);
    MPI_Comm_size(here, &local_ranks_);
    MPI_Comm_free(&here);
    return absl::OkStatus();
  }

  int rank() const override { return rank_; }
  int ranks() const override { return ranks_; }
  int local_rank() const override { return local_rank_; }
  int local_ranks() const override { return local_ranks_; }
  absl::StatusOr<std::unique_ptr<Communicator>> Join(CpuDevice& device) override {
    ASSIGN_OR_RETURN(std::unique_ptr<TextExchange> texts, Texts(device));
    auto communicator = std::make_unique<MpiCommunicator>(device, std::move(texts), timeout_);
    RETURN_IF_ERROR(communicator->Open());
    return communicator;
  }
  absl::StatusOr<std::unique_ptr<TextExchange>> Texts(Device& /*device*/) override {
    auto texts = std::make_unique<MpiTexts>(timeout_);
    RETURN_IF_ERROR(texts->Open());
    return texts;
  }
  void Abandon() override { abandoned_ = true; }

 private:
  const std::chrono::milliseconds timeout_;
  bool started_ = false, abandoned_ = false;
  int rank_ = 0, ranks_ = 1, local_rank_ = 0, local_ranks_ = 1;
};

}  // namespace

bool BuiltWithMpi() { return true; }

absl::StatusOr<std::unique_ptr<MpiRanks>> MpiRanks::Start(std::chrono::milliseconds timeout) {
  auto mpi = std::make_unique<Mpi>(timeout);
  RETURN_IF_ERROR(mpi->Begin());
  return mpi;
}

}  // namespace neap
