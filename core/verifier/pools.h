// Bytes that copies of tensors take outside the arena, on the host and on a peer. Private to the
// verifier.
//
// A copy lives from its offload until the last prefetch that reads it; one that none reads, until
// the next offload of the tensor replaces it, wherever that goes, or the plan ends. Those of
// tensors that are on the host between iterations live there always.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "neap/core/plan/plan.h"
#include "neap/core/verifier/site.h"

namespace neap::verifier {

class PoolCopies {
 public:
  PoolCopies(const Plan& plan, const Site& site);

  absl::Status Offload(const OffloadAction& offload);
  void Prefetch(TensorId tensor);
  int64_t peak_bytes(Pool pool) const { return of(pool).peak_bytes; }

 private:
  struct Total {
    const char* name = "";     // of the plan's field
    int64_t stated_bytes = 0;  // there
    int64_t bytes = 0;
    int64_t peak_bytes = 0;
  };
  const Total& of(Pool pool) const { return totals_[static_cast<size_t>(pool)]; }
  Total& of(Pool pool) { return totals_[static_cast<size_t>(pool)]; }

  const Plan& plan_;
  const Site& site_;
  std::array<Total, kPoolCount> totals_;  // by Pool
  // By action: a prefetch, and no other reads the same copy after it.
  std::vector<bool> is_last_read_;
  std::vector<std::optional<Pool>> alive_in_;  // by TensorId
};

}  // namespace neap::verifier
