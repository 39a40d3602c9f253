#include "neap/layers/catalog/measured_catalog.h"

#include <algorithm>

#include "neap/core/base/status_macros.h"
#include "neap/core/step/signature_text.h"
#include "neap/layers/catalog/default_catalog.h"

namespace neap {

std::vector<Engine> MeasuredCatalog::Measured(const StepSignature& signature) const {
  std::vector<TimedEngine> timed = timings_->Of(signature);
  std::erase_if(timed, [&](const TimedEngine& engine) {
    return engine.batch != BatchOf(signature) ||
           (engine.accumulates_in_half && !options_.half_accumulation);
  });
  const auto is_measured = [](const TimedEngine& engine) {
    return engine.source == TimeSource::kMeasured;
  };
  if (library_ != nullptr || std::any_of(timed.begin(), timed.end(), is_measured))
    std::erase_if(timed, [&](const TimedEngine& engine) { return !is_measured(engine); });
  std::stable_sort(timed.begin(), timed.end(), [](const TimedEngine& a, const TimedEngine& b) {
    return a.seconds < b.seconds;
  });
  std::vector<Engine> engines;
  for (const TimedEngine& engine : timed) {
    engines.push_back({.id = engine.engine,
                       .workspace_bytes = engine.workspace_bytes,
                       .deterministic = engine.deterministic,
                       .accumulates_in_half = engine.accumulates_in_half,
                       .computes_relu = engine.computes_relu});
  }
  return engines;
}

absl::StatusOr<std::vector<Engine>> MeasuredCatalog::Engines(const StepSignature& signature) {
  std::vector<Engine> measured = Measured(signature);
  if (measured.empty()) {
    if (library_ != nullptr) return library_->Engines(signature);
    return AddsToGradients(signature) ? measured : DefaultCatalog().Engines(signature);
  }
  if (library_ == nullptr || library_->Versions() != versions_) return measured;
  absl::StatusOr<std::vector<Engine>> engines = library_->Engines(signature);
  if (absl::IsUnimplemented(engines.status())) return measured;
  RETURN_IF_ERROR(engines.status());
  for (Engine& engine : measured) {
    const auto listed = std::find_if(engines->begin(), engines->end(),
                                     [&](const Engine& other) { return other.id == engine.id; });
    if (listed == engines->end()) {
      engines->push_back(std::move(engine));
    } else {
      listed->workspace_bytes = engine.workspace_bytes;
    }
  }
  return engines;
}

}  // namespace neap
