#include "neap/core/plan/budget_refusal.h"

#include <string>

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace neap {
namespace {

constexpr const char* kPayload = "neap/smallest_budget_bytes";

}  // namespace

absl::Status BudgetRefusal(std::string_view message, int64_t smallest_budget_bytes) {
  absl::Status status = absl::ResourceExhaustedError(std::string(message));
  status.SetPayload(kPayload, absl::Cord(absl::StrCat(smallest_budget_bytes)));
  return status;
}

std::optional<int64_t> SmallestBudget(const absl::Status& status) {
  const auto payload = status.GetPayload(kPayload);
  int64_t bytes = 0;
  if (!payload.has_value() || !absl::SimpleAtoi(std::string(*payload), &bytes)) return std::nullopt;
  return bytes;
}

}  // namespace neap
