// How to plan: the flags that all subcommands share, and the peaks that a budget in percent refers
// to.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "apps/cli/flags.h"
#include "apps/cli/kernel_flags.h"
#include "neap/core/device/device.h"
#include "neap/core/program/program.h"
#include "neap/memory/planner.h"

namespace neap::apps {

// "12GiB", or "60%": of what training takes when nothing is managed.
struct Budget {
  std::optional<int64_t> bytes = {};
  std::optional<double> percent = {};
};
FlagValue ReadBudget(Budget* budget);

// What a network takes with all the memory it wants.
struct NaturalPeaks {
  int64_t keep_all_bytes = 0;  // every tensor has bytes of its own: the natural peak
  int64_t liveness_bytes = 0;  // bytes are free after a tensor's last use, results go in place
};
absl::StatusOr<NaturalPeaks> FindNaturalPeaks(const Program& program, const PlannerOptions& options,
                                              const DeviceDescription& device,
                                              EngineCatalog& catalog);

struct PlanningFlags {
  Budget budget;
  std::optional<int64_t> host_budget_bytes = {};
  std::optional<int64_t> peer_budget_bytes = {};
  std::string policy = "liveness";
  std::string placement = "offline";
  std::string evict = "lru";
  bool no_in_place = false;
  bool offload_params = false;
  bool strict = false;
  std::string device;  // empty: choose
  std::string peer;    // empty: none
  KernelFlags kernels;

  void AddTo(FlagSet& flags, const std::string& device_help);
  // With an unlimited budget; `chosen` is what `kernels` gave for the device.
  PlannerOptions Options(const DeviceDescription& description, const KernelOptions& chosen) const;
  int64_t BudgetBytes(const NaturalPeaks& peaks) const;
  bool has_budget() const { return budget.bytes.has_value() || budget.percent.has_value(); }
};

}  // namespace neap::apps
