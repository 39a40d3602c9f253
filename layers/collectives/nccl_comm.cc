#include "neap/layers/collectives/nccl_comm.h"

#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"

namespace neap {

absl::Status NcclComm::Open(const ncclUniqueId& id, int rank, int ranks) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  const absl::Status joined = Finish("ncclCommInitRankConfig",
                                     nccl_.comm_init_rank_config(&comm_, ranks, id, rank, &config));
  if (!joined.ok()) Abort();
  return joined;
}

absl::Status NcclComm::Finish(std::string_view call, ncclResult_t begun) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point end = Clock::now() + timeout_;
  ncclResult_t state = begun;
  while (state == ncclInProgress) {
    if (Clock::now() > end) return NoAnswer();
    std::this_thread::yield();
    RETURN_IF_ERROR(
        nccl_.Checked("ncclCommGetAsyncError", nccl_.comm_get_async_error(comm_, &state)));
  }
  return nccl_.Checked(call, state);
}

absl::Status NcclComm::Health() {
  ncclResult_t state = ncclSuccess;
  RETURN_IF_ERROR(
      nccl_.Checked("ncclCommGetAsyncError", nccl_.comm_get_async_error(comm_, &state)));
  return nccl_.Checked("NCCL", state);
}

absl::Status NcclComm::NoAnswer() const {
  return absl::UnavailableError(absl::StrCat("another rank does not answer within ",
                                             static_cast<double>(timeout_.count()) / 1000, " s"));
}

void NcclComm::Abort() {
  if (comm_ != nullptr) nccl_.comm_abort(std::exchange(comm_, nullptr));
}

void NcclComm::Close() {
  if (comm_ == nullptr) return;
  if (!Finish("ncclCommFinalize", nccl_.comm_finalize(comm_)).ok()) return Abort();
  nccl_.comm_destroy(std::exchange(comm_, nullptr));
}

}  // namespace neap
