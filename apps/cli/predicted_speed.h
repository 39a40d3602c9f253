// The speed that a plan predicts, in the unit that every command prints: images per second of
// training, with what copying the batches adds to an iteration.
//
//   PredictedImagesPerSecond(result);  // of a PlanResult
#pragma once

#include "neap/core/plan/planner.h"

namespace neap::apps {

// Plan::batch / (Plan::predicted_ms + PlanningStats::batch_copy_ms).
double PredictedImagesPerSecond(const PlanResult& result);

}  // namespace neap::apps
