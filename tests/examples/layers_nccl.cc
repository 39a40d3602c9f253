// The examples in layers/collectives/nccl_*.h, which must compile where there is NCCL. See
// scripts/check_examples.py.
#include <chrono>

#include "neap/core/base/status_macros.h"
#include "neap/layers/collectives/nccl_comm.h"
#include "neap/layers/collectives/nccl_library.h"

namespace neap::header_examples::nccl {

// layers/collectives/nccl_comm.h
absl::Status Sum(const NcclLibrary* nccl, const ncclUniqueId& id, int rank, int ranks,
                 const float* from, float* to, size_t count, cudaStream_t stream) {
  NcclComm comm(*nccl, std::chrono::seconds(60));
  RETURN_IF_ERROR(comm.Open(id, rank, ranks));  // by all ranks
  RETURN_IF_ERROR(comm.Finish("ncclAllReduce", nccl->all_reduce(from, to, count, ncclFloat32,
                                                                ncclSum, comm.get(), stream)));
  return absl::OkStatus();
}

// layers/collectives/nccl_library.h
absl::Status FindId(ncclUniqueId& id) {
  ASSIGN_OR_RETURN(const NcclLibrary* nccl, LoadNccl());
  RETURN_IF_ERROR(nccl->Checked("ncclGetUniqueId", nccl->get_unique_id(&id)));
  return absl::OkStatus();
}

}  // namespace neap::header_examples::nccl
