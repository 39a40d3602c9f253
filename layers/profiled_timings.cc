#include "neap/layers/profiled_timings.h"

#include "neap/layers/signature_text.h"

namespace neap {

std::vector<TimedEngine> ProfiledTimings::Of(const StepSignature& signature) const {
  const std::string operation = SignatureText(signature);
  const std::lock_guard lock(mutex_);
  auto known = known_.find(operation);
  if (known == known_.end()) {
    const absl::StatusOr<std::vector<Measurement>> rows = database_.Measurements(operation);
    if (!rows.ok()) return {};
    std::vector<TimedEngine> engines;
    for (const Measurement& row : *rows) {
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
