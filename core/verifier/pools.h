// The copies that own the bytes of the pools outside the arena, on the host and on a peer, at the
// action being checked. Private to the verifier.
//
// A copy owns its bytes from its offload until the last prefetch that reads it. A copy that no
// prefetch reads owns them until the next offload of the tensor, to any place, or the plan's end.
// Copies that own bytes at the same time are disjoint. Tensors that are on the host between
// iterations own theirs always, at the beginning of the host's pool, where no other copy may lie.
//
//   host's pool |  residents  |     copies           |
//               0             host_resident_bytes    host_pool_bytes
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "neap/core/plan/plan.h"
#include "neap/core/verifier/site.h"

namespace neap::verifier {

class Pools {
 public:
  Pools(const Plan& plan, const Site& site);

  // Checks the places of the residents. To be called before any action.
  absl::Status CheckResidents() const;

  absl::Status Offload(const OffloadAction& offload);
  void Prefetch(TensorId tensor);

  struct Copy {
    Pool pool = Pool::kHost;
    Region region;
  };
  // The copy of a tensor, which must have one. It is valid until the last prefetch that reads it.
  const Copy& CopyOf(TensorId tensor) const { return *copies_[tensor.index()]; }
  int64_t peak_bytes(Pool pool) const { return of(pool).peak_bytes; }

 private:
  struct PoolState {
    const char* peak_name = "";        // the plan's field for the peak
    int64_t stated_peak_bytes = 0;     // the value of that field
    Region copies;                     // the bytes in which copies may lie
    std::map<int64_t, TensorId> live;  // by offset
    int64_t live_bytes = 0;
    int64_t peak_bytes = 0;
  };
  const PoolState& of(Pool pool) const { return pools_[static_cast<size_t>(pool)]; }
  PoolState& of(Pool pool) { return pools_[static_cast<size_t>(pool)]; }

  absl::Status CheckPlace(const Region& region, const Region& within, std::string_view what) const;
  absl::Status CheckDisjoint(const Copy& copy) const;
  absl::Status OffloadResident(const OffloadAction& offload);
  absl::Status Begin(TensorId tensor, const Copy& copy);
  void End(TensorId tensor);

  const Plan& plan_;
  const Site& site_;
  std::array<PoolState, kPoolCount> pools_;  // by Pool
  // By action: whether it is the last prefetch that reads its copy.
  std::vector<bool> is_last_read_;
  std::vector<std::optional<Copy>> copies_;  // by TensorId
};

}  // namespace neap::verifier
