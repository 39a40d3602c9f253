#include "neap/layers/collectives/nccl_library.h"

#include <dlfcn.h>

#include <string>

#include "absl/strings/str_cat.h"

namespace neap {
namespace {

absl::StatusOr<NcclLibrary> Load() {
  void* const library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);  // never closed
  if (library == nullptr) {
    return absl::NotFoundError(
        absl::StrCat("NCCL was not found, which sums over GPUs (Debian package libnccl2, or "
                     "nvidia-nccl-cu13 of PyPI, with its folder in LD_LIBRARY_PATH): ",
                     dlerror()));
  }
  NcclLibrary loaded = {};
  std::string missing;
  const auto find = [&](const char* name, auto& function) {
    function = reinterpret_cast<std::decay_t<decltype(function)>>(dlsym(library, name));
    if (function == nullptr) absl::StrAppend(&missing, missing.empty() ? "" : ", ", name);
  };
  find("ncclGetErrorString", loaded.get_error_string);
  find("ncclGetUniqueId", loaded.get_unique_id);
  find("ncclCommInitRankConfig", loaded.comm_init_rank_config);
  find("ncclCommGetAsyncError", loaded.comm_get_async_error);
  find("ncclCommFinalize", loaded.comm_finalize);
  find("ncclCommDestroy", loaded.comm_destroy);
  find("ncclCommAbort", loaded.comm_abort);
  find("ncclRedOpCreatePreMulSum", loaded.red_op_create_pre_mul_sum);
  find("ncclGroupStart", loaded.group_start);
  find("ncclGroupEnd", loaded.group_end);
  find("ncclAllReduce", loaded.all_reduce);
  find("ncclAllGather", loaded.all_gather);
  find("ncclReduceScatter", loaded.reduce_scatter);
  find("ncclReduce", loaded.reduce);
  find("ncclBroadcast", loaded.broadcast);
  if (missing.empty()) return loaded;
  return absl::NotFoundError(
      absl::StrCat("libnccl.so.2 is older than NCCL 2.14, it has no ", missing));
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
