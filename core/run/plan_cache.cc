#include "neap/core/run/plan_cache.h"

#include <algorithm>
#include <utility>

#include "absl/hash/hash.h"
#include "neap/core/base/status_macros.h"

namespace neap {

absl::StatusOr<PlanResult> PlanCache::FindOrMake(PlanKey key, Make make) {
  const size_t hash = absl::HashOf(key);
  std::unique_lock lock(mutex_);
  if (const auto known = Find(hash, key); known != entries_.end()) {
    ++stats_.hits;
    entries_.splice(entries_.begin(), entries_, known);
    return known->planned;
  }
  ++stats_.misses;
  const int64_t clearings = clearings_;
  lock.unlock();
  ASSIGN_OR_RETURN(PlanResult planned, make());
  lock.lock();
  // Another thread may have made the same plan, or found that an engine cannot be built.
  if (clearings != clearings_ || Find(hash, key) != entries_.end()) return planned;
  while (!entries_.empty() && entries_.size() >= capacity_) entries_.pop_back();
  entries_.push_front({hash, std::move(key), std::move(planned)});
  return entries_.front().planned;
}

std::list<PlanCache::Entry>::iterator PlanCache::Find(size_t hash, const PlanKey& key) {
  return std::find_if(entries_.begin(), entries_.end(),
                      [&](const Entry& entry) { return entry.hash == hash && entry.key == key; });
}

void PlanCache::Clear() {
  const std::lock_guard lock(mutex_);
  entries_.clear();
  ++clearings_;
}

size_t PlanCache::size() const {
  const std::lock_guard lock(mutex_);
  return entries_.size();
}

PlanCacheStats PlanCache::stats() const {
  const std::lock_guard lock(mutex_);
  return stats_;
}

}  // namespace neap
