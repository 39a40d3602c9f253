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
    : plan_(plan), site_(site), first_places_(plan.tensors.size()) {}

absl::StatusOr<bool> Given::Alloc(const AllocAction& alloc, bool shared) {
  std::optional<Region>& first_place = first_places_[alloc.tensor.index()];
  if (first_place.has_value()) return false;
  first_place = alloc.region;
  const PlanTensor& tensor = plan_.tensors[alloc.tensor.index()];
  if (!IsGiven(tensor.role) || tensor.on_host()) return false;
  return FirstAlloc(alloc, shared);
}

absl::StatusOr<bool> Given::FirstAlloc(const AllocAction& alloc, bool shared) {
  const auto fault = [this](std::string_view what) { return site_.Fault(PlanFault::kGiven, what); };
  if (has_computed_) {
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
