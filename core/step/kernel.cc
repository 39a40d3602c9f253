#include "neap/core/step/kernel.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"

namespace neap {

absl::StatusOr<Engine> Backend::Find(const StepSignature& signature, std::string_view engine) {
  ASSIGN_OR_RETURN(const std::vector<Engine> engines, Engines(signature));
  const auto found = std::find_if(engines.begin(), engines.end(),
                                  [&](const Engine& listed) { return listed.id == engine; });
  if (found != engines.end()) return *found;
  return absl::NotFoundError(absl::StrCat("there is no engine '", std::string(engine), "'"));
}

}  // namespace neap
