// Overlap: shifts transfers so that they run while the device computes. Tensors that leave keep
// their bytes a little longer, so that whoever gets those need not wait for the copy; tensors that
// come back get theirs a little earlier, so that whoever reads them need not wait. Both only into
// bytes that nobody has.
//
//   ^ bytes        limit
//   |------------------------------------------
//   |   [conv1 ======)++++)        ((++[====== conv1      + lingers, ( fetched early
//   |      offload: |-----|       prefetch: |--|
//   +---------------------------------------------> runs
//
// Times come from the cost model; both copy engines work through their queues in order.
#pragma once

#include <vector>

#include "neap/memory/transfer/residency.h"

namespace neap {

// Farther than this, in runs, copies are not thought to run ahead, nor behind: planning stays
// linear where they lag far behind.
inline constexpr int kMostOverlappedRuns = 256;

struct TransferTimes {
  std::vector<double> run_seconds;  // by position
  double bytes_per_second = 0;      // each way
};

// SuperNeurons (3.3.1): the backward of a CONV layer fetches what the CONV layer before it needs.
// Where a tensor is wanted earlier than that, it is fetched when it is wanted.
void FetchOneConvolutionAhead(const Program& program, const Liveness& liveness, const Usage& limit,
                              Residency& residency);

// Lets what leaves linger until its copy is done, then fetches as early as the copies take, both
// within `limit`.
void OverlapTransfers(const Program& program, const TransferTimes& times, const Usage& limit,
                      Residency& residency);

}  // namespace neap
