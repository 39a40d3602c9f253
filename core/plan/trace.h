// A plan's timeline in Chrome's trace format (chrome://tracing, ui.perfetto.dev).
//
// The times are those of a Timeline (core/plan/timeline.h). A counter next to the streams shows the
// live bytes of the arena.
//
//   compute  |conv1 forward|relu1 forward|  ...  |conv1 backward_data|
//   d2h                    |offload conv1|
//   h2d                                  ...  |prefetch conv1|
//   live     ____----~~~~~~~~~~-----___
//
//   std::string json = TimelineTrace(plan, PredictTimeline(plan, costs));
#pragma once

#include <string>

#include "neap/core/plan/plan.h"
#include "neap/core/plan/timeline.h"

namespace neap {

// `timeline` must be that of the plan.
std::string TimelineTrace(const Plan& plan, const Timeline& timeline);

}  // namespace neap
