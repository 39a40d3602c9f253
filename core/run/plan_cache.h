// A cache of plans: what was planned once for a program and a budget is not planned again.
//
// A graph that differs from iteration to iteration, or a budget that goes up and down, asks for a
// plan each time, and often for one that was there before. What must not happen is that two
// programs pass for one another, as a convolution with another stride or dilation would run with
// the wrong workspace: a hash only says where to look, and a plan is handed out where program,
// request and device are *equal* to those it was made for, by the same planner. Equal means the
// same object for planners, which never change (core/plan/planner.h); the key keeps it alive.
//
//   most recently used                      least
//   [resnet20 without 1.2] [resnet20] ... [resnet20 without 3.1]  ->  forgotten when one more comes
//
//   PlanCache cache(/*capacity=*/64);
//   const auto make = [&] { return planner->Plan(program, request, description, catalog); };
//   ASSIGN_OR_RETURN(PlanResult planned,
//                    cache.FindOrMake({program, planner, request, description}, make));
//   cache.stats().hits;
//
// A plan may hold engines that turn out not to build (ABORTED, core/step/kernel.h): Clear() then,
// as whatever else is kept may hold them too. One cache serves one catalog of engines.
// *Complexity*: FindOrMake is O(capacity + program). *Threads*: one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "neap/core/device/device.h"
#include "neap/core/plan/planner.h"
#include "neap/core/program/program.h"

namespace neap {

struct PlanCacheStats {
  int64_t hits = 0;
  int64_t misses = 0;  // failures among them
};

// All that decides a plan, but for the catalog of engines.
struct PlanKey {
  Program program;
  std::shared_ptr<const Planner> planner;
  PlanRequest request;
  DeviceDescription device;

  friend bool operator==(const PlanKey&, const PlanKey&) = default;
  // Leaves out what seldom tells two keys apart that agree in the rest.
  template <typename H>
  friend H AbslHashValue(H h, const PlanKey& key) {
    for (const ProgramLayer& layer : key.program.layers) h = H::combine(std::move(h), layer.name);
    return H::combine(std::move(h), key.program.net.batch, key.program.options.mode,
                      key.program.steps.size(), key.planner.get(), key.request.budget_bytes);
  }
};

class PlanCache {
 public:
  // Holds at most `capacity` plans, at least one, each with its program.
  explicit PlanCache(size_t capacity) : capacity_(capacity) {}

  using Make = absl::FunctionRef<absl::StatusOr<PlanResult>()>;
  // The plan that is kept for the key; otherwise what `make` gives, which is then kept. Errors:
  // those of `make`, which are not kept.
  absl::StatusOr<PlanResult> FindOrMake(PlanKey key, Make make);

  void Clear() { entries_.clear(); }
  size_t size() const { return entries_.size(); }
  const PlanCacheStats& stats() const { return stats_; }

 private:
  struct Entry {
    size_t hash = 0;
    PlanKey key;
    PlanResult planned;
  };

  size_t capacity_;
  std::list<Entry> entries_;  // the most recently used first
  PlanCacheStats stats_;
};

}  // namespace neap
