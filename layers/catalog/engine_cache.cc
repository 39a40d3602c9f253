#include "neap/layers/catalog/engine_cache.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"

namespace neap {

absl::StatusOr<std::vector<Engine>> EngineCache::Get(const StepSignature& signature, List list) {
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = engines_.find(signature); found != engines_.end()) return found->second;
  }
  ASSIGN_OR_RETURN(std::vector<Engine> engines, list(signature));
  const std::lock_guard lock(mutex_);
  return engines_.emplace(signature, std::move(engines)).first->second;
}

absl::Status EngineCache::Withdraw(const StepSignature& signature, std::string_view engine,
                                   const absl::Status& reason) {
  const std::lock_guard lock(mutex_);
  const auto found = engines_.find(signature);
  if (found == engines_.end()) return reason;
  if (found->second.size() == 1 && !AddsToGradients(signature)) return reason;
  const size_t withdrawn =
      std::erase_if(found->second, [&](const Engine& listed) { return listed.id == engine; });
  if (withdrawn == 0) return reason;
  return absl::AbortedError(absl::StrCat("engine '", std::string(engine),
                                         "' cannot be built, plan again: ", reason.message()));
}

}  // namespace neap
