// The example in layers/collectives/nccl_library.h, which must compile where there is NCCL. See
// scripts/check_examples.py.
#include "neap/core/base/status_macros.h"
#include "neap/layers/collectives/nccl_library.h"

namespace neap::header_examples::nccl {

// layers/collectives/nccl_library.h
absl::Status FindId(ncclUniqueId& id) {
  ASSIGN_OR_RETURN(const NcclLibrary* nccl, LoadNccl());
  RETURN_IF_ERROR(nccl->Checked("ncclGetUniqueId", nccl->get_unique_id(&id)));
  return absl::OkStatus();
}

}  // namespace neap::header_examples::nccl
