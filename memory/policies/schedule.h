// A schedule: residency, workspaces and addresses that a policy decides together, in one walk over
// the runs, instead of the search's three passes (memory/search/plan_search.h). Policy::schedule
// makes it.
//
// moDNN needs this (memory/policies/modnn.h): which tensors it offloads depends on which of them
// are neighbours in memory, and which workspace a run gets on what would have to leave for it.
//
//   const std::optional<Schedule> schedule = policy.schedule(
//       {program, liveness, configurations, bytes_per_second, capacity_bytes});
//   const Region first = schedule->places[0];  // of schedule->residency.stays[0]
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "neap/core/base/region.h"
#include "neap/core/program/liveness.h"
#include "neap/core/program/program.h"
#include "neap/layers/conv/configuration.h"
#include "neap/memory/transfer/residency.h"

namespace neap {

struct ScheduleRequest {
  const Program& program;
  const Liveness& liveness;
  // By position: how the run can be done, in order of preference; never empty.
  const std::vector<absl::Span<const Configuration>>& configurations;
  double bytes_per_second = 0;  // of the link to the host, in each direction; 0: infinite
  int64_t capacity_bytes = 0;   // of the arena above persistent tensors
};

struct Schedule {
  Residency residency;
  std::vector<int64_t> workspaces;       // by position: the bytes that the run is sure to have
  std::vector<Region> places;            // by stay; above persistent tensors
  std::vector<Region> workspace_places;  // by position; of no bytes without a workspace
};

// Fills in residency.usage of a schedule that has all of the rest.
void CountUsage(const Program& program, Schedule& schedule);

}  // namespace neap
