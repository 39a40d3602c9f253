// A cache of plans, so that the same program is not planned twice for the same budget.
//
// A graph that differs from iteration to iteration, or a budget that goes up and down, needs a new
// plan each time, often one that was made before. Two programs must never be confused: a
// convolution with another stride or dilation would run with the wrong workspace. A hash therefore
// only narrows the search, and a plan is returned only if program, request and device are *equal*
// to those for which the same planner made it. Planners are equal if they are the same object,
// since they are immutable (core/plan/planner.h); the key keeps the planner alive.
//
//   most recently used                      least recently used
//   [resnet20 without 1.2] [resnet20] ... [resnet20 without 3.1]  ->  removed when the cache is
//   full
//
//   PlanCache cache(/*capacity=*/64);
//   const auto make = [&] { return planner->Plan(program, request, description, catalog); };
//   ASSIGN_OR_RETURN(PlanResult planned,
//                    cache.FindOrMake({program, planner, request, description}, make));
//   cache.stats().hits;
//
// A plan may use an engine that cannot be built (ABORTED, core/step/kernel.h). Call Clear() then,
// since other plans in the cache may use it too. One cache serves one catalog of engines.
// *Complexity*: FindOrMake is O(capacity + program). *Threads*: any number at a time; they make
// plans at the same time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "neap/core/device/device.h"
#include "neap/core/plan/planner.h"
#include "neap/core/program/program.h"

namespace neap {

struct PlanCacheStats {
  int64_t hits = 0;
  int64_t misses = 0;  // including failures
};

// Everything that determines a plan except the catalog of engines.
struct PlanKey {
  Program program;
  std::shared_ptr<const Planner> planner;
  PlanRequest request;
  DeviceDescription device;

  friend bool operator==(const PlanKey&, const PlanKey&) = default;
  // Omits fields that seldom differ between keys that agree in the others.
  template <typename H>
  friend H AbslHashValue(H h, const PlanKey& key) {
    for (const ProgramLayer& layer : key.program.layers) h = H::combine(std::move(h), layer.name);
    return H::combine(std::move(h), key.program.net.batch, key.program.options.mode,
                      key.program.steps.size(), key.planner.get(), key.request.budget_bytes);
  }
};

class PlanCache {
 public:
  // The cache holds up to `capacity` plans, but at least one, each with its program.
  explicit PlanCache(size_t capacity) : capacity_(capacity) {}

  using Make = absl::FunctionRef<absl::StatusOr<PlanResult>()>;
  // The cached plan for the key; otherwise the result of `make`, which is then cached, unless
  // Clear() was called meanwhile. Errors: those of `make`, which are not cached.
  absl::StatusOr<PlanResult> FindOrMake(PlanKey key, Make make);

  void Clear();
  size_t size() const;
  PlanCacheStats stats() const;

 private:
  struct Entry {
    size_t hash = 0;
    PlanKey key;
    PlanResult planned;
  };

  std::list<Entry>::iterator Find(size_t hash, const PlanKey& key);

  const size_t capacity_;
  mutable std::mutex mutex_;  // guards the members below; not held while a plan is made
  std::list<Entry> entries_;  // the most recently used one first
  PlanCacheStats stats_;
  int64_t clearings_ = 0;  // calls of Clear() so far
};

}  // namespace neap
