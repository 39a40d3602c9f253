#include "neap/layers/collectives/local_ranks.h"

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"
#include "neap/layers/collectives/cpu_communicator.h"
#include "neap/layers/collectives/rank_sums.h"

namespace neap {
namespace {

// A point at which ranks wait for each other.
class Meeting {
 public:
  explicit Meeting(int ranks)
      : here_(static_cast<size_t>(ranks)), left_(static_cast<size_t>(ranks)) {}

  // Blocks until all ranks have come. What they have written before can then be read.
  absl::Status Come(int rank, std::chrono::milliseconds timeout) {
    std::unique_lock lock(mutex_);
    here_[static_cast<size_t>(rank)] = true;
    RETURN_IF_ERROR(Missing());
    const int64_t round = round_;
    if (++come_ == static_cast<int>(here_.size())) {
      come_ = 0;
      here_.assign(here_.size(), false);
      ++round_;
      changed_.notify_all();
      return absl::OkStatus();
    }
    const bool done = changed_.wait_for(
        lock, timeout, [&] { return round_ != round || !Missing().ok() || !error_.ok(); });
    if (round_ != round) return absl::OkStatus();
    if (!done) error_.Update(absl::UnavailableError(Absent() + " does not answer"));
    error_.Update(Missing());
    changed_.notify_all();
    return error_;
  }

  void Leave(int rank) {
    const std::lock_guard lock(mutex_);
    left_[static_cast<size_t>(rank)] = true;
    changed_.notify_all();
  }

 private:
  // An error if a rank that has not come has left.
  absl::Status Missing() const {
    for (size_t rank = 0; rank < left_.size(); ++rank) {
      if (left_[rank] && !here_[rank])
        return absl::UnavailableError(absl::StrCat("rank ", rank, " has ended"));
    }
    return error_;
  }
  std::string Absent() const {
    const auto rank = std::find(here_.begin(), here_.end(), false) - here_.begin();
    return absl::StrCat("rank ", rank);
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<bool> here_, left_;  // by rank
  int come_ = 0;
  int64_t round_ = 0;
  absl::Status error_;
};

}  // namespace

struct LocalRanks::Group {
  Group(int ranks, std::chrono::milliseconds a_timeout)
      : timeout(a_timeout),
        sums(ranks),
        exchanges(ranks),
        pieces(static_cast<size_t>(ranks)),
        texts(static_cast<size_t>(ranks)) {}
  const std::chrono::milliseconds timeout;
  Meeting sums, exchanges;
  // Each rank's data for the others, by rank. A rank may still read when another has given up.
  std::vector<std::vector<float>> pieces;
  std::vector<std::string> texts;
};

class LocalRanks::Texts final : public TextExchange {
 public:
  Texts(int rank, std::shared_ptr<Group> group) : rank_(rank), group_(std::move(group)) {}

  int rank() const override { return rank_; }
  int ranks() const override { return static_cast<int>(group_->texts.size()); }

  absl::StatusOr<std::vector<std::string>> Exchange(std::string_view text,
                                                    Patience patience) override {
    const std::chrono::milliseconds timeout = TimeoutFor(patience, group_->timeout);
    group_->texts[static_cast<size_t>(rank_)] = std::string(text);
    RETURN_IF_ERROR(group_->exchanges.Come(rank_, timeout));
    std::vector<std::string> texts = group_->texts;
    RETURN_IF_ERROR(group_->exchanges.Come(rank_, timeout));  // before any rank writes another
    return texts;
  }

 private:
  const int rank_;
  const std::shared_ptr<Group> group_;
};

class LocalRanks::Rank final : public CpuCommunicator {
 public:
  Rank(int rank, std::shared_ptr<Group> group, CpuDevice& device)
      : CpuCommunicator(device, std::make_unique<Texts>(rank, group)), group_(std::move(group)) {}
  ~Rank() override {
    group_->sums.Leave(rank());
    group_->exchanges.Leave(rank());
    device().Synchronize().IgnoreError();
  }

 private:
  // The rank's data for the others.
  std::vector<float>& Piece() {
    std::vector<float>& own = group_->pieces[static_cast<size_t>(rank())];
    own.resize(kPieceValues);
    return own;
  }
  absl::Status Meet() { return group_->sums.Come(rank(), group_->timeout); }

