// Planning time: from a program to a plan (`MakePlan`), and from a graph to a program (`Lower`).
#include <benchmark/benchmark.h>

#include <string>

#include "neap/core/plan/plan.h"
#include "neap/core/program/passes.h"
#include "neap/core/program/program.h"
#include "neap/layers/catalog/default_catalog.h"
#include "neap/layers/devices/device_description.h"
#include "neap/memory/planner.h"
#include "neap/nets/residual/resnet.h"

namespace neap {
namespace {

Graph ResNet152() { return nets::ResNet({.blocks = {3, 8, 36, 3}, .batch = 32}); }
// 2 + 3 * 3333 = 10,001 layers, counted as in the names of ResNets.
Graph ResNet10k() { return nets::ResNet({.blocks = {3, 1000, 2327, 3}, .batch = 1}); }

struct Net {
  std::string name;
  Graph (*make)();
};

void Plans(benchmark::State& state, const Net& net, const PlannerOptions& options) {
  const DeviceDescription device = DescribedDevice("h200").value();
  const Program program = Lower(net.make(), {}, device).value();
  DefaultCatalog catalog;
  PlanResult result;
  for (auto _ : state) result = MakePlan(program, options, device, catalog).value();
  state.counters["steps"] = static_cast<double>(program.steps.size());
  const double bound = static_cast<double>(result.stats.placement_lower_bound);
  // The bound is that of what is placed, without the incoming batch above it.
  const auto placed = static_cast<double>(result.plan.peak_bytes - IncomingBytes(result.plan));
  state.counters["gap_percent"] = 100.0 * (placed - bound) / bound;
}

void Programs(benchmark::State& state, const Net& net) {
  const Graph graph = net.make();
  const DeviceDescription device = DescribedDevice("h200").value();
  for (auto _ : state) benchmark::DoNotOptimize(Lower(graph, {}, device).value());
}

void RegisterPlans(const Net& net, const std::string& policy, bool in_place) {
  for (const PlacementMethod placement : kPlacementMethods) {
    const std::string label = "plan/" + net.name + "/" + policy +
                              (in_place ? "/in-place/" : "/not-in-place/") +
                              std::string(Name(placement));
    const PlannerOptions options = {.policy = policy, .placement = placement, .in_place = in_place};
    benchmark::RegisterBenchmark(label.c_str(), Plans, net, options)->Unit(benchmark::kMillisecond);
  }
}

bool RegisterAll() {
  for (const Net& net : {Net{"resnet152", ResNet152}, Net{"resnet10001", ResNet10k}}) {
    benchmark::RegisterBenchmark(("program/" + net.name).c_str(), Programs, net)
        ->Unit(benchmark::kMillisecond);
    for (const char* policy : {"liveness", "keep-all"}) {
      for (const bool in_place : {true, false}) RegisterPlans(net, policy, in_place);
    }
  }
  return true;
}
const bool registered = RegisterAll();

}  // namespace
}  // namespace neap
