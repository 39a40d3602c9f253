#include "neap/memory/engines/gain_rule.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "neap/core/step/divided_kernel.h"
#include "neap/core/step/signature_text.h"
#include "neap/core/verifier/verifier.h"
#include "neap/memory/planner.h"
#include "neap/memory/policies/superneurons.h"
#include "neap/nets/registry.h"
#include "tests/memory/engines/workspace_catalog.h"
#include "tests/memory/planning.h"
#include "tests/memory/transfer/stays.h"
#include "tests/random_graph.h"

namespace neap {
namespace {

using testing::H200;

constexpr int64_t kFour = 4 * kBlockBytes;  // an activation of the chain, and its input

// Convolutions of one phase may save some time in some workspace; every other run takes a second.
struct Offer {
  Phase phase = Phase::kForward;
  int64_t workspace_bytes = 0;
  double saved_seconds = 0;
};

std::string IdOf(const Offer& offer) { return std::to_string(offer.workspace_bytes); }

class OfferCatalog final : public EngineCatalog {
 public:
  explicit OfferCatalog(const std::vector<Offer>& offers) : offers_(offers) {}
  absl::StatusOr<std::vector<Engine>> Engines(const StepSignature& signature) override {
    std::vector<Engine> engines = {{.id = "small"}};
    for (const Offer& offer : offers_) {
      if (IsDivisible(signature) && signature.phase == offer.phase)
        engines.push_back({.id = IdOf(offer), .workspace_bytes = offer.workspace_bytes});
    }
    return engines;
  }
  std::string Versions() const override { return ""; }

 private:
  const std::vector<Offer>& offers_;
};

class OfferTimings final : public KernelTimings {
 public:
  explicit OfferTimings(const std::vector<Offer>& offers) : offers_(offers) {}
  std::vector<TimedEngine> Of(const StepSignature& signature) const override {
    const int64_t batch = BatchOf(signature);
    std::vector<TimedEngine> timed = {{"small", batch, 0, 10}};
    for (const Offer& offer : offers_) {
      if (IsDivisible(signature) && signature.phase == offer.phase)
        timed.push_back({IdOf(offer), batch, offer.workspace_bytes, 10 - offer.saved_seconds});
    }
    return timed;
  }

 private:
  const std::vector<Offer>& offers_;
};

// Three convolutions, nothing in place, in what they take with their rules and `more_bytes`. Copies
// of an activation take `copy_runs` runs.
//   0 conv1  1 relu1  2 conv2  3 relu2  4 conv3  5 relu3  6 fc  7 loss | 8 loss' ...
//   13 conv3' (params), 14 (data) ... 17 conv2' (params) reads relu1
class Chain {
 public:
  Chain(double copy_runs, const ResidencyRules& rules, int64_t more_bytes = 0)
      : program_(testing::ConvolutionChain(3)),
        liveness_(FindLiveness(program_, ProgramOrder(program_), /*in_place=*/false)),
        least_(liveness_.runs.size(), 0),
        times_({.run_seconds = std::vector<double>(liveness_.runs.size(), 1),
                .bytes_per_second = static_cast<double>(kFour) / copy_runs}),
        residency_(DecideResidency(program_, liveness_, least_, rules)) {
    limit_bytes_ = MostBytes() + more_bytes;
    OverlapTransfers(program_, times_, {limit_bytes_, kUnlimited}, residency_);
  }

  const Program& program() const { return program_; }
  const Residency& residency() const { return residency_; }
  int64_t FreeBytes(size_t run) const { return limit_bytes_ - residency_.usage[run].bytes; }

  std::vector<int64_t> Workspaces(const std::vector<Offer>& offers) const {
    OfferCatalog catalog(offers);
    const EngineTable engines =
        EngineTable::List(program_, {.timings = std::make_shared<OfferTimings>(offers)},
                          /*strict=*/false, H200(), catalog)
            .value();
    return WorkspacesByGain(program_, engines, times_, EvictionRule::kLru,
                            {liveness_, least_, residency_, limit_bytes_});
  }

 private:
  int64_t MostBytes() const {
    int64_t most = 0;
    for (const Usage& usage : residency_.usage) most = std::max(most, usage.bytes);
    return most;
  }

