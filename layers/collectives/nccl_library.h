// The functions of NCCL, loaded when they are first needed.
//
// Programs start without NCCL, which is some 200 MB large and of use only where there are several
// GPUs. libnccl.so.2 is looked for like any library: in LD_LIBRARY_PATH and where the system
// installs libraries.
//
//   ASSIGN_OR_RETURN(const NcclLibrary* nccl, LoadNccl());
//   RETURN_IF_ERROR(nccl->Checked("ncclGetUniqueId", nccl->get_unique_id(&id)));
#pragma once

#include <nccl.h>

#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace neap {

struct NcclLibrary {
  decltype(&ncclGetErrorString) get_error_string;
  decltype(&ncclGetUniqueId) get_unique_id;
  decltype(&ncclCommInitRankConfig) comm_init_rank_config;
  decltype(&ncclCommGetAsyncError) comm_get_async_error;
  decltype(&ncclCommFinalize) comm_finalize;
  decltype(&ncclCommDestroy) comm_destroy;
  decltype(&ncclCommAbort) comm_abort;
  decltype(&ncclRedOpCreatePreMulSum) red_op_create_pre_mul_sum;
  decltype(&ncclGroupStart) group_start;
  decltype(&ncclGroupEnd) group_end;
  decltype(&ncclAllReduce) all_reduce;
  decltype(&ncclAllGather) all_gather;
  decltype(&ncclReduceScatter) reduce_scatter;
  decltype(&ncclReduce) reduce;
  decltype(&ncclBroadcast) broadcast;

  // OK also if the call goes on (ncclInProgress). Errors: UNAVAILABLE if another rank or the
  // network has failed, otherwise INTERNAL, with the call.
  absl::Status Checked(std::string_view call, ncclResult_t result) const;
};

// *Threads*: any. Errors: NOT_FOUND if NCCL is not installed, or lacks one of these functions.
absl::StatusOr<const NcclLibrary*> LoadNccl();

}  // namespace neap
