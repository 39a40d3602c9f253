#include "neap/layers/profiled_timings.h"

#include "neap/core/status_macros.h"
#include "neap/layers/signature_text.h"

namespace neap {

absl::StatusOr<std::vector<TimedEngine>> ProfiledTimings::Of(const StepSignature& signature) const {
  const std::string operation = SignatureText(signature);
  auto known = known_.find(operation);
  if (known == known_.end()) {
    ASSIGN_OR_RETURN(const std::vector<Measurement> rows, database_.Measurements(operation));
    std::vector<TimedEngine> engines;
    for (const Measurement& row : rows) {
      if (row.failed()) continue;
      engines.push_back({.engine = row.engine.id,
                         .batch = row.batch,
                         .workspace_bytes = row.engine.workspace_bytes,
                         .seconds = row.median_seconds,
                         .deterministic = row.engine.deterministic});
    }
    known = known_.emplace(operation, std::move(engines)).first;
  }
  std::vector<TimedEngine> engines = known->second;
  const int64_t batch = BatchOf(signature);
  std::erase_if(engines, [batch](const TimedEngine& engine) { return engine.batch > batch; });
  return engines;
}

}  // namespace neap
