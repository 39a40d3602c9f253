// Sublinear memory (Chen et al., "Training Deep Nets with Sublinear Memory Cost", 2016, section 4):
// the network is cut into about sqrt(n) segments, only what crosses a cut is kept, and all else is
// rebuilt, segment by segment.
#pragma once

#include "neap/core/program/program.h"
#include "neap/recompute/recompute.h"

namespace neap {

// For Policy::order_runs.
RunOrder SublinearOrder(const Program& program);

}  // namespace neap
