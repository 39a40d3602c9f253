// Training SmallNet in 16 bits, and a check of skipped steps for any device.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "neap/core/run/session.h"
#include "neap/memory/planner_options.h"
#include "tests/small_training.h"

namespace neap::testing {

using State = std::map<std::string, std::vector<float>>;  // persistent tensors, by name

// Strict, so that the bits are the same under every plan.
Session OpenHalf(Device& device, DType dtype, PlannerOptions planning = {},
                 TrainingOptions training = {}, bool fusion = true);
// All persistent tensors but the metrics.
State StateOf(Session& session);
// A batch so large that activations, and with them gradients, overflow in fp16.
Batch OverflowingBatch();
StepResult StepOn(Session& session, const Batch& batch);

// A step with an overflow changes nothing but the scale, and later steps have the same bits under
// several plans.
void CheckOverflowsAreSkipped(Device& device);

// Both 16-bit types train to the same bits under several policies and budgets as without a budget,
// there with fusion or without.
void CheckSameBitsUnderEveryPlan(Device& device, bool reference_fusion);

// For devices whose fused convolutions round otherwise: 5 steps change every parameter, and with
// fusion nearly as they do without, within a quarter (bf16) or a twelfth (fp16) of the change.
void CheckFusionIsClose(Device& device);

}  // namespace neap::testing
