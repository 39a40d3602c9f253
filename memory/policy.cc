#include "neap/memory/policy.h"

#include "absl/status/status.h"
#include "absl/strings/str_format.h"

namespace neap {
namespace {

// Every tensor has its own bytes for the whole iteration.
std::vector<Lifetime> KeepAll(const Program& program, std::vector<Lifetime> lifetimes) {
  for (Lifetime& lifetime : lifetimes) {
    if (lifetime.begin < lifetime.end) lifetime.end = static_cast<int>(program.steps.size());
  }
  return lifetimes;
}

// A tensor goes after its last use (SuperNeurons 3.2).
std::vector<Lifetime> Liveness(const Program& /*program*/, std::vector<Lifetime> lifetimes) {
  return lifetimes;
}

}  // namespace

const std::vector<Policy>& Policies() {
  static const std::vector<Policy> policies = {
      {"keep-all", "tensors keep their bytes for the whole iteration, unless overwritten in place",
       KeepAll},
      {"liveness", "a tensor's bytes are free after its last use", Liveness},
  };
  return policies;
}

absl::StatusOr<Policy> FindPolicy(std::string_view name) {
  std::string known;
  for (const Policy& policy : Policies()) {
    if (policy.name == name) return policy;
    absl::StrAppendFormat(&known, " %s", policy.name);
  }
  return absl::NotFoundError(absl::StrFormat("unknown policy '%s'; known:%s", name, known));
}

}  // namespace neap
