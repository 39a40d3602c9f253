// The table of policies. docs/policies.md describes each with its source.
//
//   ASSIGN_OR_RETURN(const Policy policy, FindPolicy("superneurons"));
#pragma once

#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "neap/memory/policies/policy.h"

namespace neap {

const std::vector<Policy>& Policies();

// The policy if none is named: auto if there is a budget, else liveness.
std::string_view DefaultPolicy(bool has_budget);

// Errors: NOT_FOUND, with the names of all policies.
absl::StatusOr<Policy> FindPolicy(std::string_view name);

}  // namespace neap
