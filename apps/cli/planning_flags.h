// The planning flags that all subcommands share, their defaults, and the peaks to which a budget in
// percent refers.
//
//   policy        auto if there is a budget, else liveness
//   host budget   three quarters of the host's memory, all of which may be pinned; 0 if that is
//                 also the device's memory, where what moves to the host is in memory as before
//
// Because the defaults are shared, `neap train` can train the batch that `neap peak-batch` finds in
// the same budget.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "apps/cli/device_flag.h"
#include "apps/cli/flags.h"
#include "apps/cli/kernel_flags.h"
#include "apps/cli/output.h"
#include "neap/core/device/device.h"
#include "neap/core/plan/planner.h"
#include "neap/core/program/program.h"
#include "neap/memory/placement/placement_method.h"
#include "neap/memory/planner.h"

namespace neap::apps {

// "12GiB", or "60%" of the natural peak.
struct Budget {
  std::optional<int64_t> bytes = {};
  std::optional<double> percent = {};
};
// A command that plans a network in several sizes takes only bytes, because each size has a natural
// peak of its own. With several ranks, each may have a budget of its own: "12GiB,3GiB".
enum class BudgetUnits { kBytes, kBytesOrPercent, kForEachRank };
// Reads a single budget, in bytes or percent.
FlagValue ReadBudget(BudgetUnits units, Budget* budget);

// The memory that a network takes without a budget, without Plan::incoming_batch.
struct NaturalPeaks {
  int64_t keep_all_bytes = 0;  // the natural peak: every tensor keeps bytes of its own
  int64_t liveness_bytes = 0;  // tensors are freed after their last use, results go in place
};
absl::StatusOr<NaturalPeaks> FindNaturalPeaks(const Program& program, const PlannerOptions& options,
                                              const DeviceDescription& device,
                                              EngineCatalog& catalog);

// The pinned host memory that a plan may take.
struct HostBudget {
  int64_t bytes = kUnlimited;
  std::string reason = {};  // "75% of the host's memory"; empty with --host-budget

  // "192.000 GiB (75% of the host's memory)"
  std::string ToText() const;
  Json ToJson() const;  // null: unlimited
};
// The host memory that a plan may pin, whoever made the plan. Unlimited if the host's memory is not
// known.
HostBudget MostHostMemory(const DeviceDescription& device);
// The budget without --host-budget.
HostBudget DefaultHostBudget(const DeviceDescription& device);

// The flags that control planning; none of them applies to a plan read from a file.
inline constexpr std::array<const char*, 18> kPlanningChoices = {"budget",
                                                                 "host-budget",
                                                                 "peer-budget",
                                                                 "policy",
                                                                 "placement",
                                                                 "sub-batches",
                                                                 "batch-norm-in-parts",
                                                                 "evict",
                                                                 "no-in-place",
                                                                 "offload-params",
                                                                 "strict",
                                                                 "database",
                                                                 "no-installed-times",
                                                                 "divisions",
                                                                 "nondeterministic",
                                                                 "half-accumulation",
                                                                 "workspace-limit",
                                                                 "workspace-rule"};

// Adds --sub-batches and --batch-norm-in-parts, the fields of ProgramOptions of these names.
void AddSubBatches(std::string default_text, std::optional<int64_t>* count,
                   bool* batch_norm_in_parts, FlagSet& flags);

struct PlanningFlags {
  Budget budget;
  // BudgetUnits::kForEachRank only; empty: all ranks have `budget`, and `peer`.
  std::vector<Budget> rank_budgets = {};
  std::vector<std::string> rank_peers = {};
  std::optional<int64_t> host_budget_bytes = {};
  std::optional<int64_t> peer_budget_bytes = {};
  std::string policy;  // empty: PolicyName() chooses
  // BudgetUnits::kBytes only; empty: `policy` alone.
  std::vector<std::string> policies = {};
  PlacementMethod placement = PlacementMethod::kOffline;
  std::optional<int64_t> sub_batches = {};  // chosen if absent
  bool batch_norm_in_parts = false;
  std::string evict = "lru";
  bool no_in_place = false;
  bool offload_params = false;
  bool strict = false;
  std::string device;    // empty: choose
  std::string peer;      // empty if there is none
  int host_sharers = 1;  // the ranks that share the default host budget evenly
  KernelFlags kernels;

  void AddTo(FlagSet& flags, const std::string& device_help,
             BudgetUnits units = BudgetUnits::kBytesOrPercent);
  // The options with an unlimited budget; `chosen` is what `kernels` returned for the device.
  PlannerOptions Options(const DeviceDescription& description, const KernelOptions& chosen) const;
  // The program that the flags ask for, without a choice by the planner.
  ProgramChoice AskedProgram() const {
    return {.sub_batches = sub_batches.value_or(1),
            .batch_norm_in_parts = batch_norm_in_parts,
            .offload_params = offload_params};
  }
  // The options of programs that are planned with Options().
  static ProgramOptions Lowering(const ProgramChoice& choice) {
    return {.offload_params = choice.offload_params,
            .sub_batches = choice.sub_batches,
            .batch_norm_in_parts = choice.batch_norm_in_parts,
            .bucket_bytes = choice.buckets.bucket_bytes,
            .last_bucket_bytes = choice.buckets.last_bucket_bytes,
            .buckets_in_flight = choice.buckets_in_flight};
  }
  int64_t BudgetBytes(const NaturalPeaks& peaks) const;
  DeviceChoices Choices() const { return {.peer = peer, .engines = kernels.engines}; }
  HostBudget HostBudgetFor(const DeviceDescription& device) const;
  // The host budget of a plan from a file, to which no planning flag applies.
  HostBudget HostBudgetOfFile(const DeviceDescription& device) const;
  std::string PolicyName() const;
  bool has_budget() const { return budget.bytes.has_value() || budget.percent.has_value(); }

 private:
  HostBudget ShareOf(const HostBudget& all) const;  // of one of `host_sharers` ranks
};

}  // namespace neap::apps
