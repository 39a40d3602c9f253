// The examples in the headers of core/verifier/, which must compile. See scripts/check_examples.py.
#include <string>

#include "absl/status/status.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/verifier/verifier.h"

namespace neap::header_examples::verifier {

// core/verifier/verifier.h
absl::Status VerifyFile(const std::string& text, const Program& program) {
  ASSIGN_OR_RETURN(Plan plan, Plan::FromJson(text));
  RETURN_IF_ERROR(Verify(plan));                   // "plan fault [stale-read]: action 17 ..."
  RETURN_IF_ERROR(MatchesProgram(plan, program));  // the plan is one of this program
  return absl::OkStatus();
}

}  // namespace neap::header_examples::verifier
