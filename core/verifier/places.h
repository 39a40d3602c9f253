// The owners of the bytes of the arena at the action being checked. Private to the verifier.
//
// Regions in use are disjoint, with one exception: a tensor may be allocated exactly over another
// that the next compute action reads and replaces in place. From that action on, the new tensor
// owns the bytes; the old one must still be freed, and the region is in use until all tensors that
// share it are freed. The bytes for the incoming batch are in use all the time.
//
//   alloc x   alloc y   compute {y, x}   free x   alloc z   compute {z, y}   free y   free z
//   x holds   x holds   y holds          y holds  y holds   z holds          z holds  -
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "neap/core/plan/plan.h"
#include "neap/core/verifier/site.h"

namespace neap::verifier {

// The step that a compute action runs, and what it reads, which may differ between a recomputation
// and the first run.
struct PlannedRun {
  const PlanStep* step = nullptr;
  const std::vector<TensorId>* reads = nullptr;
};

class Places {
 public:
  Places(const Plan& plan, const Site& site)
      : plan_(plan), site_(site), tensors_(plan.tensors.size()) {}

  // Checks the bytes for the incoming batch, which nothing else may use. To be called before any
  // action.
  absl::Status CheckIncoming();

  // `next` is the run of the next compute action; nullopt if none follows or its step is unknown.
  absl::Status Alloc(const AllocAction& alloc, const std::optional<PlannedRun>& next);
  absl::Status Free(TensorId tensor);
  // The compute action's workspace, which is in use during that action only.
  absl::Status Workspace(const Region& region);

  // Whether the tensor is allocated and owns its bytes.
  absl::Status CheckHeld(TensorId tensor) const;
  // The compute action begins to write: in-place results become the owners of their bytes. Returns
  // the tensors that lost theirs.
  std::vector<TensorId> TakeOver();
  // The compute action runs with the tensors that are allocated now.
  void CountActivations();

  bool is_allocated(TensorId tensor) const { return tensors_[tensor.index()].region.has_value(); }
  bool is_shared(TensorId tensor) const;
  // The region of an allocated tensor.
  const Region& region(TensorId tensor) const { return *tensors_[tensor.index()].region; }
  int64_t peak_bytes() const { return peak_bytes_; }
  int64_t peak_activation_bytes() const { return peak_activation_bytes_; }

 private:
  enum class Hold : uint8_t { kYes, kPending, kLost };
  struct TensorPlace {
    std::optional<Region> region;
    Hold hold = Hold::kYes;
  };
  // Bytes in use by one tensor, or by several that replace each other in place.
  struct Block {
    Region region;
    int sharers = 1;
    TensorId latest;  // the tensor allocated last
    // The size of the tensor allocated first if its role is counted, otherwise 0.
    int64_t activation_bytes = 0;
  };
  using Blocks = std::map<int64_t, Block>;  // by offset

  absl::Status CheckWithinArena(const Region& region) const;
  absl::Status CheckRegion(const Region& region) const;
  Blocks::iterator FirstOverlap(const Region& region);
  absl::Status Share(const AllocAction& alloc, Block& block, const std::optional<PlannedRun>& next);

  const Plan& plan_;
  const Site& site_;
  std::vector<TensorPlace> tensors_;  // by TensorId
  Blocks blocks_;
  struct Replacement {
    TensorId written, read;
  };
  std::vector<Replacement> pending_;  // take effect at the next compute action
  int64_t peak_bytes_ = 0;
  int64_t activation_bytes_ = 0;
  int64_t peak_activation_bytes_ = 0;
};

}  // namespace neap::verifier
