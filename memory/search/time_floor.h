// Times that no candidate of the plan search falls below. They are asked before a candidate is
// placed, which usually takes longer, and rule out most of them.
//
// Three bounds, each closer and more expensive than the one before:
//
//   LeastUs()      of an order of runs in so many bytes: where most would be in use if nothing were
//                  moved, what exceeds them must have left before, and come back after
//   copies         of a residency: all of them, one after another
//   a timeline     of a residency: every run has its fastest engine, and nothing waits for bytes
//
//   const TimeFloor floor(program, options, device, residencies, times);
//   floor.LeastUs(order, residencies.Capacity(12 * kGiB));
//   floor.IsTooSlow(order, residency, best_us, scratch);
//
// *Threads*: several may use one, each with a scratch plan of its own.
#pragma once

#include <cstdint>

#include "neap/core/device/device.h"
#include "neap/core/plan/plan.h"
#include "neap/core/program/program.h"
#include "neap/memory/planner_options.h"
#include "neap/memory/search/iteration_time.h"
#include "neap/memory/search/residencies.h"
#include "neap/memory/search/search_order.h"
#include "neap/memory/transfer/residency.h"

namespace neap {

class TimeFloor {
 public:
  // *Ownership*: borrows all but the device.
  TimeFloor(const Program& program, const PlannerOptions& options, const DeviceDescription& device,
            const Residencies& residencies, const IterationTime& times);

  // No candidate of the order takes less time in so many bytes above persistent tensors. Infinite
  // if more bytes have to move than the host and the peer have room for.
  double LeastUs(const SearchOrder& order, int64_t capacity_bytes) const;
  // No candidate with this residency takes less time: all its copies take that long.
  double CopiesUs(const Residency& residency) const;
  // Whether no candidate of the order with this residency takes less than `best_us`. `scratch`
  // describes the program, and has some actions afterwards.
  bool IsTooSlow(const SearchOrder& order, const Residency& residency, double best_us,
                 Plan& scratch) const;

  // The rate of the fastest link in one direction; 0 if it is infinite.
  double link_bytes_per_second() const { return link_bytes_per_second_; }

 private:
  double ApartUs(const SearchOrder& order, const Residency& residency, Plan& scratch) const;

  const Program& program_;
  const PlannerOptions& options_;
  const Residencies& residencies_;
  const IterationTime& times_;
  double link_bytes_per_second_;
};

}  // namespace neap
