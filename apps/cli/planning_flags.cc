#include "apps/cli/planning_flags.h"

#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "apps/cli/numbers.h"
#include "apps/cli/outcome.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/base/units.h"
#include "neap/memory/placement/placement_method.h"
#include "neap/memory/policies/policies.h"

namespace neap::apps {
namespace {

constexpr int64_t kHostPercent = 75;
// Every part has steps of its own, each of which takes time to plan.
constexpr int64_t kMaxSubBatches = 1 << 16;

absl::Status ReadBudgetPercent(const std::string& text, Budget& budget) {
  const std::optional<double> percent = ReadPercent(text);
  if (!percent.has_value() || *percent <= 0 || *percent > 1000) {
    return BadUsage(
        absl::StrCat("'", text.substr(0, 64), "' is not a percentage above 0% and at most 1000%"));
  }
  budget = {.percent = percent};
  return absl::OkStatus();
}

}  // namespace

FlagValue ReadBudget(BudgetUnits units, Budget* budget) {
  const auto read = [units, budget](const std::string& text) {
    if (!text.empty() && text.back() == '%') {
      if (units == BudgetUnits::kBytesOrPercent) return ReadBudgetPercent(text, *budget);
      return BadUsage(absl::StrCat("'", text.substr(0, 64),
                                   "': only bytes are taken here, because a percentage would be "
                                   "another amount for every size"));
    }
    const absl::StatusOr<int64_t> bytes = ParseBytes(text);
    if (!bytes.ok()) return AsBadUsage(bytes.status());
    *budget = {.bytes = *bytes};
    return absl::OkStatus();
  };
  return {.read = read};
}

namespace {

// One value, or several with commas, the first of which is then also in `value`.
template <typename T>
FlagValue OneOrSeveral(const std::function<absl::Status(const std::string&, T*)>& read_one,
                       T* value, std::vector<T>* several) {
  const auto read = [=](const std::string& text) -> absl::Status {
    several->clear();
    for (const auto part : absl::StrSplit(text, ','))
      RETURN_IF_ERROR(read_one(std::string(part), &several->emplace_back()));
    *value = several->front();
    if (several->size() == 1) several->clear();
    return absl::OkStatus();
  };
  return {.read = read};
}

absl::Status ReadOneBudget(const std::string& text, Budget* budget) {
  return ReadBudget(BudgetUnits::kBytesOrPercent, budget).read(text);
}

absl::Status ReadPeer(const std::string& text, std::string* peer) {
  if (text.empty()) return BadUsage("it names a GPU for each rank, or none");
  *peer = text == "none" ? "" : text;
  return absl::OkStatus();
}

}  // namespace

std::string HostBudget::ToText() const {
  if (bytes == kUnlimited) return "unlimited";
  return absl::StrCat(FormatBytes(bytes), reason.empty() ? "" : absl::StrCat(" (", reason, ")"));
}

Json HostBudget::ToJson() const { return bytes == kUnlimited ? Json() : Json(bytes); }

HostBudget MostHostMemory(const DeviceDescription& device) {
  if (device.host_memory_bytes == 0) return {};
  return {.bytes = device.host_memory_bytes * kHostPercent / 100,
          .reason = absl::StrCat(kHostPercent, "% of the host's memory")};
}

HostBudget DefaultHostBudget(const DeviceDescription& device) {
  if (!device.has_own_memory) return {.bytes = 0, .reason = "the host's memory is the device's"};
  return MostHostMemory(device);
}

absl::StatusOr<NaturalPeaks> FindNaturalPeaks(const Program& program, const PlannerOptions& options,
                                              const DeviceDescription& device,
                                              EngineCatalog& catalog) {
  const PlannerOptions keep_all = {
      .policy = "keep-all", .in_place = false, .strict = options.strict};
  const PlannerOptions liveness = {.policy = "liveness", .strict = options.strict};
  ASSIGN_OR_RETURN(const PlanResult all, MakePlan(program, keep_all, device, catalog));
  ASSIGN_OR_RETURN(const PlanResult live, MakePlan(program, liveness, device, catalog));
  return NaturalPeaks{.keep_all_bytes = all.plan.peak_bytes - IncomingBytes(all.plan),
                      .liveness_bytes = live.plan.peak_bytes - IncomingBytes(live.plan)};
}

void AddSubBatches(std::string default_text, std::optional<int64_t>* count,
                   bool* batch_norm_in_parts, FlagSet& flags) {
  FlagValue value = Integer(1, kMaxSubBatches, count);
  value.default_text = std::move(default_text);
  flags.Add("sub-batches", "N",
            "parts in which the batch is run, one after another, before one update",
            std::move(value));
  flags.Add(
      "batch-norm-in-parts",
      "run networks with batch norms in sub-batches, too: in training, each part has the mean "
      "and variance of its own images, and running statistics are updated once for each part, "
      "so results differ from those of the whole batch",
      batch_norm_in_parts);
}

void PlanningFlags::AddTo(FlagSet& flags, const std::string& device_help, BudgetUnits units) {
  const bool for_ranks = units == BudgetUnits::kForEachRank;
  std::vector<std::string> known_policies;
  for (const Policy& known : Policies()) known_policies.emplace_back(known.name);
  flags.Add("budget", "BYTES",
            absl::StrCat("device memory for everything, e.g. 12GiB (2^30) or 12GB (10^9)",
                         units == BudgetUnits::kBytes ? "" : "; 60% means 60% of the natural peak",
                         for_ranks ? "; several, with commas, are those of the ranks" : ""),
            for_ranks ? OneOrSeveral<Budget>(ReadOneBudget, &budget, &rank_budgets)
                      : ReadBudget(units, &budget));
  flags.Add("host-budget", "BYTES",
            absl::StrCat("pinned host memory for offloaded tensors (", kHostPercent,
                         "% of the host's memory, on a CPU 0)"),
            ReadBytes(&host_budget_bytes, 0));
  flags.Add("peer-budget", "BYTES",
            "memory of a peer GPU for offloaded tensors, used before the host's (none)",
            ReadBytes(&peer_budget_bytes));
  const bool for_sizes = units == BudgetUnits::kBytes;
  FlagValue one_policy = OneOf(known_policies, &policy);
  if (policy.empty()) {
    one_policy.default_text =
        absl::StrFormat("%s with --budget, else %s", DefaultPolicy(true), DefaultPolicy(false));
  }
  if (for_sizes) {
    const auto read_one = [known_policies](const std::string& text, std::string* value) {
      return OneOf(known_policies, value).read(text);
    };
    one_policy.read = OneOrSeveral<std::string>(read_one, &policy, &policies).read;
  }
  flags.Add("policy", for_sizes ? "NAMES" : "NAME",
            absl::StrCat("which tensors are kept, offloaded or recomputed",
                         for_sizes ? "; several, with commas, have a row each" : ""),
            std::move(one_policy));
  flags.Add("placement", "NAME", "how tensors are placed in the arena",
            OneOf<PlacementMethod>(kPlacementMethods, ParsePlacementMethod, &placement));
  AddSubBatches(units == BudgetUnits::kBytes ? "1, in peak-batch as many as allow larger batches"
                                             : "1, or as many as are faster in the budget",
                &sub_batches, &batch_norm_in_parts, flags);
  flags.Add("evict", "RULE",
            "which tensor to evict first: least recently used, or next used farthest in the future",
            OneOf({"lru", "belady"}, &evict));
  flags.Add("no-in-place", "never write a result over its operand", &no_in_place);
  flags.Add(
      "offload-params",
      "keep parameters and optimizer state on the host except while a step uses them; without "
      "this flag, neap plan and train do so where policy auto is faster in the budget",
      &offload_params);
  flags.Add("strict", "compute the same bits under every budget; always on for the CPU", &strict);
  flags.Add("device", "DEVICE", device_help, Text(&device));
  flags.Add(
      "peer", "DEVICE",
      absl::StrCat("cuda:N, the GPU of --peer-budget (neap devices lists possible peers)",
                   for_ranks ? "; several, with commas, are those of the ranks, or none" : ""),
      for_ranks ? OneOrSeveral<std::string>(ReadPeer, &peer, &rank_peers) : Text(&peer));
  kernels.AddTo(flags);
}

PlannerOptions PlanningFlags::Options(const DeviceDescription& description,
                                      const KernelOptions& chosen) const {
  return {.host_budget_bytes = HostBudgetFor(description).bytes,
          .peer_budget_bytes = peer_budget_bytes.value_or(0),
          .policy = PolicyName(),
          .placement = placement,
          .sub_batches = sub_batches,
          .batch_norm_in_parts = batch_norm_in_parts,
          .offload_params = offload_params ? std::optional(true) : std::nullopt,
          .eviction = evict == "belady" ? EvictionRule::kBelady : EvictionRule::kLru,
          .in_place = !no_in_place,
          .strict = strict || description.kind == "cpu",
          .kernels = chosen};
}

HostBudget PlanningFlags::HostBudgetFor(const DeviceDescription& device) const {
  if (host_budget_bytes.has_value()) return {.bytes = *host_budget_bytes};
  return ShareOf(DefaultHostBudget(device));
}

HostBudget PlanningFlags::HostBudgetOfFile(const DeviceDescription& device) const {
  return ShareOf(MostHostMemory(device));
}

HostBudget PlanningFlags::ShareOf(const HostBudget& all) const {
  if (host_sharers == 1 || all.bytes == kUnlimited || all.bytes == 0) return all;
  return {.bytes = all.bytes / host_sharers};
}

std::string PlanningFlags::PolicyName() const {
  return policy.empty() ? std::string(DefaultPolicy(has_budget())) : policy;
}

int64_t PlanningFlags::BudgetBytes(const NaturalPeaks& peaks) const {
  if (budget.bytes.has_value()) return *budget.bytes;
  if (!budget.percent.has_value()) return kUnlimited;
  const double bytes = *budget.percent / 100 * static_cast<double>(peaks.keep_all_bytes);
  return std::max<int64_t>(1, static_cast<int64_t>(bytes));
}

}  // namespace neap::apps
