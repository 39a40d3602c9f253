// The programs of a network in the sizes in which it is trained (Graph::Sizes()). Private to the
// session.
//
// A size may have the batch that fills the budget: the largest one whose plan without a budget has
// a peak within it. Nothing is moved or rebuilt then, so the size is trained as fast as its kernels
// are. The peak grows with the batch, though not evenly, so the batch is found by bisection, within
// 1/64 of the largest one.
//
//   ASSIGN_OR_RETURN(const int64_t batch,
//                    FillingBatch(net, {160, 160}, whole, 12 * kGiB, description, planner));
//   ASSIGN_OR_RETURN(SizedProgram small, LowerSize(net, {{160, 160}, batch}, whole, description));
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "neap/core/device/device.h"
#include "neap/core/graph/graph.h"
#include "neap/core/program/program.h"
#include "neap/core/run/session/session_planner.h"

namespace neap {

struct SizedProgram {
  Graph graph;
  Program program;
};

// `whole` is the program of `net` in its own size, of which the other has the persistent tensors;
// it has as many sub-batches, or one for each image of a smaller batch. Errors: those of WithSize()
// and LowerPart().
absl::StatusOr<SizedProgram> LowerSize(const Graph& net, const GraphSize& size,
                                       const Program& whole, const DeviceDescription& device);

// At least 1, even if the budget does not hold that. Errors: those of LowerSize() and of the
// planner; INVALID_ARGUMENT for several ranks, and without a budget.
absl::StatusOr<int64_t> FillingBatch(const Graph& net, const std::vector<int64_t>& extents,
                                     const Program& whole, int64_t budget_bytes,
                                     const DeviceDescription& device, SessionPlanner& planner);

}  // namespace neap
