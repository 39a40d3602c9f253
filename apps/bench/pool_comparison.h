// The memory pool against cudaMalloc and cudaFree (SuperNeurons 3.2.1 and Table 2): how fast a
// network trains by one plan, if its tensors are places in one arena, and if each tensor and each
// workspace is allocated from the device when the plan begins to use it and freed when it ends.
//
// Both sides run the same kernels and copies on the same values. The second side has no arena but
// for the parameters: every address is one that the device's Allocate() returned, which on a GPU is
// a cudaMalloc, and a free is a cudaFree, which waits until the GPU is idle. That is why the pool
// gains. CUDA graphs need fixed addresses, so the pool is timed without them as well: the speedup
// is that of the same calls.
//
//   ASSIGN_OR_RETURN(const PoolComparison comparison,
//                    ComparePool(graph, *device, {.policy = "liveness"}, /*steps=*/20));
//   comparison.speedup();
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "neap/core/device/device.h"
#include "neap/core/graph/graph.h"
#include "neap/memory/planner_options.h"

namespace neap::apps {

struct PoolComparison {
  int64_t batch = 0;
  int64_t steps = 0;
  int64_t allocations = 0;      // in an iteration, each freed again
  double separate_seconds = 0;  // median step, each tensor allocated and freed
  double pool_seconds = 0;      // the same calls on places in the arena
  double replayed_seconds = 0;  // as neap runs: kernels replayed as CUDA graphs, if it can
  std::vector<std::byte> separate_parameters, pool_parameters;  // after the steps; for tests

  double speedup() const { return separate_seconds / pool_seconds; }
  double ImagesPerSecond(double seconds) const { return static_cast<double>(batch) / seconds; }
};

// Runs `steps` steps of each side, and a few before that are not timed. Errors: those of planning,
// of kernels and of the device.
absl::StatusOr<PoolComparison> ComparePool(const Graph& graph, Device& device,
                                           const PlannerOptions& options, int64_t steps);

}  // namespace neap::apps
