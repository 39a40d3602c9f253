// The ranks of data parallelism that a command is one of, if mpirun has started it.
//
// Only rank 0 writes to the standard output and to files. Each rank reports its own errors, with
// its number.
//
//   ASSIGN_OR_RETURN(RankGroup ranks, RankGroup::Find());
//   batch = ranks.ImagesOf(batch);  // of the whole batch
//   RETURN_IF_ERROR(ranks.Join(*device));
//   training.communicator = ranks.communicator();  // null if it is alone
//   return ranks.Outcome(Train(training));
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "neap/core/device/communicator.h"
#include "neap/core/device/device.h"
#include "neap/core/program/program.h"
#include "neap/layers/collectives/mpi_ranks.h"

namespace neap::apps {

class RankGroup {
 public:
  // One rank if mpirun has not started the process. Silences the standard output of other ranks
  // than 0. Errors: those of MpiRanks::Start().
  static absl::StatusOr<RankGroup> Find();

  int rank() const { return mpi_ == nullptr ? 0 : mpi_->rank(); }
  int ranks() const { return mpi_ == nullptr ? 1 : mpi_->ranks(); }
  bool is_first() const { return rank() == 0; }

  // The batch is divided evenly; the first ranks have one image more if there is a remainder.
  int64_t ImagesOf(int64_t whole_batch) const;
  int64_t FirstImageOf(int64_t whole_batch) const;
  RankShare ShareOf(int64_t whole_batch) const;

  // To be called by all ranks. Errors: UNIMPLEMENTED for a device that has no engine for sums over
  // ranks; those of MPI.
  absl::Status Join(Device& device);
  // Ends what Join() has begun, before the device is closed.
  void Part() { communicator_.reset(); }
  Communicator* communicator() const { return communicator_.get(); }

  // The outcome of the rank. After an error, the other ranks are ended. Another rank's error, which
  // begins with "rank", is not reported again.
  absl::StatusOr<int> Outcome(absl::StatusOr<int> outcome);

 private:
  std::unique_ptr<MpiRanks> mpi_;  // null: alone
  std::unique_ptr<Communicator> communicator_;
};

}  // namespace neap::apps
