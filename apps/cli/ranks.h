// The ranks of data parallelism in this process: itself, if mpirun or torchrun has started it or it
// is alone, or a thread for each of several devices (--device cuda:0,cuda:1).
//
// Only rank 0 prints results and writes files. Each process reports its own errors, with the
// number of the rank.
//
//   return RunRanks(flags, "cuda:0,cuda:1", [&](RankGroup& ranks) -> absl::StatusOr<int> {
//     RETURN_IF_ERROR(ranks.Divide(batch));
//     ranks.images();  // of this rank
//     ASSIGN_OR_RETURN(const std::unique_ptr<Device> device, OpenDevice(ranks.device()));
//     ASSIGN_OR_RETURN(const std::unique_ptr<Communicator> communicator, ranks.Join(*device));
//     training.communicator = communicator.get();  // null if it is alone
//     return Train(training);
//   });
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "apps/cli/flags.h"
#include "neap/core/device/communicator.h"
#include "neap/core/device/device.h"
#include "neap/core/program/program.h"
#include "neap/layers/collectives/membership.h"

namespace neap::apps {

struct RankFlags {
  std::vector<int64_t> split = {};  // the images of each rank; empty: even parts
  bool split_by_time = false;       // parts that make all ranks finish together
  int64_t timeout_seconds = 60;

  // The flags refer to this object, which must not move.
  void AddTo(FlagSet& flags);
};

class RankGroup {
 public:
  // `member` is null for one rank alone.
  RankGroup(std::string device, const RankFlags& flags, std::unique_ptr<Membership> member);

  int rank() const { return member_ == nullptr ? 0 : member_->rank(); }
  int ranks() const { return member_ == nullptr ? 1 : member_->ranks(); }
  int local_ranks() const { return member_ == nullptr ? 1 : member_->local_ranks(); }
  bool is_first() const { return rank() == 0; }
  // The name of the rank's device, as OpenDevice() takes it.
  const std::string& device() const { return device_; }

  // Divides the batch by the flags. Even parts differ by one image at most; the first are larger.
  // Errors: BadUsage() for a part without images, or parts that are not those of as many ranks or
  // not the whole batch.
  absl::Status Divide(int64_t whole_batch);
  // Divides it so that all ranks finish together (core/plan/batch_split.h). To be called by all
  // ranks. `predict` returns how many seconds this rank is predicted to take for images(), or
  // infinity if they do not fit. Errors: RESOURCE_EXHAUSTED if no split that was tried fits; those
  // of `predict` on any rank.
  absl::Status DivideByTime(int64_t whole_batch, Device& device,
                            const std::function<absl::StatusOr<double>()>& predict);
  const std::vector<int64_t>& parts() const { return parts_; }  // of the batch, by rank
  int64_t images() const { return parts_[static_cast<size_t>(rank())]; }
  int64_t first_image() const;
  RankShare share() const;

  // Null for one rank. To be called by all ranks. *Ownership*: it borrows the device, and this.
  // Errors: INVALID_ARGUMENT if the ranks' devices are not all GPUs or all CPUs; those of MPI and
  // NCCL.
  absl::StatusOr<std::unique_ptr<Communicator>> Join(Device& device);

  // The outcome of the rank. After an error, the other ranks are ended. An error that another rank
  // reports (IsOfAnotherRank()) is only an exit code.
  absl::StatusOr<int> Outcome(absl::StatusOr<int> outcome);

 private:
  std::string device_;
  RankFlags flags_;
  std::vector<int64_t> parts_;
  std::unique_ptr<Membership> member_;
};

// Calls `run` for each rank of this process. `devices` is "" for the default, a name that
// OpenDevice() takes, "cuda:local" for the GPU with the rank's number on its machine, or several
// names, with commas. Errors: BadUsage() for several names in a process that mpirun or torchrun has
// started; those of starting a rank; the first of `run` that does not follow from another rank's.
absl::StatusOr<int> RunRanks(const RankFlags& flags, const std::string& devices,
                             const std::function<absl::StatusOr<int>(RankGroup&)>& run);

}  // namespace neap::apps
