// How far exact accounting is below the paper's, and why.
//
// SuperNeurons counts what cuDNN's legacy calls read. neap declares what its kernels read, and
// writes results over operands that are not used again. The difference is found by planning three
// programs: the paper's, the exact one without in-place results, and the exact one as requested.
//
//   paper  - reads that kernels do not need + saved tensors = exact without in-place results
//          - bytes of in-place results                      = exact
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "neap/core/graph/graph.h"
#include "neap/core/plan/plan.h"
#include "neap/core/program/program.h"
#include "neap/memory/planner.h"

namespace neap::apps {

struct PaperComparison {
  int64_t paper_bytes = 0;  // peak of activations and gradients
  int paper_step = 0;       // from 1
  int64_t exact_bytes = 0;
  int64_t unread_bytes = 0;      // saved because kernels do not need these reads
  std::string unread;            // "relu: x; max_pool: x, y": not read by backward steps
  int64_t saved_bytes = 0;       // of saved tensors live at the exact peak
  int saved_tensors = 0;         // their number
  int64_t in_place_bytes = 0;    // saved by in-place results
  int64_t in_place_results = 0;  // their number
};

// `exact` is the plan of `program`, made with `options`.
absl::StatusOr<PaperComparison> CompareWithPaper(const Graph& graph, const Program& program,
                                                 const PlanResult& exact,
                                                 const PlannerOptions& options,
                                                 const DeviceDescription& device);

std::string ToText(const PaperComparison& comparison);

}  // namespace neap::apps
