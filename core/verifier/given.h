// Given values, which exist before the iteration, and their places. Private to the verifier.
//
// The batch and all persistent tensors except those on the host are in memory before the first
// action, each at the place of its first alloc, whether a step uses them or not. No two of them may
// therefore have the same bytes, nothing may write there before that alloc, which must come before
// the first compute action, and persistent tensors must be back there at the end, when the next
// iteration begins. A given tensor that is not persistent may have no place, and is not copied
// then.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "neap/core/plan/plan.h"
#include "neap/core/verifier/site.h"

namespace neap::verifier {

// A set of bytes, as disjoint intervals.
class ByteSet {
 public:
  void Add(const Region& region);
  bool Overlaps(const Region& region) const;

 private:
  std::map<int64_t, int64_t> ends_;  // by begin
};

class Given {
 public:
  Given(const Plan& plan, const Site& site);

  // Whether the tensor holds its given value after this alloc. If `shared`, its bytes belong to
  // another tensor until that one is replaced.
  absl::StatusOr<bool> Alloc(const AllocAction& alloc, bool shared);
  void Compute() { has_computed_ = true; }
  void Prefetch(const Region& region);

  // nullopt for a tensor that has not been allocated yet.
  const std::optional<Region>& first_place(TensorId tensor) const {
    return first_places_[tensor.index()];
  }

 private:
  absl::StatusOr<bool> FirstAlloc(const AllocAction& alloc, bool shared);

  const Plan& plan_;
  const Site& site_;
  std::vector<std::optional<Region>> first_places_;  // by TensorId
  ByteSet filled_;                                   // bytes filled before the first compute action
  bool has_computed_ = false;
};

}  // namespace neap::verifier
