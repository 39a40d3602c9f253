// The contract: memory is free of numerics. Random networks train to the same bits under every
// plan.
#include "tests/core/run/random_training.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "neap/layers/cpu/cpu_device.h"
#include "neap/memory/create_session.h"
#include "neap/memory/policies/policies.h"
#include "tests/random_graph.h"

namespace neap {
namespace {

using testing::kRandomTraining;
using testing::SameBits;
using testing::TrainedState;
using testing::TrainRandom;

constexpr DType kTypes[] = {DType::kFp32, DType::kBf16, DType::kFp16};

// Calls train(seed, device) for so many seeds, or as many as testing::RandomSeeds() says.
template <typename Train>
void ForSeeds(uint32_t usual, const Train& train) {
  const auto device = CpuDevice::Open();
  REQUIRE(device.ok());
  const uint32_t seeds = testing::RandomSeeds(usual);
  for (uint32_t seed = 0; seed < seeds; ++seed) {
    CAPTURE(seed);
    train(seed, **device);
  }
}

// keep-all and liveness are trained for every seed.
std::vector<std::string> PoliciesThatMoveOrRebuild() {
  std::vector<std::string> names;
  for (const Policy& policy : Policies()) {
    if (policy.name != "keep-all" && policy.name != "liveness") names.emplace_back(policy.name);
  }
  return names;
}

// Every other seed has another optimizer than SGD with momentum.
TrainingOptions TrainingOf(uint32_t seed) {
  constexpr Optimizer kOptimizers[] = {
      {.momentum = 0.5F, .weight_decay = 0.1F, .nesterov = true, .clip_norm = 0.5F},
      {.rule = Optimizer::Rule::kAdamW, .average_decay = 0.5F},
      {.rule = Optimizer::Rule::kAdamW,
       .weight_decay = 0.1F,
       .clip_norm = 1,
       .average_decay = 0.9F}};
  TrainingOptions training = kRandomTraining;
  if (seed % 2 == 1) training.optimizer = kOptimizers[seed / 2 % 3];
  return training;
}

// What the network trains to if nothing is fused, overwritten or freed.
TrainedState PlainlyTrained(uint32_t seed, testing::RandomGraphOptions of, Device& device,
                            const TrainingOptions& training = kRandomTraining) {
  of.fusion = false;
  return TrainRandom(testing::RandomGraph(seed, of), device,
                     {.policy = "keep-all", .in_place = false}, nullptr, 3, training);
}

// Trains under the minimum budget, where everything movable is moved or recomputed, or under one
// halfway to the peak of the plan without a budget, where some of it is.
void CheckPolicy(const Graph& graph, Device& device, const TrainingOptions& training,
                 PlannerOptions options, bool tight, const TrainedState& reference) {
  CAPTURE(options.policy);
  const absl::StatusOr<Session> session = CreateSession(graph, device, options, training);
  REQUIRE_MESSAGE(session.ok(), session.status().ToString());
  const int64_t minimum = session->planning().minimum_budget_bytes;
  // Evaluation can need more memory than training.
  const int64_t natural = std::max(minimum, session->plan().peak_bytes);
  options.budget_bytes = tight ? minimum : (minimum + natural) / 2;
  CAPTURE(options.budget_bytes);
  CAPTURE(options.peer_budget_bytes);
  CHECK(SameBits(reference, TrainRandom(graph, device, options, nullptr, 3, training)));
}

}  // namespace

TEST_CASE("random networks of all types train to the same bits whatever the plan") {
  const std::vector<std::string> policies = PoliciesThatMoveOrRebuild();
  ForSeeds(500, [&](uint32_t seed, Device& device) {
    const Layout layout = seed / 6 % 4 == 3 ? Layout::kChannelsLast
                                            : Layout::kChannelsFirst;  // with every other choice
    const DType dtype = kTypes[seed / 5 % 3];
    const testing::RandomGraphOptions of = {.image_norms = seed / 3 % 3 == 1,
                                            .attention = seed / 2 % 4 == 1,
                                            .dtype = dtype,
                                            .layout = layout,
                                            .residual = seed / 7 % 4 == 1,
                                            .dense = seed / 7 % 4 == 2,
                                            .mobile = seed / 7 % 4 == 3,
                                            .auxiliary = seed / 4 % 3 == 1,
                                            .ports = seed % 2 == 1,
                                            .shares = seed % 3 == 1};
    const Graph graph = testing::RandomGraph(seed, of);
    const TrainingOptions training = TrainingOf(seed);
    const TrainedState reference = PlainlyTrained(seed, of, device, training);
    for (float loss : reference.at("loss")) REQUIRE(std::isfinite(loss));

    // Placements and in-place settings alternate over the seeds, with bytes to spare and with
    // none.
    PlannerOptions options = {
        .policy = "liveness", .placement = kPlacementMethods[seed % 3], .in_place = seed % 2 == 0};
    int64_t minimum = 0;
    CHECK(SameBits(reference, TrainRandom(graph, device, options, &minimum, 3, training)));
    options.budget_bytes = minimum;
    CHECK(SameBits(reference, TrainRandom(graph, device, options, nullptr, 3, training)));
    options.budget_bytes = minimum - kBlockBytes;
    const absl::StatusOr<Session> refused = CreateSession(graph, device, options, training);
    REQUIRE(!refused.ok());
    CHECK(refused.status().code() == absl::StatusCode::kResourceExhausted);
    CHECK(std::string(refused.status().message()).find(std::to_string(minimum)) !=
          std::string::npos);

    // One of the other policies, in turn, tight every other time; with no peer, with one that takes
    // few of the copies, with one that takes all of them.
    constexpr int64_t kPeers[] = {0, 8 * kBlockBytes, kUnlimited};
    CheckPolicy(
        graph, device, training,
        {.peer_budget_bytes = kPeers[seed / 2 % 3], .policy = policies[seed % policies.size()]},
        seed / policies.size() % 2 == 0, reference);
  });
}

TEST_CASE("networks of sequences and volumes train to the same bits whatever the plan") {
  const std::vector<std::string> policies = PoliciesThatMoveOrRebuild();
  ForSeeds(36, [&](uint32_t seed, Device& device) {
    const testing::RandomGraphOptions of = {
        .axes = seed % 2 == 0 ? 1 : 3,
        .image = seed % 2 == 0 ? 12 : 4,
        .image_norms = seed / 2 % 2 == 1,
        .dtype = kTypes[seed / 2 % 3],
        .layout = seed / 4 % 2 == 1 ? Layout::kChannelsLast : Layout::kChannelsFirst,
        .residual = seed / 3 % 4 == 1,
        .dense = seed / 3 % 4 == 2,
        .mobile = seed / 3 % 4 == 3,
        .ports = seed / 8 % 2 == 1,
        .shares = seed % 5 == 1};
    const Graph graph = testing::RandomGraph(seed, of);
    const TrainingOptions training = TrainingOf(seed);
    const TrainedState reference = PlainlyTrained(seed, of, device, training);
    for (float loss : reference.at("loss")) REQUIRE(std::isfinite(loss));
    CHECK(SameBits(reference,
                   TrainRandom(graph, device, {.policy = "liveness"}, nullptr, 3, training)));
    for (const uint32_t turn : {seed, seed + 1}) {
      CheckPolicy(graph, device, training, {.policy = policies[turn % policies.size()]},
                  /*tight=*/turn % 4 < 2, reference);
    }
  });
}

TEST_CASE("sums that several layers read train to the same bits fused and unfused") {
  const std::vector<std::string> policies = PoliciesThatMoveOrRebuild();
  ForSeeds(48, [&](uint32_t seed, Device& device) {
    const testing::RandomGraphOptions of = {
        .max_blocks = 4,
        .dtype = kTypes[seed % 3],
        .layout = seed / 3 % 2 == 1 ? Layout::kChannelsLast : Layout::kChannelsFirst,
        .residual = true,
        .read_twice = true,
        .auxiliary = seed / 6 % 2 == 1,
        .shares = seed % 2 == 1};
    const Graph graph = testing::RandomGraph(seed, of);
    const TrainedState reference = PlainlyTrained(seed, of, device);
    CHECK(SameBits(reference, TrainRandom(graph, device, {.policy = "liveness"}, nullptr)));
    CheckPolicy(graph, device, kRandomTraining, {.policy = policies[seed % policies.size()]},
                /*tight=*/true, reference);
  });
}

}  // namespace neap
