// Overlap: shifts transfers so that they run while the device computes. A tensor that is offloaded
// keeps its bytes a little longer, so that the next tensor in those bytes need not wait for the
// copy. A tensor that is fetched gets its bytes a little earlier, so that its reader need not wait.
// Both only use bytes that are free.
//
//   ^ bytes        limit
//   |------------------------------------------
//   |   [conv1 ======)++++)        ((++[====== conv1      + kept until copied
//   |      offload: |-----|       prefetch: |--|           ( fetched early
//   +---------------------------------------------> runs
//
// Times come from the cost model; each copy engine works through its queue in order.
#pragma once

#include <vector>

#include "neap/memory/transfer/residency.h"

namespace neap {

// The most runs by which a stay is extended at either end. It keeps planning linear where copies
// lag far behind.
inline constexpr int kMaxOverlappedRuns = 256;

struct TransferTimes {
  std::vector<double> run_seconds;  // by position
  double bytes_per_second = 0;      // in each direction
};

// SuperNeurons 3.3.1: the backward of a CONV layer prefetches what the CONV layer before it needs.
// A tensor that is read earlier than that is fetched when it is read.
void FetchOneConvolutionAhead(const Program& program, const Liveness& liveness, const Usage& limit,
                              Residency& residency);

// Extends stays until their copies to the host are done, then begins fetched stays as early as the
// copies back take. Both stay within `limit`.
void OverlapTransfers(const Program& program, const TransferTimes& times, const Usage& limit,
                      Residency& residency);

}  // namespace neap
