#include "neap/core/verifier/pools.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "neap/core/base/status_macros.h"

namespace neap::verifier {
namespace {

constexpr int64_t kMaxBytes = std::numeric_limits<int64_t>::max() / kBlockBytes * kBlockBytes;

int64_t CopyBytes(const PlanTensor& tensor) {
  const int64_t blocks = tensor.bytes / kBlockBytes + (tensor.bytes % kBlockBytes == 0 ? 0 : 1);
  return std::min(blocks, kMaxBytes / kBlockBytes) * kBlockBytes;
}

bool Knows(const Plan& plan, TensorId tensor) {
  return tensor.value >= 0 && tensor.index() < plan.tensors.size();
}

std::vector<bool> LastReads(const Plan& plan) {
  std::vector<bool> is_last_read(plan.actions.size());
  std::vector<bool> is_read_later(plan.tensors.size());
  for (size_t i = plan.actions.size(); i-- > 0;) {
    if (const auto* offload = std::get_if<OffloadAction>(&plan.actions[i])) {
      if (Knows(plan, offload->tensor)) is_read_later[offload->tensor.index()] = false;
    } else if (const auto* prefetch = std::get_if<PrefetchAction>(&plan.actions[i])) {
      if (!Knows(plan, prefetch->tensor)) continue;
      is_last_read[i] = !is_read_later[prefetch->tensor.index()];
      is_read_later[prefetch->tensor.index()] = true;
    }
  }
  return is_last_read;
}

}  // namespace

Pools::Pools(const Plan& plan, const Site& site)
    : plan_(plan),
      site_(site),
      pools_{PoolState{.peak_name = "host_peak_bytes",
                       .stated_peak_bytes = plan.host_peak_bytes,
                       .copies = {plan.host_resident_bytes,
                                  plan.host_pool_bytes - plan.host_resident_bytes}},
             PoolState{.peak_name = "peer_peak_bytes",
                       .stated_peak_bytes = plan.peer_peak_bytes,
                       .copies = {0, plan.peer_pool_bytes}}},
      is_last_read_(LastReads(plan)),
      copies_(plan.tensors.size()) {
  PoolState& host = of(Pool::kHost);
  for (const PlanTensor& tensor : plan.tensors) {
    if (!tensor.on_host()) continue;
    copies_[tensor.id.index()] = Copy{Pool::kHost, {*tensor.host_offset, CopyBytes(tensor)}};
    host.live_bytes += std::min(CopyBytes(tensor), kMaxBytes - host.live_bytes);
  }
  host.peak_bytes = host.live_bytes;
}

absl::Status Pools::CheckPlace(const Region& region, const Region& within,
                               std::string_view what) const {
  if (region.offset % kBlockBytes != 0) {
    return site_.Fault(PlanFault::kMisaligned,
                       absl::StrFormat("%s, %s, does not begin at a block of %d bytes", what,
                                       Site::Describe(region), kBlockBytes));
  }
  // These comparisons avoid sums, which could overflow.
  if (region.offset < within.offset || region.bytes > within.bytes ||
      region.offset - within.offset > within.bytes - region.bytes) {
    return site_.Fault(PlanFault::kOutOfPool,
                       absl::StrFormat("%s, %s, does not lie in the pool's %s", what,
                                       Site::Describe(region), Site::Describe(within)));
  }
  return absl::OkStatus();
}

absl::Status Pools::CheckResidents() const {
  std::map<int64_t, TensorId> by_offset;
  for (const PlanTensor& tensor : plan_.tensors) {
    if (!tensor.on_host()) continue;
    const Region& region = CopyOf(tensor.id).region;
    const std::string what = absl::StrCat("the place on the host of ", site_.Describe(tensor.id));
    RETURN_IF_ERROR(CheckPlace(region, {0, plan_.host_resident_bytes}, what));
    const auto [at, is_free] = by_offset.emplace(region.offset, tensor.id);
    const auto after = std::next(at);
    const bool overlaps_before =
        at != by_offset.begin() && CopyOf(std::prev(at)->second).region.end() > region.offset;
    const bool overlaps_after = after != by_offset.end() && after->first < region.end();
    if (is_free && !overlaps_before && !overlaps_after) continue;
    const auto other = !is_free ? at : overlaps_before ? std::prev(at) : after;
    return site_.Fault(PlanFault::kOverlap,
                       absl::StrCat(what, " overlaps that of ", site_.Describe(other->second)));
  }
  return absl::OkStatus();
}

absl::Status Pools::CheckDisjoint(const Copy& copy) const {
  const std::map<int64_t, TensorId>& live = of(copy.pool).live;
  auto other = live.upper_bound(copy.region.offset);
  if (other != live.begin()) {
    const auto before = std::prev(other);
    if (CopyOf(before->second).region.end() > copy.region.offset) other = before;
  }
  if (other == live.end() || other->first >= copy.region.end()) return absl::OkStatus();
  return site_.Fault(
      PlanFault::kOverlap,
      absl::StrFormat("%s of the %s's pool overlap %s, where the copy of %s is",
                      Site::Describe(copy.region), Name(copy.pool),
                      Site::Describe(CopyOf(other->second).region), site_.Describe(other->second)));
}

absl::Status Pools::OffloadResident(const OffloadAction& offload) {
  if (offload.pool != Pool::kHost) {
    return site_.Fault(PlanFault::kCopy,
                       "it is on the host between iterations, but is offloaded to the peer");
  }
  const int64_t offset = *plan_.tensors[offload.tensor.index()].host_offset;
  if (offload.offset == offset) return absl::OkStatus();
  return site_.Fault(
      PlanFault::kCopy,
      absl::StrFormat("it is at %d of the host's pool between iterations, but is offloaded to %d",
                      offset, offload.offset));
}

absl::Status Pools::Offload(const OffloadAction& offload) {
  const PlanTensor& tensor = plan_.tensors[offload.tensor.index()];
  if (tensor.on_host()) return OffloadResident(offload);
  const Copy copy = {offload.pool, {offload.offset, CopyBytes(tensor)}};
  RETURN_IF_ERROR(CheckPlace(copy.region, of(copy.pool).copies, "the place of its copy"));
  End(offload.tensor);  // the copy that this one replaces
  RETURN_IF_ERROR(CheckDisjoint(copy));
  return Begin(offload.tensor, copy);
}

void Pools::Prefetch(TensorId tensor) {
  if (!is_last_read_[*site_.action()] || plan_.tensors[tensor.index()].on_host()) return;
  End(tensor);
}

absl::Status Pools::Begin(TensorId tensor, const Copy& copy) {
  PoolState& pool = of(copy.pool);
  const int64_t bytes = copy.region.bytes;
  if (bytes > pool.stated_peak_bytes - pool.live_bytes) {
    return site_.Fault(
        PlanFault::kTotals,
        absl::StrFormat("%d bytes on the %s, on top of the %d already there, exceed %s, %d", bytes,
                        Name(copy.pool), pool.live_bytes, pool.peak_name, pool.stated_peak_bytes));
  }
  pool.live.emplace(copy.region.offset, tensor);
  pool.live_bytes += bytes;
  pool.peak_bytes = std::max(pool.peak_bytes, pool.live_bytes);
  copies_[tensor.index()] = copy;
  return absl::OkStatus();
}

void Pools::End(TensorId tensor) {
  std::optional<Copy>& copy = copies_[tensor.index()];
  if (!copy.has_value()) return;
  PoolState& pool = of(copy->pool);
  pool.live.erase(copy->region.offset);
  pool.live_bytes -= copy->region.bytes;
  copy.reset();
}

}  // namespace neap::verifier
