#include "neap/core/verifier/site.h"

#include <array>

#include "absl/strings/str_format.h"

namespace neap {
namespace {

constexpr std::array<std::string_view, 31> kFaultNames = {
    "bad-header",   "bad-id",      "bad-tensor",  "bad-step",   "over-budget",  "misaligned",
    "out-of-arena", "out-of-pool", "too-small",   "overlap",    "double-alloc", "not-allocated",
    "in-place",     "given",       "no-value",    "stale-read", "copy",         "step-order",
    "missing-step", "recompute",   "bad-engines", "bad-wait",   "race",         "leak",
    "end-state",    "totals",      "collective",  "shard",      "external",     "pause",
    "wrong-program"};
static_assert(static_cast<size_t>(PlanFault::kProgram) + 1 == kFaultNames.size());

bool IsIndex(size_t count, int32_t id) { return id >= 0 && static_cast<size_t>(id) < count; }

}  // namespace

std::string_view Name(PlanFault fault) { return kFaultNames[static_cast<size_t>(fault)]; }

namespace verifier {

absl::Status Site::Fault(PlanFault fault, std::string_view what) const {
  const std::string where = action_.has_value() ? Describe(*action_) : "the plan";
  return absl::InvalidArgumentError(
      absl::StrFormat("plan fault [%s]: %s: %s", Name(fault), where, what));
}

std::string Site::Describe(TensorId tensor) const {
  if (!IsIndex(plan_.tensors.size(), tensor.value))
    return absl::StrFormat("tensor %d", tensor.value);
  return absl::StrFormat("tensor %d '%s'", tensor.value, plan_.tensors[tensor.index()].name);
}

std::string Site::Describe(StepId step) const {
  if (!IsIndex(plan_.steps.size(), step.value)) return absl::StrFormat("step %d", step.value);
  const PlanStep& named = plan_.steps[step.index()];
  return absl::StrFormat("step %d '%s %s'", step.value, named.layer, Name(named.phase));
}

std::string Site::Describe(const Region& region) {
  return absl::StrFormat("%d bytes at %d", region.bytes, region.offset);
}

std::string Site::Describe(size_t action) const {
  struct Wording {
    const Site& site;
    std::string operator()(const AllocAction& a) const {
      return "alloc " + site.Describe(a.tensor);
    }
    std::string operator()(const FreeAction& a) const { return "free " + site.Describe(a.tensor); }
    std::string operator()(const ComputeAction& a) const {
      return (a.recompute ? "recompute " : "compute ") + site.Describe(a.step);
    }
    std::string operator()(const OffloadAction& a) const {
      return "offload " + site.Describe(a.tensor);
    }
    std::string operator()(const PrefetchAction& a) const {
      return "prefetch " + site.Describe(a.tensor);
    }
    std::string operator()(const CollectiveAction& a) const {
      return "collective " + site.Describe(a.step);
    }
    std::string operator()(const WaitAction& a) const {
      return absl::StrFormat("wait %s on action %d", Name(a.stream), a.on);
    }
  };
  const std::string what = std::visit(Wording{*this}, plan_.actions[action]);
  return absl::StrFormat("action %d (%s)", action, what);
}

}  // namespace verifier
}  // namespace neap
