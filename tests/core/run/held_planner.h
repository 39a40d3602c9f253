// A planner that a test stops in the middle of its work.
//
//   const auto planner = std::make_shared<HeldPlanner>(8 * kGiB);
//   ...SetBudgetAsync(8 * kGiB)...
//   planner->AwaitAsked();  // the planning thread is in Plan() now, until Release()
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <utility>

#include "neap/core/plan/forwarding_planner.h"
#include "neap/memory/planner.h"

namespace neap {

// The default planner with a budget (policy auto), which plans for one budget only once the test
// lets it, and counts the plans that it was asked for.
class HeldPlanner final : public ForwardingPlanner {
 public:
  explicit HeldPlanner(int64_t held_budget_bytes, PlannerOptions options = {})
      : ForwardingPlanner(PlannerFor(std::move(options))), held_budget_bytes_(held_budget_bytes) {}

  // Waits until the planner is asked for the budget.
  void AwaitAsked() const {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return is_asked_; });
  }
  void Release() const {
    const std::lock_guard lock(mutex_);
    is_released_ = true;
    changed_.notify_all();
  }
  int plans() const { return plans_; }

  absl::StatusOr<PlanResult> Plan(const Program& program, const PlanRequest& request,
                                  const DeviceDescription& device,
                                  EngineCatalog& catalog) const override {
    ++plans_;
    if (request.budget_bytes == held_budget_bytes_) Wait();
    return ForwardingPlanner::Plan(program, request, device, catalog);
  }

 private:
  void Wait() const {
    std::unique_lock lock(mutex_);
    is_asked_ = true;
    changed_.notify_all();
    changed_.wait(lock, [this] { return is_released_; });
  }

  const int64_t held_budget_bytes_;
  mutable std::mutex mutex_;  // guards is_asked_ and is_released_
  mutable std::condition_variable changed_;
  mutable bool is_asked_ = false;
  mutable bool is_released_ = false;
  mutable std::atomic<int> plans_ = 0;
};

}  // namespace neap
