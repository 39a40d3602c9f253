#include "apps/peak/peak_command.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "apps/cli/measured_device.h"
#include "apps/cli/outcome.h"
#include "apps/cli/output.h"
#include "apps/cli/progress.h"
#include "apps/peak/find_peak.h"
#include "apps/peak/peak_report.h"
#include "neap/core/base/status_macros.h"

namespace neap::apps {
namespace {

// "trying batch 812; batch 768 fits the budget", while a search goes on.
class PeakStatus {
 public:
  PeakStatus(const std::string& what, const std::string& name)
      : what_(what), line_(absl::StrCat("peak-", what, " ", name)) {}

  void Try(const std::string& doing, const NetFlags& net) {
    line_.Show(absl::StrCat(doing, " ", what_, " ", SizeOf(net), largest_ > 0 ? "; " : "", found_));
  }
  void Found(const std::string& what, const NetFlags& net) {
    if (what == is_ && SizeOf(net) <= largest_) return;
    is_ = what;
    largest_ = SizeOf(net);
    found_ = absl::StrCat(what_, " ", largest_, " ", what);
  }

 private:
  int64_t SizeOf(const NetFlags& net) const {
    return what_ == "depth" ? *net.options.depth : *net.options.batch;
  }

  const std::string what_;
  StatusLine line_;
  std::string is_;       // "fits the budget": the largest size found
  int64_t largest_ = 0;  // 0: none
  std::string found_;
};

absl::StatusOr<PeakResult> FindShown(const PeakFlags& flags, const PlanTarget& target,
                                     const GrowingNet& growing) {
  const bool is_one = flags.planning.policies.empty();
  PeakStatus status(
      growing.growth.what,
      is_one ? growing.net : absl::StrCat(growing.net, " with policy ", flags.planning.policy));
  Growth shown = growing.growth;
  shown.on_size = [&](const std::string& doing, const NetFlags& sized) {
    status.Try(doing, sized);
  };
  shown.on_found = [&](const std::string& what, const NetFlags& sized) {
    status.Found(what, sized);
  };
  return FindPeak(flags, target, shown, growing.net);
}

// One policy of several may have no size that fits, or need room outside the device's memory.
bool IsRefusal(const absl::Status& status) {
  return absl::IsResourceExhausted(status) || absl::IsInvalidArgument(status);
}

absl::StatusOr<std::vector<PeakRow>> FindRows(const PeakFlags& given, const PlanTarget& target,
                                              const std::vector<GrowingNet>& nets) {
  std::vector<std::string> policies = given.planning.policies;
  if (policies.empty()) policies.push_back(given.planning.policy);
  std::vector<PeakRow> rows;
  for (const GrowingNet& growing : nets) {
    for (const std::string& policy : policies) {
      PeakFlags flags = given;
      flags.planning.policy = policy;
      absl::StatusOr<PeakResult> result = FindShown(flags, target, growing);
      if (!result.ok() && (policies.size() == 1 || !IsRefusal(result.status())))
        return result.status();
      rows.push_back({.net = growing.net, .policy = policy, .result = std::move(result)});
    }
  }
  const bool any =
      std::any_of(rows.begin(), rows.end(), [](const PeakRow& row) { return row.result.ok(); });
  if (!any) return rows.front().result.status();
  return rows;
}

}  // namespace

absl::StatusOr<int> FindAndPrint(const PeakFlags& flags, const std::vector<GrowingNet>& nets) {
  RETURN_IF_ERROR(flags.Check());
  const PlanningFlags& planning = flags.planning;
  ASSIGN_OR_RETURN(const PlanTarget target,
                   OpenPlanTargetBy(planning.kernels, planning.device, planning.peer));
  if (flags.run && target.device == nullptr) {
    return BadUsage("--run needs a device to train on: --device cpu or cuda:N");
  }
  ASSIGN_OR_RETURN(const std::vector<PeakRow> rows, FindRows(flags, target, nets));
  const PeakReport report = {
      .what = nets.front().growth.what,
      .device = target.description.name,
      .budget_bytes = planning.budget.bytes.value_or(target.description.memory_bytes),
      .host_budget = planning.HostBudgetFor(target.description),
      .rows = rows};
  const auto is_measured = [](const PeakRow& row) {
    return row.result.ok() && !row.result->measured_with.empty();
  };
  if (std::any_of(rows.begin(), rows.end(), is_measured)) PrintOtherVersions(target);
  flags.json ? PrintJson(ToJson(report)) : Print(ToText(report));
  return 0;
}

}  // namespace neap::apps
