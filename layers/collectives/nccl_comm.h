// A communicator of NCCL's, whose functions do not block.
//
// NCCL's functions begin their work and return (ncclConfig_t::blocking = 0), so a rank that does
// not answer cannot hold up others for longer than the timeout. Their end is polled. Only functions
// that end a communicator block, until its kernels have ended.
//
//   NcclComm comm(*nccl, std::chrono::seconds(60));
//   RETURN_IF_ERROR(comm.Open(id, rank, ranks));  // by all ranks
//   RETURN_IF_ERROR(comm.Finish("ncclAllReduce", nccl->all_reduce(from, to, count, ncclFloat32,
//                                                                 ncclSum, comm.get(), stream)));
//
// The GPU must be current on the calling thread. *Threads*: one at a time.
#pragma once

#include <chrono>
#include <string_view>

#include "absl/status/status.h"
#include "neap/layers/collectives/nccl_library.h"

namespace neap {

class NcclComm {
 public:
  NcclComm(const NcclLibrary& nccl, std::chrono::milliseconds timeout)
      : nccl_(nccl), timeout_(timeout) {}
  ~NcclComm() { Close(); }
  NcclComm(const NcclComm&) = delete;
  NcclComm& operator=(const NcclComm&) = delete;

  absl::Status Open(const ncclUniqueId& id, int rank, int ranks);
  ncclComm_t get() const { return comm_; }

  // Waits until a call that was begun has ended. Errors: UNAVAILABLE if that takes longer than the
  // timeout; those of NcclLibrary::Checked().
  absl::Status Finish(std::string_view call, ncclResult_t begun);
  // An error that has happened since.
  absl::Status Health();
  // The error that another rank does not answer.
  absl::Status NoAnswer() const;
  // Ends NCCL's kernels, which may wait for other ranks. Nothing can be called after that.
  void Abort();
  // Ends it when all that was begun has ended. Ranks of one process share some of NCCL's memory,
  // which the last one returns.
  void Close();

 private:
  const NcclLibrary& nccl_;
  const std::chrono::milliseconds timeout_;
  ncclComm_t comm_ = nullptr;
};

}  // namespace neap
