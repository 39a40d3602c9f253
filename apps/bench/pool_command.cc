// neap bench pool: the arena against an allocation for each tensor.
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "apps/bench/bench.h"
#include "apps/bench/pool_comparison.h"
#include "apps/cli/device_flag.h"
#include "apps/cli/flags.h"
#include "apps/cli/interrupt.h"
#include "apps/cli/kernel_flags.h"
#include "apps/cli/net_flags.h"
#include "apps/cli/output.h"
#include "neap/core/base/status_macros.h"
#include "neap/memory/policies/policies.h"

namespace neap::apps {
namespace {

constexpr int64_t kMaxPoolSteps = 1'000'000;

struct PoolBenchCommand {
  NetFlags net;
  KernelFlags kernels;
  std::string policy = "liveness";
  std::string device;
  int64_t steps = 30;
  bool json = false;
};

void AddFlags(PoolBenchCommand& command, FlagSet& flags) {
  std::vector<std::string> policies;
  for (const Policy& known : Policies()) policies.emplace_back(known.name);
  flags.Positional("NET", kNetHelp, &command.net.name);
  command.net.AddSizesTo(flags);
  flags.Add("policy", "NAME", "which tensors are kept, offloaded or recomputed",
            OneOf(policies, &command.policy));
  command.kernels.AddDatabaseTo(flags);
  flags.Add("device", "DEVICE", "cpu or cuda:N (cuda:0 if there is one, else cpu)",
            Text(&command.device));
  flags.Add("steps", "N", "training steps of each side; the time is the median",
            Integer(1, kMaxPoolSteps, &command.steps));
  flags.Add("json", "print one JSON object", &command.json);
}

std::string ToText(const std::string& net, const std::string& device,
                   const PoolComparison& comparison) {
  const auto row = [&](const char* what, double seconds) {
    return absl::StrFormat("  %-44s %10.3f ms  %10.1f images/s\n", what, 1e3 * seconds,
                           comparison.ImagesPerSecond(seconds));
  };
  return absl::StrFormat("%s, batch %d, on %s, %d allocations in a step, median of %d steps\n", net,
                         comparison.batch, device, comparison.allocations, comparison.steps) +
         row("allocated and freed by the device", comparison.separate_seconds) +
         row("places in an arena", comparison.pool_seconds) +
         row("places in an arena, kernels replayed", comparison.replayed_seconds) +
         absl::StrFormat("  speedup of the arena %.2fx\n", comparison.speedup());
}

Json ToJson(const std::string& net, const std::string& device, const PoolComparison& comparison) {
  return {{"bench", "pool"},
          {"net", net},
          {"batch", comparison.batch},
          {"device", device},
          {"steps", comparison.steps},
          {"allocations", comparison.allocations},
          {"separate_ms", 1e3 * comparison.separate_seconds},
          {"pool_ms", 1e3 * comparison.pool_seconds},
          {"replayed_ms", 1e3 * comparison.replayed_seconds},
          {"speedup", comparison.speedup()}};
}

}  // namespace

absl::StatusOr<int> RunPoolBench(const std::vector<std::string>& args) {
  PoolBenchCommand command;
  FlagSet flags("neap bench pool NET [flags]",
                "Trains a network by one plan, with its tensors in one arena, and with each tensor "
                "and workspace\nallocated from the device (cudaMalloc) and freed (cudaFree) as the "
                "plan uses it.");
  AddFlags(command, flags);
  RETURN_IF_ERROR(flags.Parse(args));
  if (flags.help()) return PrintHelp(flags);
  RETURN_IF_ERROR(command.net.TakePlannedBatch(flags));
  RETURN_IF_ERROR(command.net.CheckEngines(command.kernels.engines));
  WatchForInterrupt();
  ASSIGN_OR_RETURN(const Graph graph, command.net.Build());
  ASSIGN_OR_RETURN(const std::unique_ptr<Device> device,
                   OpenDevice(command.device, {.engines = command.kernels.engines}));
  ASSIGN_OR_RETURN(const KernelOptions kernels,
                   command.kernels.Options(device->description(), device->backend()));
  const absl::StatusOr<PoolComparison> comparison =
      ComparePool(graph, *device, {.policy = command.policy, .kernels = kernels}, command.steps);
  if (absl::IsCancelled(comparison.status())) return InterruptedExitCode();
  RETURN_IF_ERROR(comparison.status());
  const std::string& name = device->description().name;
  command.json ? PrintJson(ToJson(command.net.name, name, *comparison))
               : Print(ToText(command.net.name, name, *comparison));
  return 0;
}

}  // namespace neap::apps
