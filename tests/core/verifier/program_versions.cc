#include "tests/core/verifier/program_versions.h"

#include <algorithm>

namespace neap {

ProgramVersions RunProgram(const Plan& plan) {
  ProgramVersions result;
  std::map<TensorId, int>& now = result.last;
  for (const PlanStep& step : plan.steps) {
    StepVersions versions;
    for (TensorId t : step.reads) versions.reads.emplace_back(t, now[t]);
    for (TensorId t : step.accumulates) versions.reads.emplace_back(t, now[t]);
    const std::map<TensorId, int> before = now;
    for (TensorId t : step.writes) versions.writes.emplace_back(t, ++now[t]);
    for (TensorId t : step.accumulates) versions.accumulates.emplace_back(t, ++now[t]);
    for (TensorId t : step.rerun_reads.empty() ? step.reads : step.rerun_reads) {
      const bool read = std::count(step.reads.begin(), step.reads.end(), t) > 0;
      versions.rerun_reads.emplace_back(t, read ? before.at(t) : now[t]);
    }
    result.steps.push_back(std::move(versions));
  }
  return result;
}

}  // namespace neap
