// The parts of a plan search (memory/search/plan_search.h), each with one purpose:
//
//   Residencies      what is kept, moved and dropped under a memory limit
//   IterationTime    how long an iteration takes
//   TimeFloor        how long it takes at least, before its tensors are placed
//   OrderSet         in which orders steps may run
//   CandidateMaker   the placed candidates of an order under a limit
//
// With these, a Ladder has the limits of an order, a RungQueue those of all orders that are still
// to be tried, and SearchRounds the fastest candidate.
#pragma once

#include "neap/core/device/device.h"
#include "neap/core/plan/describe_program.h"
#include "neap/core/plan/plan.h"
#include "neap/core/program/program.h"
#include "neap/memory/planner_options.h"
#include "neap/memory/policies/policy.h"
#include "neap/memory/search/candidate_maker.h"
#include "neap/memory/search/iteration_time.h"
#include "neap/memory/search/order_set.h"
#include "neap/memory/search/residencies.h"
#include "neap/memory/search/time_floor.h"

namespace neap {

// *Ownership*: borrows the program, the options and the device. The parts borrow each other, so
// they stay where they are made.
struct PlanSearchParts {
  PlanSearchParts(const Program& program, const Policy& policy, const PlannerOptions& options,
                  const DeviceDescription& device)
      : program(program),
        policy(policy),
        options(options),
        device(device),
        residencies(program, options),
        times(options, device),
        floor(program, options, device, residencies, times),
        candidates(program, options, residencies, floor),
        orders(program, this->policy, options, device, residencies, floor) {}
  PlanSearchParts(const PlanSearchParts&) = delete;
  PlanSearchParts& operator=(const PlanSearchParts&) = delete;

  // A plan without actions, for IterationTime.
  Plan Scratch() const { return DescribeProgram(program, device); }

  const Program& program;
  const Policy policy;
  const PlannerOptions& options;
  const DeviceDescription& device;
  const Residencies residencies;
  const IterationTime times;
  const TimeFloor floor;
  const CandidateMaker candidates;
  OrderSet orders;
};

}  // namespace neap
