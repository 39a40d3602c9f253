// The verifier's verdicts on hand-written plans, shared by its tests.
#pragma once

#include <doctest/doctest.h>

#include <functional>
#include <string>
#include <string_view>

#include "neap/core/verifier/verifier.h"
#include "tests/plan_script.h"

namespace neap {

// The message of Verify() for the script.
inline std::string Verdict(std::string_view script) {
  return std::string(Verify(PlanFromScript(script)).message());
}

// The name of the fault in the message: "stale-read".
inline std::string FaultOf(const absl::Status& status) {
  const std::string message(status.message());
  const size_t begin = message.find('[');
  if (status.code() != absl::StatusCode::kInvalidArgument || begin == std::string::npos)
    return message;
  return message.substr(begin + 1, message.find(']') - begin - 1);
}

// The fault found after `from` in the script, which is valid, is replaced.
inline std::string Fault(std::string_view script, std::string_view from, std::string_view to) {
  REQUIRE(Verdict(script) == "");
  return FaultOf(Verify(PlanFromScript(Edited(script, from, to))));
}
// The fault found after the plan, which is valid, is changed.
inline std::string FaultAfter(Plan plan, const std::function<void(Plan&)>& change) {
  REQUIRE(Verify(plan).ok());
  change(plan);
  return FaultOf(Verify(plan));
}

}  // namespace neap