  Program program_;
  Liveness liveness_;
  std::vector<int64_t> least_;
  TransferTimes times_;
  Residency residency_;
  int64_t limit_bytes_ = 0;
};

// The workspace of `run`, which is the only one that anything has to make room for.
int64_t OnlyWorkspace(const std::vector<int64_t>& workspaces, size_t run) {
  for (size_t i = 0; i < workspaces.size(); ++i) {
    CAPTURE(i);
    if (i != run) CHECK(workspaces[i] == 0);
  }
  return workspaces[run];
}

TEST_CASE("a workspace drives a tensor out if it saves more than what is late of its copy") {
  //   run     0 conv1  1 relu1  2 conv2  3 relu2  4 conv3
  //   input   [======= its copy out: five runs, of which four hide it ====| one is late
  const Chain chain(5, {});
  const int64_t bytes = chain.FreeBytes(4) + kFour;
  CHECK(OnlyWorkspace(chain.Workspaces({{Phase::kForward, bytes, 1.01}}), 4) == bytes);
  CHECK(OnlyWorkspace(chain.Workspaces({{Phase::kForward, bytes, 0.99}}), 4) == 0);
}

TEST_CASE("what computation hides costs nothing, and what is free needs no room") {
  const Chain chain(4, {});
  const int64_t free_bytes = chain.FreeBytes(4);
  const Offer forced = {Phase::kForward, free_bytes + kFour, 0.01};
  CHECK(OnlyWorkspace(chain.Workspaces({forced}), 4) == forced.workspace_bytes);
  CHECK(OnlyWorkspace(chain.Workspaces({{Phase::kForward, free_bytes, 1}}), 4) == 0);
}

TEST_CASE("all that may leave is too little: nothing does") {
  const Chain chain(0.1, {});
  CHECK(OnlyWorkspace(chain.Workspaces({{Phase::kForward, kGiB, 9}}), 4) == 0);
}

TEST_CASE("a workspace holds the next fetch up if it saves more than the fetch is late") {
  //   run    13 conv3' (params)  14 (data)  15 relu2' ...  17 conv2' wants relu1
  //   relu1             (========( its copy back, three runs, begins with 14
  const Program program = testing::ConvolutionChain(3);
  const Chain chain(3, {.eager = ConvolutionResults(program, {})}, kFour);
  REQUIRE(testing::StaysOf(program, chain.residency(), "relu1").find("[14,") != std::string::npos);
  const int64_t bytes = chain.FreeBytes(14) + 1;
  const Offer more = {Phase::kBackwardData, bytes, 1.01},
              less = {Phase::kBackwardData, bytes, 0.99};
  CHECK(OnlyWorkspace(chain.Workspaces({more}), 14) == RoundUp(bytes, kBlockBytes));
  CHECK(OnlyWorkspace(chain.Workspaces({less}), 14) == 0);
}

TEST_CASE("random offers: those that lose change nothing, whatever copies they were judged by") {
  std::mt19937 random(1);
  const auto among = [&](int64_t count) { return static_cast<int64_t>(random()) % count; };
  const Program program = testing::ConvolutionChain(3);
  int disputed = 0;
  for (int i = 0; i < 1000; ++i) {
    CAPTURE(i);
    // Nothing makes room before: conv3, with what conv2 has free, and the first of backward.
    const size_t run = i % 2 == 0 ? 4 : 14;
    const Chain chain(0.3 * static_cast<double>(1 + among(20)),
                      {.eager = run == 4 ? std::vector<bool>{} : ConvolutionResults(program, {})},
                      run == 4 ? 0 : among(3) * kFour);
    std::vector<Offer> offers;
    double saved_seconds = 0;
    for (int64_t blocks = 1 + among(4); blocks <= (run == 4 ? 4 : 12); blocks += 1 + among(4)) {
      saved_seconds += 0.1 * static_cast<double>(1 + among(15));
      offers.push_back({run == 4 ? Phase::kForward : Phase::kBackwardData,
                        chain.FreeBytes(run) + blocks * kBlockBytes, saved_seconds});
    }
    const int64_t bytes = chain.Workspaces(offers)[run];
    const auto winner = std::find_if(offers.begin(), offers.end(), [bytes](const Offer& offer) {
      return offer.workspace_bytes == bytes;
    });
    for (const Offer& offer : offers) {
      if (winner == offers.end()) REQUIRE(chain.Workspaces({offer})[run] == 0);
    }
    if (winner == offers.end()) continue;
    REQUIRE(chain.Workspaces({*winner})[run] == bytes);
    if (offers.size() > 1) ++disputed;
  }
  CHECK(disputed > 100);
}

// Convolutions save 3% in three times the bytes of their result, so both rules seldom differ.
class SmallGainCatalog final : public EngineCatalog {
 public:
  absl::StatusOr<std::vector<Engine>> Engines(const StepSignature& signature) override {
    std::vector<Engine> engines = {{.id = "small"}};
    const int64_t bytes = signature.operands.back().tensor.size_bytes();
    if (IsDivisible(signature)) engines.push_back({.id = "fast", .workspace_bytes = 3 * bytes});
    return engines;
  }
  std::string Versions() const override { return ""; }
};

class SmallGainTimings final : public KernelTimings {
 public:
  std::vector<TimedEngine> Of(const StepSignature& signature) const override {
    if (!IsDivisible(signature)) return {};
    const int64_t batch = BatchOf(signature);
    const int64_t bytes = signature.operands.back().tensor.size_bytes();
    const double seconds = static_cast<double>(bytes) * kSecondsPerByte;
    return {{"small", batch, 0, seconds}, {"fast", batch, 3 * bytes, 0.97 * seconds}};
  }

