// Sessions whose planner keeps parameters on the host without being asked to.
#include <doctest/doctest.h>

#include <memory>
#include <string>

#include "neap/core/run/session.h"
#include "neap/layers/activation.h"
#include "neap/layers/fully_connected.h"
#include "neap/layers/softmax_cross_entropy.h"
#include "neap/memory/create_session.h"
#include "tests/own_memory_device.h"
#include "tests/small_training.h"

namespace neap {
namespace {

// A network for SmallNet()'s batches most of whose memory is parameters.
Graph WideNet() {
  Graph net({.name = "wide", .batch = 8});
  std::string x = net.Add("fc1", FullyConnected{.out_features = 512}, {net.Input({3, 8, 8})});
  x = net.Add("relu", Relu{}, {x});
  x = net.Add("fc2", FullyConnected{.out_features = 512}, {x});
  net.Loss(net.Add("fc3", FullyConnected{.out_features = 4}, {x}), SoftmaxCrossEntropy{});
  return net;
}

TEST_CASE("auto keeps parameters on the host below the smallest budget with them on the device") {
  const std::unique_ptr<CpuDevice> cpu = OpenCpu();
  OwnMemoryDevice device(*cpu);
  Session resident = CreateSession(WideNet(), device, {.policy = "auto"}).value();
  REQUIRE(resident.plan().host_resident_bytes == 0);
  const int64_t budget = resident.planning().minimum_budget_bytes - kBlockBytes;
  CHECK(absl::IsResourceExhausted(
      CreateSession(WideNet(), device, {.budget_bytes = budget, .offload_params = false})
          .status()));
  absl::StatusOr<Session> offloaded =
      CreateSession(WideNet(), device, {.budget_bytes = budget, .policy = "auto"});
  REQUIRE_MESSAGE(offloaded.ok(), offloaded.status().ToString());
  CHECK(offloaded->plan().host_resident_bytes > 0);
  CHECK(offloaded->plan().peak_bytes <= budget);

  // The same training, evaluation and checkpoints, also after the budget has changed.
  for (const int64_t next : {budget, kUnlimited, budget}) {
    REQUIRE(offloaded->SetBudget(next).ok());
    CHECK(offloaded->plan().host_resident_bytes > 0);  // a session keeps its choice
    CHECK(Train(*offloaded, 2) == Train(resident, 2));
    CHECK(offloaded->memory().measured_peak_bytes == offloaded->plan().peak_bytes);
    CHECK(offloaded->Evaluate(MakeBatch(9))->loss == resident.Evaluate(MakeBatch(9))->loss);
    CheckSameState(*offloaded, resident);
  }
}

TEST_CASE("the CPU's parameters stay where they are") {
  const std::unique_ptr<CpuDevice> cpu = OpenCpu();
  const Session natural = CreateSession(WideNet(), *cpu, {.policy = "auto"}).value();
  const int64_t budget = natural.planning().minimum_budget_bytes;
  const Session tight = CreateSession(WideNet(), *cpu, {.budget_bytes = budget}).value();
  CHECK(tight.plan().host_resident_bytes == 0);
  CHECK(absl::IsResourceExhausted(
      CreateSession(WideNet(), *cpu, {.budget_bytes = budget - kBlockBytes}).status()));
}

}  // namespace
}  // namespace neap
