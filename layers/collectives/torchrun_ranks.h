// Ranks in processes that torchrun has started: `torchrun --nproc-per-node 8 --no-python neap ...`.
//
// torchrun tells each process its rank in the environment (RANK, WORLD_SIZE, LOCAL_RANK,
// LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT), and ends all if one ends with an error. The ranks
// are on GPUs: NCCL connects them, and carries texts as well as sums. It meets at the master's
// address, at the port after MASTER_PORT, which torchrun itself uses; or where NCCL_COMM_ID says.
//
//   if (RanksOfTorchrun().value_or(1) > 1) {
//     ASSIGN_OR_RETURN(std::unique_ptr<Membership> member,
//                      StartTorchrunRank(std::chrono::seconds(60)));
//   }
#pragma once

#include <chrono>
#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "neap/layers/collectives/membership.h"

namespace neap {

// How many ranks torchrun has started, this process among them, according to the environment;
// nullopt without torchrun.
std::optional<int> RanksOfTorchrun();

// Errors: INVALID_ARGUMENT for a variable that is missing or no number; NOT_FOUND if NCCL is not
// installed; UNIMPLEMENTED if neap was built without it. The membership refuses ranks on CPUs.
absl::StatusOr<std::unique_ptr<Membership>> StartTorchrunRank(std::chrono::milliseconds timeout);

}  // namespace neap
