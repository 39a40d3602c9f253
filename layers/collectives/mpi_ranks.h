// Ranks in processes that MPI has started: `mpirun -n 4 PROGRAM`.
//
// MPI tells each process its rank, and carries the sums of ranks on CPUs. Those of ranks on GPUs
// are NCCL's (layers/collectives/nccl_ranks.h).
//
//   ASSIGN_OR_RETURN(std::unique_ptr<MpiRanks> mpi, MpiRanks::Start());
//   ASSIGN_OR_RETURN(std::unique_ptr<Communicator> communicator, mpi->Join(*device));
//   communicator->rank();  // 0 to 3
//
// Sums are taken in the order of the ranks, whatever algorithm MPI would choose: each rank sums a
// part of every piece (MPI_Ialltoall, MPI_Iallgather), so each value crosses the network twice:
//
//   rank 0  |a0|b0|    |a0|a1|     |a0 + a1|        |a|b|
//   rank 1  |a1|b1| -> |b0|b1|  -> |b0 + b1|  ->    |a|b|
//
// *Threads*: MPI must allow several (MPI_THREAD_MULTIPLE), because sums are taken on a thread of
// the device. *Errors*: UNIMPLEMENTED if neap was built without MPI; UNAVAILABLE if MPI fails or
// the other ranks do not answer in time.
#pragma once

#include <chrono>
#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "neap/layers/collectives/membership.h"

namespace neap {

bool BuiltWithMpi();

// How many ranks Open MPI's mpirun has started, this process among them, according to its
// environment; nullopt without mpirun.
std::optional<int> RanksOfMpi();

class MpiRanks : public Membership {
 public:
  // Once per process. The destructor waits until all ranks have come to theirs, unless Abandon()
  // was called: when the process then ends with an exit code that is not 0, mpirun ends the others.
  static absl::StatusOr<std::unique_ptr<MpiRanks>> Start(
      std::chrono::milliseconds timeout = std::chrono::seconds(60));
};

}  // namespace neap
