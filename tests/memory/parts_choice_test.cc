// The choice among all numbers of sub-batches, against a brute force over them: it is never refused
// where one of them fits, and nearly as fast as the fastest. And what its refusals say.
#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "neap/core/plan/budget_refusal.h"
#include "neap/core/program/passes.h"
#include "neap/core/program/sub_batches.h"
#include "neap/core/step/signature_text.h"
#include "neap/core/verifier/verifier.h"
#include "neap/layers/activation.h"
#include "neap/layers/catalog/default_catalog.h"
#include "neap/layers/convolution.h"
#include "neap/layers/devices/device_description.h"
#include "neap/layers/dropout.h"
#include "neap/layers/fully_connected.h"
#include "neap/layers/pooling.h"
#include "neap/layers/softmax_cross_entropy.h"
#include "neap/memory/planner.h"
#include "neap/memory/program_choice.h"
#include "neap/nets/registry.h"
#include "tests/memory/planning.h"
#include "tests/random_graph.h"

namespace neap {
namespace {

using testing::H200;
using testing::IterationMs;

constexpr double kCloseToBest = 1.02;
constexpr double kShareClose = 0.95;

Graph VggLike(int64_t batch, int64_t image, int64_t channels) {
  Graph net({.name = "vgg-like", .batch = batch});
  std::string x = net.Input({3, image, image});
  for (int block = 0; block < 3; ++block) {
    for (const char* i : {".1", ".2"}) {
      const std::string name = absl::StrCat("conv", block, i);
      const Convolution convolution = {
          .out_channels = channels << block, .kernel = 3, .padding = 1};
      x = net.Add(name + ".relu", Relu{}, {net.Add(name, convolution, {x})});
    }
    x = net.Add(absl::StrCat("pool", block), MaxPool{.kernel = 2, .stride = 2}, {x});
  }
  x = net.Add("relu", Relu{}, {net.Add("fc1", FullyConnected{.out_features = 256}, {x})});
  x = net.Add("drop", Dropout{}, {x});
  net.Loss(net.Add("fc2", FullyConnected{.out_features = 10}, {x}), SoftmaxCrossEntropy{});
  return net;
}

// A network, and the programs that a request for it may be planned with.
struct Request {
  Graph graph;
  PlannerOptions options = {};

