// Policies by name: how long the planner keeps what.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "neap/core/lifetimes.h"
#include "neap/core/program.h"

namespace neap {

struct Policy {
  std::string_view name;
  std::string_view description;
  // When each tensor, by TensorId, is in memory, given when it must be.
  std::vector<Lifetime> (*residency)(const Program& program, std::vector<Lifetime> lifetimes);
};

const std::vector<Policy>& Policies();

// Errors: NOT_FOUND listing the policies there are.
absl::StatusOr<Policy> FindPolicy(std::string_view name);

}  // namespace neap
