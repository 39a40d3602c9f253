// The pinned host pool: one block of pinned memory, in which every host copy of a plan has its
// place (SuperNeurons 3.3, the unified tensor pool's external memory).
//
// A plan says when a tensor leaves and comes back, not where it lies in between. A copy's place is
// its own from the offload to the last prefetch that reads it; then another's. Because the d2h
// stream fills places that the h2d stream has read, it must wait there, and the pool says for what:
//
//   actions   offload a ... prefetch a ... offload b      b's bytes were a's: d2h waits for the
//   place     [== a ==================)    [== b ==)      prefetch
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "neap/core/plan.h"

namespace neap {

// The places of tensors that are on the host between iterations: one after another, in the order of
// their ids, the same in every plan of a network. By TensorId; 0 for others.
struct HostHomes {
  std::vector<int64_t> offsets;
  int64_t bytes = 0;
};
HostHomes LayOutHostHomes(const Plan& plan);

// The places of all other copies.
struct HostPlace {
  int64_t action = 0;  // the offload's index in the plan
  TensorId tensor;
  int64_t offset = 0;
  std::optional<int64_t> wait_for = {};  // the prefetch, by index, that reads these bytes last
};

struct HostLayout {
  std::vector<HostPlace> places;  // in order of `action`
  int64_t bytes = 0;
};
HostLayout LayOutHostPool(const Plan& plan);

// The largest sum of host copies alive, in whole blocks: Plan::host_peak_bytes.
int64_t HostPeakBytes(const Plan& plan);

}  // namespace neap
