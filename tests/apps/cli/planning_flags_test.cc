#include "apps/cli/planning_flags.h"

#include <doctest/doctest.h>

#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "neap/layers/devices/device_description.h"

namespace neap::apps {
namespace {

using Args = std::vector<std::string>;

// The flags, and what they hold once the arguments are read.
struct Parsed {
  PlanningFlags planning;
  FlagSet flags{"test", "Plans."};

  explicit Parsed(const Args& args) {
    planning.AddTo(flags, "a device");
    REQUIRE(flags.Parse(args).ok());
  }
  PlannerOptions Options(const DeviceDescription& device) const {
    return planning.Options(device, {});
  }
};

TEST_CASE("the policy is superneurons with a budget, else liveness, unless --policy names one") {
  const DeviceDescription h200 = DescribedDevice("h200").value();
  CHECK(Parsed({}).Options(h200).policy == "liveness");
  CHECK(Parsed({"--budget", "12GiB"}).Options(h200).policy == "auto");
  CHECK(Parsed({"--budget", "60%"}).Options(h200).policy == "auto");
  CHECK(Parsed({"--budget", "60%", "--policy", "liveness"}).Options(h200).policy == "liveness");
  CHECK(Parsed({"--policy", "chen"}).Options(h200).policy == "chen");
}

TEST_CASE("three quarters of the host's memory may be pinned, unless --host-budget is given") {
  const DeviceDescription h200 = DescribedDevice("h200").value();
  CHECK(Parsed({}).Options(h200).host_budget_bytes == 192 * kGiB);
  CHECK(Parsed({}).planning.HostBudgetFor(h200).ToText() ==
        "192.000 GiB (75% of the host's memory)");
  const Parsed given({"--host-budget", "1GiB"});
  CHECK(given.Options(h200).host_budget_bytes == kGiB);
  CHECK(given.planning.HostBudgetFor(h200).ToText() == "1.000 GiB");
  CHECK(given.planning.HostBudgetFor(h200).ToJson() == kGiB);
  const HostBudget unknown =
      DefaultHostBudget({.name = "a device on some host", .has_own_memory = true});
  CHECK(unknown.bytes == kUnlimited);
  CHECK(unknown.ToText() == "unlimited");
  CHECK(unknown.ToJson().is_null());
}

TEST_CASE("nothing moves to a host whose memory is the device's, unless --host-budget is given") {
  const DeviceDescription cpu = {
      .name = "a CPU", .kind = "cpu", .host_memory_bytes = 4 * kGiB, .has_own_memory = false};
  const Parsed free({});
  CHECK(free.Options(cpu).host_budget_bytes == 0);
  CHECK(!free.Options(cpu).has_room_outside());
  CHECK(free.planning.HostBudgetFor(cpu).ToText() == "0 B (the host's memory is the device's)");
  CHECK(free.planning.HostBudgetFor(cpu).ToJson() == 0);
  // To a plan from a file, which moves what it was planned to move, no flag applies.
  CHECK(free.planning.HostBudgetOfFile(cpu).bytes == 3 * kGiB);
  CHECK(Parsed({"--host-budget", "1MiB"}).Options(cpu).host_budget_bytes == kMiB);
  for (const char* const none : {"0", "0B", "0MiB"}) {
    CAPTURE(none);
    const Parsed given({"--host-budget", none});
    CHECK(given.Options(DescribedDevice("h200").value()).host_budget_bytes == 0);
    CHECK(given.planning.HostBudgetFor(cpu).ToText() == "0 B");
  }
  Parsed ranks({});
  ranks.planning.host_sharers = 2;
  CHECK(ranks.Options(cpu).host_budget_bytes == 0);
  CHECK(ranks.planning.HostBudgetOfFile(cpu).bytes == 3 * kGiB / 2);
}

TEST_CASE("a budget in percent is read, and is in the help text, only where it is allowed") {
  for (const BudgetUnits units : {BudgetUnits::kBytes, BudgetUnits::kBytesOrPercent}) {
    const bool takes_percent = units == BudgetUnits::kBytesOrPercent;
    PlanningFlags planning;
    FlagSet flags("test", "Plans.");
    planning.AddTo(flags, "a device", units);
    CHECK((flags.HelpText().find("60%") != std::string::npos) == takes_percent);
    CHECK(flags.Parse({"--budget", "60%"}).ok() == takes_percent);
    CHECK(planning.budget.percent.has_value() == takes_percent);
    CHECK(flags.Parse({"--budget", "12GiB"}).ok());
    CHECK(planning.budget.bytes == 12 * kGiB);
  }
}

TEST_CASE("a flag is known to have been given in each of its forms") {
  const Parsed parsed({"--budget=1GiB", "--strict", "--policy", "chen"});
  for (const char* given : {"budget", "strict", "policy"}) CHECK(parsed.flags.Given(given));
  for (const char* other : {"placement", "chen", "no-in-place"}) CHECK(!parsed.flags.Given(other));
}

TEST_CASE("every planning flag except those of the devices is in kPlanningChoices") {
  std::set<std::string> choices(kPlanningChoices.begin(), kPlanningChoices.end());
  choices.insert({"device", "peer", "help"});
  std::set<std::string> flags;
  for (const absl::string_view line : absl::StrSplit(Parsed({}).flags.HelpText(), '\n')) {
    if (line.substr(0, 4) != "  --") continue;
    flags.emplace(line.substr(4, line.find(' ', 4) - 4));
  }
  CHECK(flags == choices);
}

}  // namespace
}  // namespace neap::apps
