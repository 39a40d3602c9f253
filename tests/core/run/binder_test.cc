#include "neap/core/run/binder.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "neap/core/program/program.h"
#include "neap/core/verifier/verifier.h"
#include "neap/layers/activation.h"
#include "neap/layers/cpu/cpu_device.h"
#include "neap/layers/fully_connected.h"
#include "neap/layers/softmax_cross_entropy.h"
#include "neap/memory/planner.h"
#include "tests/random_graph.h"

namespace neap {
namespace {

using Transfer = BoundPlan::Transfer;

template <typename Kind>
std::vector<Kind> OfKind(const BoundPlan& bound) {
  std::vector<Kind> found;
  for (const BoundPlan::Operation& operation : bound.operations) {
    if (const auto* kind = std::get_if<Kind>(&operation)) found.push_back(*kind);
  }
  return found;
}

int64_t CountWaits(const Plan& plan) {
  return std::count_if(plan.actions.begin(), plan.actions.end(), [](const Action& action) {
    return std::holds_alternative<WaitAction>(action);
  });
}

Program ProgramOf(const Graph& graph, const PlannerOptions& options) {
  return BuildProgram(graph, {.offload_params = options.offload_params.value_or(false)}).value();
}

// A plan that moves tensors, of a training program, bound to memory that nothing is run in.
class Bound {
 public:
  Bound(const Graph& graph, PlannerOptions options)
      : device_(CpuDevice::Open().value()), program_(ProgramOf(graph, options)) {
    const auto make = [&] {
      return MakePlan(program_, options, device_->description(), device_->backend()).value();
    };
    options.budget_bytes = make().stats.minimum_budget_bytes;
    plan = make().plan;
    REQUIRE(Verify(plan).ok());
    arena_ = device_->Allocate(MemoryKind::kDevice, plan.arena_bytes).value();
    if (plan.host_resident_bytes > 0)
      residents_ = device_->Allocate(MemoryKind::kPinnedHost, plan.host_resident_bytes).value();
    bound = BindPlan(program_, plan, *device_, {arena_.data(), residents_.data()}).value();
  }

  // Where the plan says that a copy lies.
  const std::byte* AddressOf(const OffloadAction& copy) const {
    if (copy.pool == Pool::kPeer) return bound.pools[1].data() + copy.offset;
    if (copy.offset < plan.host_resident_bytes) return residents_.data() + copy.offset;
    return bound.pools[0].data() + (copy.offset - plan.host_resident_bytes);
  }

  Plan plan;
  BoundPlan bound;

 private:
  std::unique_ptr<CpuDevice> device_;
  Program program_;
  Buffer arena_, residents_;
};

// Copies go where the plan says and come from there, and nothing waits but what it says.
void CheckBound(const Bound& at) {
  std::vector<std::optional<OffloadAction>> copies(at.plan.tensors.size());
  for (const PlanTensor& tensor : at.plan.tensors) {
    if (tensor.on_host())
      copies[tensor.id.index()] = OffloadAction{tensor.id, Pool::kHost, *tensor.host_offset};
  }
  const std::vector<Transfer> transfers = OfKind<Transfer>(at.bound);
  size_t next = 0;
  for (size_t i = 0; i < at.plan.actions.size(); ++i) {
    if (const auto* offload = std::get_if<OffloadAction>(&at.plan.actions[i])) {
      copies[offload->tensor.index()] = *offload;
      REQUIRE(transfers[next].action == i);
      REQUIRE(transfers[next++].destination == at.AddressOf(*offload));
    } else if (const auto* prefetch = std::get_if<PrefetchAction>(&at.plan.actions[i])) {
      REQUIRE(transfers[next].action == i);
      REQUIRE(transfers[next++].source == at.AddressOf(*copies[prefetch->tensor.index()]));
    }
  }
  CHECK(next == transfers.size());
  CHECK(next > 0);
  constexpr int64_t kJoins = 4;  // both copy streams with compute, at the beginning and at the end
  CHECK(static_cast<int64_t>(OfKind<BoundPlan::WaitEvent>(at.bound).size()) ==
        CountWaits(at.plan) + kJoins);
}

TEST_CASE("copies are bound to the places in the plan, and nothing waits but where the plan says") {
  for (uint32_t seed = 1; seed <= 12; ++seed) {
    CAPTURE(seed);
    const Graph graph = testing::RandomGraph(seed);
    const Bound host(graph, {.policy = "vdnn-all"});
    CheckBound(host);
    CHECK(host.bound.pools[0].size_bytes() == host.plan.host_pool_bytes);
    CheckBound(
        Bound(graph, {.peer_budget_bytes = host.plan.host_pool_bytes / 2, .policy = "vdnn-all"}));
  }
}

TEST_CASE(
    "tensors that are on the host between iterations keep their bytes, and others have none "
    "there") {
  Graph net({.name = "wide", .batch = 64});
  std::string x = net.Add("fc1", FullyConnected{.out_features = 512}, {net.Input({3, 8, 8})});
  x = net.Add("relu", Relu{}, {x});
  net.Loss(net.Add("fc2", FullyConnected{.out_features = 512}, {x}), SoftmaxCrossEntropy{});
  const Bound at(net, {.policy = "vdnn-all", .offload_params = true});
  CheckBound(at);
  CHECK(at.plan.host_resident_bytes > 0);
  CHECK(at.plan.host_pool_bytes > at.plan.host_resident_bytes);
  CHECK(at.bound.pools[0].size_bytes() == at.plan.host_pool_bytes - at.plan.host_resident_bytes);
  for (const PlanTensor& tensor : at.plan.tensors) {
    if (!tensor.on_host()) continue;
    CHECK(at.bound.given[tensor.id.index()] ==
          at.AddressOf({tensor.id, Pool::kHost, *tensor.host_offset}));
  }
}

TEST_CASE("a plan that moves nothing reserves no pool and waits for nothing") {
  const Bound at(testing::RandomGraph(1), {.policy = "liveness"});
  CHECK(at.bound.pools[0].size_bytes() == 0);
  CHECK(at.bound.pools[1].size_bytes() == 0);
  CHECK(OfKind<BoundPlan::WaitEvent>(at.bound).empty());
}

}  // namespace
}  // namespace neap
