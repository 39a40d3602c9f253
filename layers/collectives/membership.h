// A rank's membership in a group of ranks, from the program that started them: MPI or torchrun for
// each process (layers/collectives/mpi_ranks.h, torchrun_ranks.h), a command for each of its
// threads (layers/collectives/local_ranks.h).
//
//   ASSIGN_OR_RETURN(std::unique_ptr<Membership> member, MpiRanks::Start());
//   if (member->ranks() > 1) {
//     ASSIGN_OR_RETURN(std::unique_ptr<Communicator> communicator, member->Join(*device));
//   }
//
// *Threads*: one at a time.
#pragma once

#include <algorithm>
#include <chrono>
#include <memory>

#include "absl/status/statusor.h"
#include "neap/core/device/communicator.h"
#include "neap/core/device/device.h"
#include "neap/layers/cpu/cpu_device.h"

namespace neap {

// How long Exchange() waits, if it usually waits as long as `usual`.
inline std::chrono::milliseconds TimeoutFor(TextExchange::Patience patience,
                                            std::chrono::milliseconds usual) {
  if (patience == TextExchange::Patience::kUsual) return usual;
  return std::max<std::chrono::milliseconds>(TextExchange::kForFiles, usual);
}

class Membership {
 public:
  virtual ~Membership() = default;
  virtual int rank() const = 0;
  virtual int ranks() const = 0;
  // The rank among those on the same machine, and their number.
  virtual int local_rank() const = 0;
  virtual int local_ranks() const = 0;
  // All ranks must call these, in the same order. *Ownership*: what is returned borrows the
  // membership and its device.
  virtual absl::StatusOr<std::unique_ptr<Communicator>> Join(CpuDevice& device) = 0;
  // Texts alone, for ranks on any devices.
  virtual absl::StatusOr<std::unique_ptr<TextExchange>> Texts(Device& device) = 0;
  // For use after a failure: the destructor does not wait for the others, which fail, too.
  virtual void Abandon() = 0;
};

}  // namespace neap
