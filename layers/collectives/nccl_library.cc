#include "neap/layers/collectives/nccl_library.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "neap/core/base/shared_library.h"
#include "neap/core/base/status_macros.h"

namespace neap {
namespace {

absl::StatusOr<NcclLibrary> Load() {
  ASSIGN_OR_RETURN(
      SharedLibrary library,
      SharedLibrary::Open("libnccl.so.2",
                          "NCCL was not found, which sums over GPUs (Debian package libnccl2, or "
                          "nvidia-nccl-cu13 of PyPI, with its folder in LD_LIBRARY_PATH)"));
  NcclLibrary loaded = {};
  library.Find("ncclGetErrorString", loaded.get_error_string);
  library.Find("ncclGetUniqueId", loaded.get_unique_id);
  library.Find("ncclCommInitRankConfig", loaded.comm_init_rank_config);
  library.Find("ncclCommGetAsyncError", loaded.comm_get_async_error);
  library.Find("ncclCommFinalize", loaded.comm_finalize);
  library.Find("ncclCommDestroy", loaded.comm_destroy);
  library.Find("ncclCommAbort", loaded.comm_abort);
  library.Find("ncclRedOpCreatePreMulSum", loaded.red_op_create_pre_mul_sum);
  library.Find("ncclGroupStart", loaded.group_start);
  library.Find("ncclGroupEnd", loaded.group_end);
  library.Find("ncclAllReduce", loaded.all_reduce);
  library.Find("ncclAllGather", loaded.all_gather);
  library.Find("ncclReduceScatter", loaded.reduce_scatter);
  library.Find("ncclReduce", loaded.reduce);
  library.Find("ncclBroadcast", loaded.broadcast);
  if (const absl::Status found = library.FoundAll(); !found.ok())
    return absl::NotFoundError(absl::StrCat(found.message(), "; it is older than NCCL 2.14"));
  return loaded;
}

}  // namespace

absl::Status NcclLibrary::Checked(std::string_view call, ncclResult_t result) const {
  if (result == ncclSuccess || result == ncclInProgress) return absl::OkStatus();
  const std::string message = absl::StrCat(std::string(call), ": ", get_error_string(result));
  const bool of_others = result == ncclRemoteError || result == ncclSystemError;
  return of_others ? absl::UnavailableError(message) : absl::InternalError(message);
}

absl::StatusOr<const NcclLibrary*> LoadNccl() {
  static const absl::StatusOr<NcclLibrary> library = Load();
  if (!library.ok()) return library.status();
  return &*library;
}

}  // namespace neap
