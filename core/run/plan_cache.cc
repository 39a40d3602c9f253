#include "neap/core/run/plan_cache.h"

#include <algorithm>
#include <utility>

#include "absl/hash/hash.h"
#include "neap/core/base/status_macros.h"

namespace neap {

absl::StatusOr<PlanResult> PlanCache::FindOrMake(PlanKey key, Make make) {
  const size_t hash = absl::HashOf(key);
  const auto known = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) {
    return entry.hash == hash && entry.key == key;
  });
  if (known != entries_.end()) {
    ++stats_.hits;
    entries_.splice(entries_.begin(), entries_, known);
    return known->planned;
  }
  ++stats_.misses;
  ASSIGN_OR_RETURN(PlanResult planned, make());
  while (!entries_.empty() && entries_.size() >= capacity_) entries_.pop_back();
  entries_.push_front({hash, std::move(key), std::move(planned)});
  return entries_.front().planned;
}

}  // namespace neap
