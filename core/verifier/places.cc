#include "neap/core/verifier/places.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/str_format.h"
#include "neap/core/base/status_macros.h"

namespace neap::verifier {
namespace {

// The roles that peak_activation_bytes counts.
bool IsCounted(Role role) {
  return role == Role::kActivation || role == Role::kSaved || role == Role::kGradient;
}

}  // namespace

absl::Status Places::CheckIncoming() {
  if (!plan_.incoming_batch.has_value()) return absl::OkStatus();
  const Region& region = *plan_.incoming_batch;
  RETURN_IF_ERROR(CheckWithinArena(region));
  int64_t left = region.bytes;
  for (const PlanTensor& tensor : plan_.tensors) {
    if (tensor.role != Role::kInput && tensor.role != Role::kLabel) continue;
    if (tensor.bytes > left) {
      return site_.Fault(PlanFault::kTooSmall,
                         absl::StrFormat("%s for the incoming batch do not hold %s",
                                         Site::Describe(region), site_.Describe(tensor.id)));
    }
    left -= (tensor.bytes + kBlockBytes - 1) / kBlockBytes * kBlockBytes;
  }
  peak_bytes_ = region.end();
  return absl::OkStatus();
}

absl::Status Places::CheckRegion(const Region& region) const {
  RETURN_IF_ERROR(CheckWithinArena(region));
  if (!plan_.incoming_batch.has_value()) return absl::OkStatus();
  const Region& incoming = *plan_.incoming_batch;
  if (region.offset >= incoming.end() || incoming.offset >= region.end()) return absl::OkStatus();
  return site_.Fault(PlanFault::kOverlap,
                     absl::StrFormat("%s overlap %s, in use by the incoming batch",
                                     Site::Describe(region), Site::Describe(incoming)));
}

absl::Status Places::CheckWithinArena(const Region& region) const {
  if (region.offset % kBlockBytes != 0 || region.bytes % kBlockBytes != 0) {
    return site_.Fault(PlanFault::kMisaligned,
                       absl::StrFormat("%s are not whole blocks of %d bytes",
                                       Site::Describe(region), kBlockBytes));
  }
  // These comparisons avoid sums, which could overflow.
  if (region.offset < 0 || region.bytes <= 0 || region.bytes > plan_.arena_bytes ||
      region.offset > plan_.arena_bytes - region.bytes) {
    return site_.Fault(PlanFault::kOutOfArena,
                       absl::StrFormat("%s do not lie in the arena of %d bytes",
                                       Site::Describe(region), plan_.arena_bytes));
  }
  return absl::OkStatus();
}

Places::Blocks::iterator Places::FirstOverlap(const Region& region) {
  const auto after = blocks_.upper_bound(region.offset);
  if (after != blocks_.begin()) {
    const auto before = std::prev(after);
    if (before->second.region.end() > region.offset) return before;
  }
  return after != blocks_.end() && after->first < region.end() ? after : blocks_.end();
}

absl::Status Places::Alloc(const AllocAction& alloc, const std::optional<PlannedRun>& next) {
  RETURN_IF_ERROR(CheckRegion(alloc.region));
  const PlanTensor& tensor = plan_.tensors[alloc.tensor.index()];
  if (is_allocated(alloc.tensor)) {
    return site_.Fault(PlanFault::kDoubleAlloc,
                       absl::StrFormat("it has %s already", Site::Describe(region(alloc.tensor))));
  }
  if (alloc.region.bytes < tensor.bytes) {
    return site_.Fault(PlanFault::kTooSmall,
                       absl::StrFormat("a region of %d bytes for a tensor of %d",
                                       alloc.region.bytes, tensor.bytes));
  }
  TensorPlace& place = tensors_[alloc.tensor.index()];
  place.hold = Hold::kYes;
  if (const auto overlapped = FirstOverlap(alloc.region); overlapped != blocks_.end()) {
    RETURN_IF_ERROR(Share(alloc, overlapped->second, next));
  } else {
    const int64_t counted = IsCounted(tensor.role) ? tensor.bytes : 0;
    blocks_.emplace(alloc.region.offset, Block{alloc.region, 1, alloc.tensor, counted});
    activation_bytes_ += counted;
  }
  place.region = alloc.region;
  peak_bytes_ = std::max(peak_bytes_, alloc.region.end());
  return absl::OkStatus();
}

absl::Status Places::Share(const AllocAction& alloc, Block& block,
                           const std::optional<PlannedRun>& next) {
  const TensorId old = block.latest;
  const auto allows = [&] {
    if (!next.has_value() || !(block.region == alloc.region) || !is_allocated(old)) return false;
    const auto& pairs = next->step->in_place;
    return std::find(pairs.begin(), pairs.end(), std::pair{alloc.tensor, old}) != pairs.end();
  };
  if (!allows()) {
    return site_.Fault(
        PlanFault::kOverlap,
        absl::StrFormat(
            "%s overlap %s, in use by %s, which the next step does not replace in place",
            Site::Describe(alloc.region), Site::Describe(block.region), site_.Describe(old)));
  }
  if (std::find(next->reads->begin(), next->reads->end(), old) == next->reads->end()) {
    return site_.Fault(
        PlanFault::kInPlace,
        absl::StrFormat("the next compute action does not read %s", site_.Describe(old)));
  }
  ++block.sharers;
  block.latest = alloc.tensor;
  tensors_[alloc.tensor.index()].hold = Hold::kPending;
  pending_.push_back({alloc.tensor, old});
  return absl::OkStatus();
}

absl::Status Places::Free(TensorId tensor) {
  if (!is_allocated(tensor)) return site_.Fault(PlanFault::kNotAllocated, "it is not allocated");
  for (const Replacement& pair : pending_) {
    if (pair.written != tensor && pair.read != tensor) continue;
    return site_.Fault(PlanFault::kInPlace,
                       absl::StrFormat("%s has yet to replace %s in place",
                                       site_.Describe(pair.written), site_.Describe(pair.read)));
  }
  TensorPlace& place = tensors_[tensor.index()];
  const auto block = blocks_.find(place.region->offset);
  place.region = std::nullopt;
  if (--block->second.sharers == 0) {
    activation_bytes_ -= block->second.activation_bytes;
    blocks_.erase(block);
  }
  return absl::OkStatus();
}

absl::Status Places::Workspace(const Region& region) {
  RETURN_IF_ERROR(CheckRegion(region));
  if (const auto overlapped = FirstOverlap(region); overlapped != blocks_.end()) {
    return site_.Fault(
        PlanFault::kOverlap,
        absl::StrFormat("its workspace, %s, overlaps %s, in use by %s", Site::Describe(region),
                        Site::Describe(overlapped->second.region),
                        site_.Describe(overlapped->second.latest)));
  }
  peak_bytes_ = std::max(peak_bytes_, region.end());
  return absl::OkStatus();
}

absl::Status Places::CheckHeld(TensorId tensor) const {
  const TensorPlace& place = tensors_[tensor.index()];
  if (!place.region.has_value()) {
    return site_.Fault(PlanFault::kNotAllocated,
                       absl::StrFormat("%s is not allocated", site_.Describe(tensor)));
  }
  if (place.hold == Hold::kYes) return absl::OkStatus();
  const TensorId latest = blocks_.find(place.region->offset)->second.latest;
  return site_.Fault(PlanFault::kInPlace,
                     place.hold == Hold::kPending
                         ? absl::StrFormat("%s has yet to be written over what it replaces",
                                           site_.Describe(tensor))
                         : absl::StrFormat("the bytes of %s were taken over by %s",
                                           site_.Describe(tensor), site_.Describe(latest)));
}

std::vector<TensorId> Places::TakeOver() {
  std::vector<TensorId> lost;
  for (const Replacement& pair : pending_) {
    tensors_[pair.written.index()].hold = Hold::kYes;
    tensors_[pair.read.index()].hold = Hold::kLost;
    lost.push_back(pair.read);
  }
  pending_.clear();
  return lost;
}

void Places::CountActivations() {
  peak_activation_bytes_ = std::max(peak_activation_bytes_, activation_bytes_);
}

bool Places::is_shared(TensorId tensor) const {
  return is_allocated(tensor) && blocks_.find(region(tensor).offset)->second.sharers > 1;
}

}  // namespace neap::verifier
