// Compares two timelines of a plan: the predicted one and that of a timed step.
//
//   timed step 11         predicted      measured
//     total                 205.3 ms      216.7 ms
//     d2h runs              102.7 ms      103.2 ms   ...
#pragma once

#include <cstdint>
#include <string>

#include "apps/cli/output.h"
#include "neap/core/plan/plan.h"
#include "neap/core/plan/timeline.h"

namespace neap::apps {

struct TimelineTotals {
  Timeline timeline = {};
  Overlap overlap = {};
};

struct TimelineComparison {
  int64_t step = 0;  // the timed step, from 1
  TimelineTotals predicted = {}, measured = {};
};

TimelineComparison CompareTimelines(const Plan& plan, int64_t step, Timeline predicted,
                                    Timeline measured);
// A table that omits rows which are 0 in both.
std::string ToText(const TimelineComparison& comparison);
Json ToJson(const TimelineComparison& comparison);

}  // namespace neap::apps