  absl::Status SumParts(const std::vector<ShardedTensor>& bucket) override {
    std::vector<float>& own = Piece();
    sum_.resize(kPieceValues);
    ShardPieces pieces(bucket, kPieceValues * int64_t{sizeof(float)});
    while (pieces.Next()) {
      std::vector<size_t> begin = {0};  // by owner, in values
      for (const int bytes : pieces.bytes())
        begin.push_back(begin.back() + static_cast<size_t>(bytes) / sizeof(float));
      for (int owner = 0; owner < ranks(); ++owner) {
        float* const part = own.data() + begin[static_cast<size_t>(owner)];
        pieces.Pack(owner, reinterpret_cast<std::byte*>(part));
      }
      RETURN_IF_ERROR(Meet());
      const size_t first = begin[static_cast<size_t>(rank())];
      const size_t count = begin[static_cast<size_t>(rank()) + 1] - first;
      std::vector<const float*> parts;
      for (const std::vector<float>& piece : group_->pieces) parts.push_back(piece.data() + first);
      SumInOrder(parts, static_cast<int64_t>(count), sum_.data());
      RETURN_IF_ERROR(Meet());  // before any rank packs another piece
      pieces.Unpack(rank(), reinterpret_cast<const std::byte*>(sum_.data()));
    }
    return absl::OkStatus();
  }

  absl::Status Gather(const std::vector<ShardedTensor>& bucket) override {
    std::vector<float>& own = Piece();
    ShardPieces pieces(bucket, kPieceValues * int64_t{sizeof(float)});
    while (pieces.Next()) {
      pieces.Pack(rank(), reinterpret_cast<std::byte*>(own.data()));
      RETURN_IF_ERROR(Meet());
      for (int owner = 0; owner < ranks(); ++owner) {
        const float* const part = group_->pieces[static_cast<size_t>(owner)].data();
        if (owner != rank()) pieces.Unpack(owner, reinterpret_cast<const std::byte*>(part));
      }
      RETURN_IF_ERROR(Meet());  // before any rank packs another piece
    }
    return absl::OkStatus();
  }

  absl::Status Sum(const std::vector<ReduceBuffer>& bucket) override {
    std::vector<float>& own = Piece();
    sum_.resize(kPieceValues);
    Packing packing(bucket, kPieceValues);
    while (const int64_t count = packing.Pack(own.data())) {
      RETURN_IF_ERROR(Meet());
      std::vector<const float*> parts;
      for (const std::vector<float>& piece : group_->pieces) parts.push_back(piece.data());
      SumInOrder(parts, count, sum_.data());
      RETURN_IF_ERROR(Meet());  // before any rank packs another piece
      packing.Unpack(sum_.data());
    }
    return absl::OkStatus();
  }

  const std::shared_ptr<Group> group_;
  std::vector<float> sum_;  // of a piece
};

class LocalRanks::Member final : public Membership {
 public:
  Member(int rank, const std::shared_ptr<Group>& group) : group_(group), rank_(rank) {}
  int rank() const override { return rank_; }
  int ranks() const override { return static_cast<int>(group_->texts.size()); }
  int local_rank() const override { return rank_; }
  int local_ranks() const override { return ranks(); }
  absl::StatusOr<std::unique_ptr<Communicator>> Join(CpuDevice& device) override {
    return std::make_unique<Rank>(rank_, group_, device);
  }
  absl::StatusOr<std::unique_ptr<TextExchange>> Texts(Device& /*device*/) override {
    return std::make_unique<LocalRanks::Texts>(rank_, group_);
  }
  void Abandon() override {
    group_->sums.Leave(rank_);
    group_->exchanges.Leave(rank_);
  }

 private:
  const std::shared_ptr<Group> group_;
  const int rank_;
};

LocalRanks::LocalRanks(int ranks, std::chrono::milliseconds timeout)
    : group_(std::make_shared<Group>(ranks, timeout)) {}
LocalRanks::~LocalRanks() = default;

std::unique_ptr<Communicator> LocalRanks::Join(int rank, CpuDevice& device) {
  return std::make_unique<Rank>(rank, group_, device);
}
std::unique_ptr<Membership> LocalRanks::MembershipOf(int rank) {
  return std::make_unique<Member>(rank, group_);
}

}  // namespace neap
