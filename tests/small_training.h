// A network small enough to train in milliseconds, its batches, and sessions that train it: what
// tests of the session share.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "neap/core/run/session.h"
#include "neap/layers/cpu/cpu_device.h"
#include "neap/memory/planner_options.h"

namespace neap {

// A residual block with everything that makes memory interesting: in-place results, a fan, a join,
// saved tensors, dropout. Without its block nothing is left between trunk and join.
Graph SmallNet(Layout layout = Layout::kNchw, bool with_block = true);
Batch MakeBatch(uint64_t seed);

std::unique_ptr<CpuDevice> OpenCpu();
Session MakeSession(Device& device, PlannerOptions planning, TrainingOptions training = {},
                    Layout layout = Layout::kNchw);

// So tight for SmallNet() that under policies which move anything, tensors leave for the host in
// every step.
PlannerOptions Tight(Device& device, const std::string& policy = "tensor-cache");

// Every step's batch depends on its number alone. Returns the last loss.
float Train(Session& session, int steps);

bool SameBits(const std::vector<float>& a, const std::vector<float>& b);
void CheckSameState(Session& a, Session& b);

}  // namespace neap