  absl::StatusOr<Program> Lowered(const ProgramChoice& choice) const {
    return Lower(graph,
                 {.offload_params = choice.offload_params,
                  .sub_batches = choice.sub_batches,
                  .batch_norm_in_parts = choice.batch_norm_in_parts},
                 H200());
  }
  std::vector<ProgramChoice> Choices() const {
    std::vector<ProgramChoice> choices;
    std::vector<bool> offloads = {options.offload_params.value_or(false)};
    if (!options.offload_params.has_value()) offloads.push_back(true);
    int64_t last = 0;
    for (int64_t asked = 1; asked <= graph.options().batch; ++asked) {
      const int64_t count = DivideBatch(graph.options().batch, asked).count;
      if (count == last || count != options.sub_batches.value_or(count)) continue;
      last = count;
      for (const bool offload_params : offloads) {
        choices.push_back({.sub_batches = count,
                           .batch_norm_in_parts = options.batch_norm_in_parts,
                           .offload_params = offload_params});
      }
    }
    return choices;
  }
  // The smallest budget of all choices.
  int64_t Smallest(EngineCatalog& catalog) const {
    int64_t smallest = std::numeric_limits<int64_t>::max();
    for (const ProgramChoice& choice : Choices()) {
      const absl::StatusOr<Program> program = Lowered(choice);
      if (!program.ok()) continue;  // it cannot be run in so many parts
      smallest = std::min(smallest, MinimumBudget(*program, options, H200(), catalog).value());
    }
    return smallest;
  }
  // As the command and a session plan.
  absl::StatusOr<PlanResult> Plan(EngineCatalog& catalog) const {
    const auto lower = [this](const ProgramChoice& choice) { return Lowered(choice); };
    absl::StatusOr<ChosenProgram> chosen = ChooseProgram(lower, options, H200(), catalog);
    if (!chosen.ok()) return chosen.status();
    const Program program = Lowered(chosen->choice).value();
    if (!chosen->plan.has_value()) return MakePlan(program, options, H200(), catalog);
    CHECK(MatchesProgram(chosen->plan->plan, program).message() == "");
    return *std::move(chosen->plan);
  }
};

Request RandomRequest(uint32_t seed, EngineCatalog& catalog) {
  std::mt19937 random(seed);
  const auto below = [&](int64_t most) { return static_cast<int64_t>(random() % most); };
  const int64_t batch = 1 + below(seed < 8 ? 60 : 400);
  Request request = [&]() -> Request {
    if (seed % 3 == 0) return {nets::Build("lenet", {.batch = batch}).value()};
    if (seed % 3 == 2) return {VggLike(batch, 16 << below(2), 16 << below(2))};
    return {nets::Build("alexnet", {.batch = batch, .image = 67 + 32 * below(3)}).value()};
  }();
  if (seed % 2 == 0) request.options.offload_params = false;
  const int64_t least = request.Smallest(catalog);
  const int64_t most = MakePlan(request.Lowered({}).value(), {}, H200(), catalog)->plan.peak_bytes;
  const double part = static_cast<double>(below(1000)) / 1000;  // squared: small ones are harder
  request.options.budget_bytes =
      least +
      static_cast<int64_t>(part * part * static_cast<double>(std::max<int64_t>(0, most - least)));
  return request;
}

// Whether a plan with another choice is faster than `ms` by so much that the chosen one is not
// close to it.
bool IsBeaten(const Request& request, double ms, EngineCatalog& catalog) {
  const std::vector<ProgramChoice> choices = request.Choices();
  return std::any_of(choices.begin(), choices.end(), [&](const ProgramChoice& choice) {
    const absl::StatusOr<PlanAttempt> attempt = AttemptPlan(
        ms / kCloseToBest, request.Lowered(choice).value(), request.options, H200(), catalog);
    return attempt.ok() && attempt->plan.has_value();
  });
}

// Engines of which all but the last are faster, and need a workspace for each image.
class HungryEngines final : public EngineCatalog {
 public:
  explicit HungryEngines(int64_t bytes_per_image) : bytes_per_image_(bytes_per_image) {}
  absl::StatusOr<std::vector<Engine>> Engines(const StepSignature& signature) override {
    if (signature.layer.type() != "fused_convolution" && signature.layer.type() != "convolution")
      return std::vector<Engine>{{}};
    std::vector<Engine> engines;
    for (int i = 0; i < 8; ++i) {
      engines.push_back({.id = absl::StrCat("hungry", i),
                         .workspace_bytes = bytes_per_image_ * BatchOf(signature)});
    }
    engines.push_back({.id = "frugal"});
    return engines;
  }
  std::string Versions() const override { return ""; }

