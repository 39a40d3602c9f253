// The examples in the headers of layers/collectives/, which must compile. See
// scripts/check_examples.py.
#include <chrono>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "neap/core/base/status_macros.h"
#include "neap/layers/collectives/local_ranks.h"
#include "neap/layers/collectives/mpi_ranks.h"
#include "neap/layers/collectives/nccl_ranks.h"
#include "neap/layers/collectives/rank_sums.h"
#include "neap/layers/collectives/torchrun_ranks.h"

namespace neap::header_examples::collectives {

// layers/collectives/local_ranks.h
void TrainOnThreads(const std::vector<std::unique_ptr<CpuDevice>>& devices,
                    const std::function<void(CpuDevice&, Communicator&)>& Train) {
  LocalRanks group(2);
  std::thread other([&] { Train(*devices[1], *group.Join(1, *devices[1])); });
  Train(*devices[0], *group.Join(0, *devices[0]));
  other.join();
}

// layers/collectives/membership.h
absl::Status BecomeMember(const std::unique_ptr<CpuDevice>& device) {
  ASSIGN_OR_RETURN(std::unique_ptr<Membership> member, MpiRanks::Start());
  if (member->ranks() > 1) {
    ASSIGN_OR_RETURN(std::unique_ptr<Communicator> communicator, member->Join(*device));
  }
  return absl::OkStatus();
}

// layers/collectives/mpi_ranks.h
absl::Status FindRank(const std::unique_ptr<CpuDevice>& device) {
  ASSIGN_OR_RETURN(std::unique_ptr<MpiRanks> mpi, MpiRanks::Start());
  ASSIGN_OR_RETURN(std::unique_ptr<Communicator> communicator, mpi->Join(*device));
  communicator->rank();  // 0 to 3
  return absl::OkStatus();
}

// layers/collectives/nccl_ranks.h
absl::Status SumOnGpu(const std::unique_ptr<Membership>& member) {
  ASSIGN_OR_RETURN(std::unique_ptr<CudaDevice> device, CudaDevice::Open(member->local_rank()));
  ASSIGN_OR_RETURN(std::unique_ptr<TextExchange> texts, member->Texts(*device));
  ASSIGN_OR_RETURN(std::unique_ptr<Communicator> communicator,
                   JoinByNccl(*device, std::move(texts), std::chrono::seconds(60)));
  return absl::OkStatus();
}

// layers/collectives/torchrun_ranks.h
absl::Status FindTorchrun() {
  if (RanksOfTorchrun().value_or(1) > 1) {
    ASSIGN_OR_RETURN(std::unique_ptr<Membership> member,
                     StartTorchrunRank(std::chrono::seconds(60)));
  }
  return absl::OkStatus();
}

// layers/collectives/rank_sums.h
void SumPieces(const std::vector<ReduceBuffer>& bucket, std::vector<float>& piece) {
  Packing packing(bucket, kPieceValues);
  while (packing.Pack(piece.data()) > 0) {  // each value multiplied by the rank's weight
    packing.Unpack(piece.data());           // after `piece` was summed over all ranks
  }
}

void ExchangePieces(const std::vector<ShardedTensor>& tensors, int rank, int ranks,
                    std::vector<std::byte>& own, const std::vector<const std::byte*>& parts) {
  ShardPieces pieces(tensors, kPieceValues * sizeof(float));
  while (pieces.Next()) {
    pieces.Pack(rank, own.data());  // the bytes of the piece that the rank owns, for the others
    for (int owner = 0; owner < ranks; ++owner) pieces.Unpack(owner, parts[owner]);
  }
}

}  // namespace neap::header_examples::collectives
