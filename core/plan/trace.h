// A plan as a timeline, in Chrome's trace format (chrome://tracing, ui.perfetto.dev).
//
// What runs when is the Timeline's (core/plan/timeline.h). Beside the streams runs the arena's
// level.
//
//   compute  |conv1 forward|relu1 forward|  ...  |conv1 backward_data|
//   d2h                    |offload conv1|
//   h2d                                  ...  |prefetch conv1|
//   live     ____----~~~~~~~~~~-----___
//
//   std::string json =
//       TimelineTrace(plan, PredictTimeline(plan, costs));
#pragma once

#include <string>

#include "neap/core/plan/plan.h"
#include "neap/core/plan/timeline.h"

namespace neap {

// `timeline` must be the plan's.
std::string TimelineTrace(const Plan& plan, const Timeline& timeline);

}  // namespace neap
