// The smallest feasible budget in an error for a budget that is too small.
//
// The message of such an error names it for the user. A program that wants to go on with it takes
// it from the status itself.
//
//   absl::StatusOr<Session> session = CreateSession(net, device, {.budget_bytes = kMiB});
//   if (const std::optional<int64_t> smallest = SmallestBudget(session.status())) {
//     session = CreateSession(net, device, {.budget_bytes = *smallest});
//   }
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "absl/status/status.h"

namespace neap {

// RESOURCE_EXHAUSTED with this message, for a budget below `smallest_budget_bytes`.
absl::Status BudgetRefusal(std::string_view message, int64_t smallest_budget_bytes);

// The smallest budget that would not have been refused, in bytes; nullopt if the status has another
// cause.
std::optional<int64_t> SmallestBudget(const absl::Status& status);

}  // namespace neap
