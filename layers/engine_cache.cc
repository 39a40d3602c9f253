#include "neap/layers/engine_cache.h"

#include <utility>

#include "neap/core/status_macros.h"

namespace neap {

absl::StatusOr<std::vector<Engine>> EngineCache::Get(const StepSignature& signature, List list) {
  if (const auto found = engines_.find(signature); found != engines_.end()) return found->second;
  ASSIGN_OR_RETURN(std::vector<Engine> engines, list(signature));
  return engines_.emplace(signature, std::move(engines)).first->second;
}

}  // namespace neap