 private:
  static constexpr double kSecondsPerByte = 2e-11;  // as long as a copy to the host
};

PlanResult PlanBy(WorkspaceRule rule, const Program& program, PlannerOptions options,
                  EngineCatalog& catalog) {
  options.kernels.workspace_rule = rule;
  PlanResult result = MakePlan(program, options, H200(), catalog).value();
  const absl::Status verified = Verify(result.plan);
  CAPTURE(verified.ToString());
  REQUIRE(verified.ok());
  REQUIRE(MatchesProgram(result.plan, program).ok());
  REQUIRE(result.plan.peak_bytes <= options.budget_bytes);
  return result;
}

// At five budgets from the least to the natural peak; how often the gain rule was the faster one.
int CheckRules(const Program& program, PlannerOptions options, EngineCatalog& catalog) {
  const PlanResult roomy = PlanBy(WorkspaceRule::kBest, program, options, catalog);
  const int64_t least = roomy.stats.minimum_budget_bytes;
  int wins = 0;
  for (int i = 0; i <= 4; ++i) {
    options.budget_bytes = least + (roomy.plan.peak_bytes - least) / 4 * i;
    CAPTURE(options.budget_bytes);
    // What a plan is chosen by: with the batch's copy, which may need bytes of its own.
    const auto predicted_ms = [&](WorkspaceRule rule) {
      const PlanResult result = PlanBy(rule, program, options, catalog);
      return result.plan.predicted_ms + result.stats.batch_copy_ms;
    };
    const double left_over = predicted_ms(WorkspaceRule::kLeftOver);
    const double gain = predicted_ms(WorkspaceRule::kGain);
    REQUIRE(predicted_ms(WorkspaceRule::kBest) <= std::min(left_over, gain) * (1 + 1e-9));
    if (gain < left_over * (1 - 1e-6)) ++wins;
  }
  return wins;
}

TEST_CASE("random networks: plans by every rule verify, and the best is as fast as either") {
  const uint32_t seeds = testing::RandomSeeds(4);
  MESSAGE("seeds 1 to ", seeds);
  testing::WorkspaceCatalog catalog;
  SmallGainCatalog small_gain;
  for (uint32_t seed = 1; seed <= seeds; ++seed) {
    CAPTURE(seed);
    const Program program = BuildProgram(testing::RandomGraph(seed, {.image = 16}), {}).value();
    PlannerOptions options = {
        .policy = seed % 4 < 2 ? "tensor-cache" : "superneurons",
        .eviction = seed % 2 == 0 ? EvictionRule::kLru : EvictionRule::kBelady,
        .kernels = {.timings = std::make_shared<testing::WorkspaceTimings>()}};
    CheckRules(program, options, catalog);
    options.kernels.timings = std::make_shared<SmallGainTimings>();
    CheckRules(program, options, small_gain);
  }
}

TEST_CASE("there are networks and budgets for which the gain rule is faster") {
  testing::WorkspaceCatalog catalog;
  int wins = 0;
  for (const double ms_per_megabyte : {0.02, 0.1}) {
    const KernelOptions kernels = {
        .timings = std::make_shared<testing::WorkspaceTimings>(ms_per_megabyte)};
    const Program program = BuildProgram(nets::Build("vgg16", {.batch = 16}).value(), {}).value();
    wins += CheckRules(program, {.policy = "superneurons", .kernels = kernels}, catalog);
  }
  CHECK(wins > 0);
}

TEST_CASE("the rule changes nothing under policies that may not evict every tensor") {
  testing::WorkspaceCatalog catalog;
  const Program program = BuildProgram(testing::RandomGraph(9, {.image = 16}), {}).value();
  const KernelOptions kernels = {.timings = std::make_shared<testing::WorkspaceTimings>()};
  for (const char* policy : {"liveness", "offload", "cost-aware"}) {
    CAPTURE(policy);
    const PlannerOptions options = {.policy = policy, .kernels = kernels};
    CHECK(PlanBy(WorkspaceRule::kGain, program, options, catalog).plan.actions ==
          PlanBy(WorkspaceRule::kLeftOver, program, options, catalog).plan.actions);
  }
}

}  // namespace
}  // namespace neap
