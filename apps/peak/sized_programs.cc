#include "apps/peak/sized_programs.h"

#include <algorithm>
#include <utility>

#include "neap/core/program/passes.h"
#include "neap/core/program/sub_batches.h"

namespace neap::apps {

NetFlags SizedPrograms::Sized(int64_t n) const {
  NetFlags sized = peak_.flags.net;
  sized.name = peak_.net;
  peak_.growth.apply(n, sized.options);
  return sized;
}

absl::StatusOr<Graph> SizedPrograms::Build(const std::string& doing, NetFlags net) const {
  if (peak_.growth.on_size != nullptr) peak_.growth.on_size(doing, net);
  return net.Build();
}

// Without --budget, the budget is the device's memory.
PlannerOptions SizedPrograms::Asked() const {
  const PlanningFlags& planning = peak_.flags.planning;
  PlannerOptions options = planning.Options(peak_.target.description, peak_.target.kernels);
  options.budget_bytes = planning.budget.bytes.value_or(peak_.target.description.memory_bytes);
  options.sub_batches = planning.sub_batches;
  return options;
}

PlannerOptions SizedPrograms::Options() const {
  PlannerOptions options = Asked();
  options.sub_batches = choice_.sub_batches;
  options.offload_params = choice_.offload_params;
  options.suggest_policy = false;
  return options;
}

// A batch norm needs as many images in the last part as in the smallest batch.
int64_t SizedPrograms::SubBatchesOf(int64_t batch) const {
  int64_t count = std::min(choice_.sub_batches, batch);
  const int64_t least = choice_.batch_norm_in_parts ? std::min(peak_.growth.least, batch) : 1;
  while (DivideBatch(batch, count).last < least) --count;
  return count;
}

absl::StatusOr<Program> SizedPrograms::Of(const Graph& graph) const {
  ProgramOptions options = PlanningFlags::Lowering(choice_);
  options.sub_batches = SubBatchesOf(graph.options().batch);
  options.optimizer = peak_.flags.optimizer.Get();
  return Lower(graph, options, peak_.target.description);
}

}  // namespace neap::apps
