// The ranks of data parallelism that a command is one of, if mpirun has started it.
//
// Only rank 0 writes to the standard output and to files. Each rank reports its own errors, with
// its number.
//
//   ASSIGN_OR_RETURN(RankGroup ranks, RankGroup::Find(flags));
//   RETURN_IF_ERROR(ranks.Divide(batch));
//   ranks.images();  // of this rank
//   ASSIGN_OR_RETURN(const std::unique_ptr<Communicator> communicator, ranks.Join(*device));
//   training.communicator = communicator.get();  // null if it is alone
//   return ranks.Outcome(Train(training));
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "apps/cli/flags.h"
#include "neap/core/device/communicator.h"
#include "neap/core/device/device.h"
#include "neap/core/program/program.h"
#include "neap/layers/collectives/mpi_ranks.h"

namespace neap::apps {

struct RankFlags {
  std::vector<int64_t> split = {};  // the images of each rank; empty: even parts
  int64_t timeout_seconds = 60;

  // The flags refer to this object, which must not move.
  void AddTo(FlagSet& flags);
};

class RankGroup {
 public:
  // One rank if mpirun has not started the process. Silences the standard output of other ranks
  // than 0. Errors: those of MpiRanks::Start().
  static absl::StatusOr<RankGroup> Find(const RankFlags& flags);

  int rank() const { return mpi_ == nullptr ? 0 : mpi_->rank(); }
  int ranks() const { return mpi_ == nullptr ? 1 : mpi_->ranks(); }
  bool is_first() const { return rank() == 0; }

  // Divides the batch by the flags. Even parts differ by one image at most; the first are larger.
  // Errors: BadUsage() for a part without images, or parts that are not those of as many ranks or
  // not the whole batch.
  absl::Status Divide(int64_t whole_batch);
  int64_t images() const { return parts_[static_cast<size_t>(rank())]; }
  int64_t first_image() const;
  RankShare share() const;

  // Null for one rank. To be called by all ranks. *Ownership*: it borrows the device, and MPI from
  // this. Errors: UNIMPLEMENTED for a device that has no engine for sums over ranks; those of MPI.
  absl::StatusOr<std::unique_ptr<Communicator>> Join(Device& device);

  // The outcome of the rank. After an error, the other ranks are ended. An error that another rank
  // reports (IsOfAnotherRank()) is only an exit code.
  absl::StatusOr<int> Outcome(absl::StatusOr<int> outcome);

 private:
  std::vector<int64_t> split_;     // of the flags
  std::vector<int64_t> parts_;     // of the batch, by rank
  std::unique_ptr<MpiRanks> mpi_;  // null: alone
};

}  // namespace neap::apps
