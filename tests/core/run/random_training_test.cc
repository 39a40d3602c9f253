// The contract: memory is free of numerics. Random networks train to the same bits under every
// plan.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <string>

#include "neap/core/base/philox.h"
#include "neap/core/run/session.h"
#include "neap/layers/cpu/cpu_device.h"
#include "neap/memory/create_session.h"
#include "neap/memory/policies/policies.h"
#include "tests/random_graph.h"

namespace neap {
namespace {

constexpr int kSteps = 3;
// Sums without normalisation grow: slow enough for losses to stay finite.
constexpr TrainingOptions kTraining = {.learning_rate = {.base = 1e-3F}};

using State = std::map<std::string, std::vector<float>>;  // by name

Batch RandomBatch(const Plan& plan, int64_t classes, uint64_t seed) {
  Batch batch;
  for (const PlanTensor& tensor : plan.tensors) {
    if (tensor.name != "input") continue;
    batch.images.resize(static_cast<size_t>(tensor.shape.elements()));
    batch.labels.resize(static_cast<size_t>(plan.batch));
    batch.size = plan.batch;
  }
  for (size_t i = 0; i < batch.images.size(); ++i) {
    batch.images[i] = 2 * ToUnitFloat(Philox({.key = seed, .stream = 1, .position = i})[0]) - 1;
  }
  for (size_t i = 0; i < batch.labels.size(); ++i) {
    const uint32_t random = Philox({.key = seed, .stream = 2, .position = i})[0];
    batch.labels[i] = static_cast<int32_t>(random % static_cast<uint32_t>(classes));
  }
  return batch;
}

// Losses and every persistent tensor after a few steps.
State Train(const Graph& graph, Device& device, const PlannerOptions& options,
            int64_t* minimum_budget) {
  absl::StatusOr<Session> session = CreateSession(graph, device, options, kTraining);
  REQUIRE_MESSAGE(session.ok(), session.status().ToString());
  if (minimum_budget != nullptr) *minimum_budget = session->planning().minimum_budget_bytes;
  State state;
  for (int step = 0; step < kSteps; ++step) {
    const absl::StatusOr<float> loss =
        session->TrainStep(RandomBatch(session->plan(), 4, static_cast<uint64_t>(step)));
    REQUIRE_MESSAGE(loss.ok(), loss.status().ToString());
    state["loss"].push_back(*loss);
  }
  CHECK(session->memory().measured_peak_bytes == session->memory().predicted_peak_bytes);
  for (const PlanTensor& tensor : session->plan().tensors) {
    if (IsPersistent(tensor.role)) state[tensor.name] = *session->Values(tensor.name);
  }
  return state;
}

bool SameBits(const State& a, const State& b) {
  if (a.size() != b.size()) return false;
  return std::equal(a.begin(), a.end(), b.begin(), [](const auto& x, const auto& y) {
    return x.first == y.first && x.second.size() == y.second.size() &&
           std::memcmp(x.second.data(), y.second.data(), x.second.size() * sizeof(float)) == 0;
  });
}

// keep-all and liveness are trained for every seed.
std::vector<std::string> PoliciesThatMoveOrRebuild() {
  std::vector<std::string> names;
  for (const Policy& policy : Policies()) {
    if (policy.name != "keep-all" && policy.name != "liveness") names.emplace_back(policy.name);
  }
  return names;
}

// Trains under the minimum budget, where everything movable is moved or recomputed, or under one
// halfway to the peak of the plan without a budget, where some of it is.
void CheckPolicy(const Graph& graph, Device& device, PlannerOptions options, bool tight,
                 const State& reference) {
  CAPTURE(options.policy);
  const absl::StatusOr<Session> session = CreateSession(graph, device, options, kTraining);
  REQUIRE_MESSAGE(session.ok(), session.status().ToString());
  const int64_t minimum = session->planning().minimum_budget_bytes;
  // Evaluation can need more memory than training.
  const int64_t natural = std::max(minimum, session->plan().peak_bytes);
  options.budget_bytes = tight ? minimum : (minimum + natural) / 2;
  CAPTURE(options.budget_bytes);
  CAPTURE(options.peer_budget_bytes);
  CHECK(SameBits(reference, Train(graph, device, options, nullptr)));
}

}  // namespace

TEST_CASE("random networks of all types train to the same bits whatever the plan, 500 of them") {
  const auto opened = CpuDevice::Open();
  REQUIRE(opened.ok());
  Device& device = **opened;
  constexpr const char* kPlacements[] = {"first-fit", "exact-fit-first-fit", "offline"};
  constexpr DType kTypes[] = {DType::kFp32, DType::kBf16, DType::kFp16};
  const std::vector<std::string> policies = PoliciesThatMoveOrRebuild();
  const uint32_t seeds = testing::RandomSeeds(500);
  for (uint32_t seed = 0; seed < seeds; ++seed) {
    CAPTURE(seed);
    const Layout layout =
        seed / 6 % 4 == 3 ? Layout::kNhwc : Layout::kNchw;  // with every other choice
    const DType dtype = kTypes[seed / 5 % 3];
    testing::RandomGraphOptions of = {.dtype = dtype,
                                      .layout = layout,
                                      .residual = seed / 7 % 3 == 1,
                                      .dense = seed / 7 % 3 == 2};
    const Graph graph = testing::RandomGraph(seed, of);
    of.fusion = false;
    const Graph unfused = testing::RandomGraph(seed, of);
    const State reference =
        Train(unfused, device, {.policy = "keep-all", .in_place = false}, nullptr);
    for (float loss : reference.at("loss")) REQUIRE(std::isfinite(loss));

    // Placements and in-place settings alternate over the seeds, with bytes to spare and with
    // none.
    PlannerOptions options = {
        .policy = "liveness", .placement = kPlacements[seed % 3], .in_place = seed % 2 == 0};
    int64_t minimum = 0;
    CHECK(SameBits(reference, Train(graph, device, options, &minimum)));
    options.budget_bytes = minimum;
    CHECK(SameBits(reference, Train(graph, device, options, nullptr)));
    options.budget_bytes = minimum - kBlockBytes;
    const absl::StatusOr<Session> refused = CreateSession(graph, device, options, kTraining);
    REQUIRE(!refused.ok());
    CHECK(refused.status().code() == absl::StatusCode::kResourceExhausted);
    CHECK(std::string(refused.status().message()).find(std::to_string(minimum)) !=
          std::string::npos);

    // One of the other policies, in turn, tight every other time; with no peer, with one that takes
    // few of the copies, with one that takes all of them.
    constexpr int64_t kPeers[] = {0, 8 * kBlockBytes, kUnlimited};
    CheckPolicy(
        graph, device,
        {.peer_budget_bytes = kPeers[seed / 2 % 3], .policy = policies[seed % policies.size()]},
        seed / policies.size() % 2 == 0, reference);
  }
}

}  // namespace neap
