// The action writer: turns an order of runs, a residency and an allocator into the actions of a
// plan, in one walk over the runs.
//
//   runs     0 conv1  1 relu1  2 conv2  3 relu2
//   ^ offset
//   |                          [=ws=]                  ws: workspace of run 2, which takes the
//   |                          [=== conv2 ====)        fastest engine that fits the free hole
//   |                 [=== relu1 ====)
//   |        [=== conv1 ====)           [== relu2 ..   in bytes that conv1 has left
//   |  parameters, optimizer state                     the same offsets in every plan of a network
//   +---------------------------------------------> runs
//
//   actions  alloc conv1, compute 0, alloc relu1, compute 1, offload relu1, free conv1,
//            alloc conv2, compute 2 with ws, free relu1, alloc relu2, compute 3, ...
//
// A stay becomes an alloc when it begins and a free when it ends, with a prefetch or an offload
// where the residency has one. A run's workspace takes bytes only during the run, so the largest
// free hole at the run decides which engine it gets. Waits are added later
// (memory/transfer/waits.h).
//
//   Heap heap(budget_bytes - PersistentBytes(program));
//   ASSIGN_OR_RETURN(WrittenActions written,
//                    WriteActions(program, runs, residency, engines, heap));
//   written.peak_bytes;   // <= budget_bytes
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "neap/core/plan/plan.h"
#include "neap/core/program/program.h"
#include "neap/memory/engines/engine_table.h"
#include "neap/memory/placement/allocator.h"
#include "neap/memory/transfer/residency.h"

namespace neap {

// The allocation id of a buffer is the index of its first stay; that of a run's workspace:
constexpr AllocationId WorkspaceId(int position) { return -1 - AllocationId{position}; }

// A buffer is a chain of stays that take over each other's bytes in place. It is allocated once.
struct Buffers {
  std::vector<size_t> first;      // by stay: the first stay of its buffer
  std::vector<bool> is_replaced;  // by stay: another stay takes over its bytes
  std::vector<int> end;           // by stay that is the first: the position where the buffer ends
};
Buffers FindBuffers(const Residency& residency);

struct WrittenActions {
  std::vector<Action> actions;          // without waits
  std::vector<double> compute_seconds;  // by compute action
  std::vector<TimeSource> sources;      // by compute action: how its seconds are known
  int64_t peak_bytes = 0;               // the highest end of any region
};

// Persistent tensors whose home is the arena lie at its bottom in the order of their ids, so that
// every plan of a network has them at the same offsets. The allocator hands out the bytes above.
// Those on the host have stays instead.
int64_t PersistentBytes(const Program& program);

// Each run gets its most preferred configuration that fits the largest free hole, or its smallest.
// Errors: those of the allocator.
absl::StatusOr<WrittenActions> WriteActions(const Program& program, const ComputeSequence& runs,
                                            const Residency& residency, const EngineTable& engines,
                                            Allocator& allocator);

}  // namespace neap
