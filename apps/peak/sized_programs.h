// The programs of a network in the sizes that a search for its peak tries, with one choice of the
// program.
//
//   const PeakCase peak = {flags, target, growth, net, effort};
//   const SizedPrograms programs(peak, {});
//   ASSIGN_OR_RETURN(const Graph graph, programs.Build("trying", programs.Sized(64)));
//   ASSIGN_OR_RETURN(const Program program, programs.Of(graph));
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "apps/cli/device_flag.h"
#include "apps/cli/net_flags.h"
#include "apps/peak/growth.h"
#include "apps/peak/peak_flags.h"
#include "neap/core/graph/graph.h"
#include "neap/core/program/program.h"
#include "neap/memory/planner_options.h"
#include "neap/memory/program_choice.h"

namespace neap::apps {

// The work that a search has done so far. A full plan takes hundreds of times as long as a look at
// a size, and listing the engines of a size on a GPU takes tens of times as long.
struct PeakEffort {
  int64_t probes = 0;  // sizes looked at, with each choice of the program
  int64_t listed = 0;  // of these, those whose engines were listed
  int64_t plans = 0;   // full plans
};

// *Ownership*: borrows all.
struct PeakCase {
  const PeakFlags& flags;
  const PlanTarget& target;
  const Growth& growth;
  const std::string& net;
  PeakEffort& effort;
};

class SizedPrograms {
 public:
  SizedPrograms(const PeakCase& peak, const ProgramChoice& choice) : peak_(peak), choice_(choice) {}

  NetFlags Sized(int64_t n) const;
  absl::StatusOr<Graph> Build(const std::string& doing, NetFlags net) const;
  // The options that the flags ask for, maybe with a choice of the program.
  PlannerOptions Asked() const;
  // Asked(), with this choice.
  PlannerOptions Options() const;
  // The choice's number of sub-batches, or as many as a batch of so many images can be run in.
  int64_t SubBatchesOf(int64_t batch) const;
  absl::StatusOr<Program> Of(const Graph& graph) const;

 private:
  const PeakCase peak_;
  const ProgramChoice choice_;
};

}  // namespace neap::apps