 private:
  int64_t bytes_per_image_;
};

}  // namespace

TEST_CASE("random requests: never refused where a number of parts fits, and close to the best") {
  DefaultCatalog catalog;
  const uint32_t requests = testing::RandomSeeds(12, 300);
  uint32_t beaten = 0;
  for (uint32_t seed = 0; seed < requests; ++seed) {
    CAPTURE(seed);
    const Request request = RandomRequest(seed, catalog);
    CAPTURE(request.graph.options().name);
    CAPTURE(request.graph.options().batch);
    CAPTURE(request.options.budget_bytes);
    const absl::StatusOr<PlanResult> planned = request.Plan(catalog);
    REQUIRE_MESSAGE(planned.ok(), planned.status().ToString());
    CHECK(planned->plan.arena_bytes <= request.options.budget_bytes);
    CHECK(Verify(planned->plan).message() == "");
    if (!IsBeaten(request, IterationMs(*planned), catalog)) continue;
    ++beaten;
    MESSAGE("seed ", seed, ": ", request.graph.options().name, " at batch ",
            request.graph.options().batch, " in ", planned->plan.sub_batches, " parts is beaten");
  }
  CHECK(beaten <= std::max(1.0, (1 - kShareClose) * requests));
}

TEST_CASE("a refusal names the smallest budget of all that the request allows") {
  DefaultCatalog catalog;
  std::vector<Request> requests = {
      {nets::Build("lenet", {.batch = 37}).value()},
      {nets::Build("lenet", {.batch = 70}).value(), {.offload_params = false}},
      {VggLike(50, 16, 16), {.offload_params = false}},
      {VggLike(23, 32, 16)},
      {VggLike(23, 32, 16), {.sub_batches = 4}},
      {VggLike(23, 32, 16), {.sub_batches = 1, .offload_params = true}},
      {nets::Build("resnet-cifar", {.batch = 9, .depth = 8}).value(),
       {.batch_norm_in_parts = true}},
      {nets::Build("resnet-cifar", {.batch = 9, .depth = 8}).value()}};
  for (Request& request : requests) {
    CAPTURE(request.graph.options().name);
    CAPTURE(request.graph.options().batch);
    request.options.budget_bytes = kBlockBytes;
    const absl::Status refusal = request.Plan(catalog).status();
    const std::optional<int64_t> smallest = SmallestBudget(refusal);
    REQUIRE_MESSAGE(smallest.has_value(), refusal.ToString());
    const bool couples =
        !request.Lowered({.sub_batches = 2}).ok() && !request.options.batch_norm_in_parts;
    if (!couples) CHECK(*smallest == request.Smallest(catalog));
    CHECK(refusal.message().find(absl::StrCat("the smallest feasible budget is ", *smallest)) !=
          std::string::npos);
    request.options.budget_bytes = *smallest;
    const absl::StatusOr<PlanResult> planned = request.Plan(catalog);
    REQUIRE_MESSAGE(planned.ok(), planned.status().ToString());
    CHECK(planned->plan.arena_bytes <= *smallest);
    request.options.budget_bytes = *smallest - kBlockBytes;
    CHECK(SmallestBudget(request.Plan(catalog).status()) == smallest);
  }
}

TEST_CASE("where only workspaces are short, a batch is run in parts, too") {
  // All activations of the whole batch fit, but not the workspaces of its fast engines.
  HungryEngines catalog(kMiB);
  Request request = {
      VggLike(60, 64, 32),
      {.offload_params = false, .kernels = {.divisions = DivisionPolicy::kUndivided}}};
  const auto peak = [&](int64_t count) {
    return MakePlan(request.Lowered({.sub_batches = count}).value(), {}, H200(), catalog)
        ->plan.peak_bytes;
  };
  DefaultCatalog without_workspaces;
  request.options.budget_bytes =
      MakePlan(request.Lowered({}).value(), {}, H200(), without_workspaces)->plan.peak_bytes;
  REQUIRE(request.options.budget_bytes < peak(1));
  const PlanResult whole =
      MakePlan(request.Lowered({}).value(), request.options, H200(), catalog).value();
  const PlanResult planned = request.Plan(catalog).value();
  CHECK(planned.plan.sub_batches > 1);
  CHECK(IterationMs(planned) < IterationMs(whole));
}

TEST_CASE("VGG-16 at batch 250 fits 2 GiB in 10 parts, but not in 2") {
  DefaultCatalog catalog;
  const Request request = {
      nets::Build("vgg16", {.batch = 250, .dtype = DType::kBf16, .layout = Layout::kChannelsLast})
          .value(),
      {.budget_bytes = 2 * kGiB}};
  const auto fits = [&](int64_t count) {
    const ProgramChoice choice = {.sub_batches = count, .offload_params = true};
    return FitsBudget(request.Lowered(choice).value(), request.options, H200(), catalog).value();
  };
  CHECK(!fits(1));
  CHECK(!fits(2));
  CHECK(fits(10));
}

TEST_CASE("batch norms have the statistics of parts only by choice, which a refusal names") {
  DefaultCatalog catalog;
  Request request = {nets::Build("resnet18", {.batch = 256}).value(), {.budget_bytes = kGiB}};
  const absl::Status refusal = request.Plan(catalog).status();
  CHECK(absl::IsResourceExhausted(refusal));
  CHECK(refusal.message().find("--batch-norm-in-parts") != std::string::npos);
  request.options.batch_norm_in_parts = true;
  const PlanResult planned = request.Plan(catalog).value();
  CHECK(planned.plan.sub_batches > 1);
  CHECK(planned.plan.batch_norm_in_parts);
  CHECK(Verify(planned.plan).message() == "");

  // Not where splitting would not help, nor where plans are only compared.
  request.options = {.budget_bytes = kMiB};
  CHECK(request.Plan(catalog).status().message().find("in-parts") == std::string::npos);
  request.options = {.budget_bytes = kGiB, .suggest_policy = false};
  const absl::Status compared = request.Plan(catalog).status();
  CHECK(absl::IsResourceExhausted(compared));
  CHECK(compared.message().find("in-parts") == std::string::npos);
  // A batch that fits is never split for it.
  request.options = {.budget_bytes = 4 * kGiB};
  CHECK(request.Plan(catalog)->plan.sub_batches == 1);
}

}  // namespace neap
