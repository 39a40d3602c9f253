#include "neap/core/verifier/given.h"

#include <algorithm>
#include <iterator>

namespace neap::verifier {

void ByteSet::Add(const Region& region) {
  int64_t begin = region.offset;
  int64_t end = region.end();
  auto it = ends_.upper_bound(begin);
  if (it != ends_.begin() && std::prev(it)->second >= begin) --it;
  while (it != ends_.end() && it->first <= end) {
    begin = std::min(begin, it->first);
    end = std::max(end, it->second);
    it = ends_.erase(it);
  }
  ends_.emplace(begin, end);
}

bool ByteSet::Overlaps(const Region& region) const {
  const auto after = ends_.lower_bound(region.end());
  return after != ends_.begin() && std::prev(after)->second > region.offset;
}

Given::Given(const Plan& plan, const Site& site)
    : plan_(plan), site_(site), homes_(plan.tensors.size()), is_used_(plan.tensors.size()) {
  for (const PlanStep& step : plan.steps) {
    for (const auto* ids : {&step.reads, &step.writes, &step.accumulates, &step.rerun_reads}) {
      for (TensorId id : *ids) is_used_[id.index()] = true;
    }
  }
}

absl::StatusOr<bool> Given::Alloc(const AllocAction& alloc, bool shared) {
  std::optional<Region>& home = homes_[alloc.tensor.index()];
  if (home.has_value()) return false;
  home = alloc.region;
  const PlanTensor& tensor = plan_.tensors[alloc.tensor.index()];
  if (!IsGiven(tensor.role) || tensor.on_host) return false;
  return FirstAlloc(alloc, shared);
}

absl::StatusOr<bool> Given::FirstAlloc(const AllocAction& alloc, bool shared) {
  const auto fault = [this](std::string_view what) { return site_.Fault(PlanFault::kGiven, what); };
  if (has_computed_) {
    const bool persistent = IsPersistent(plan_.tensors[alloc.tensor.index()].role);
    if (!persistent && !is_used_[alloc.tensor.index()]) return false;
    return fault(
        "its value is there from the beginning, but has no place before the first compute action");
  }
  if (shared) {
    return fault("its value is there from the beginning, and so cannot take over another's bytes");
  }
  if (filled_.Overlaps(alloc.region)) {
    return fault("its value is there from the beginning, but so is another's in these bytes");
  }
  filled_.Add(alloc.region);
  return true;
}

void Given::Prefetch(const Region& region) {
  if (!has_computed_) filled_.Add(region);
}

}  // namespace neap::verifier
