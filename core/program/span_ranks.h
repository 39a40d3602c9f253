// Layers that span the ranks of data parallelism: what depends on all images of the batch, such as
// the statistics of a batch norm, is computed of the images of all ranks.
//
// Each rank has a part of the batch, so a rank alone cannot know the mean over the batch. Such a
// layer is replaced by two, with a sum over the ranks between them, in forward and in backward:
//
//   bn1   becomes   bn1.statistics    writes what the rank's images contribute
//                   (all_reduce)      the ranks sum it, as a step of the program
//                   bn1               reads the sum, and has the name, parameters and states of bn1
//
// As steps, the sums are planned, verified and timed like all others. Nothing can hide them: the
// next step reads the result. A rerun of bn1.statistics would give what this rank contributes, so
// it is never run again (recompute/segments.h), nor does the verifier accept that.
//
// Which layers have two parts is a table of rules, which the device has (RankRule,
// core/step/rewrite_rules.h). The parts declare what is summed (StepSpec::summed). Fusion runs
// after this pass and leaves them alone, so the two layers take the passes over memory that fusion
// would save a batch norm.
//
//   ASSIGN_OR_RETURN(ResolvedGraph graph, Resolve(net, Mode::kTraining));
//   const std::vector<RankRule>& rules = device.description().rules.ranks;
//   ASSIGN_OR_RETURN(graph, SpanRanks(std::move(graph), {.rank = 0, .ranks = 4}, rules));
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "neap/core/graph/graph.h"
#include "neap/core/program/program.h"
#include "neap/core/step/rewrite_rules.h"

namespace neap {

// `graph` is the result of Resolve() for training. Errors: those of Layer::Specify().
absl::StatusOr<ResolvedGraph> SpanRanks(ResolvedGraph graph, const RankShare& share,
                                        const std::vector<RankRule>& rules);

}  // namespace neap
