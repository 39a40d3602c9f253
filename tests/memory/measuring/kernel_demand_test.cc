#include "neap/memory/measuring/kernel_demand.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "neap/core/plan/cost_model.h"
#include "neap/core/program/passes.h"
#include "neap/core/step/divided_kernel.h"
#include "neap/core/step/signature_text.h"
#include "neap/layers/activation.h"
#include "neap/layers/batch_norm.h"
#include "neap/layers/convolution.h"
#include "neap/layers/devices/device_description.h"
#include "neap/layers/fully_connected.h"
#include "neap/layers/softmax_cross_entropy.h"
#include "neap/memory/planner.h"
#include "tests/layers/made_up_timings.h"
#include "tests/memory/engines/workspace_catalog.h"

namespace neap {
namespace {

using doctest::Approx;
using testing::MadeUpTimings;
using testing::WorkspaceCatalog;

constexpr int64_t kBatch = 16;

// Two equal convolutions, of which the second alone computes the gradient of its input.
Program TwoConvolutions(ProgramOptions options = {}) {
  Graph net({.name = "two", .batch = kBatch});
  std::string x = net.Input({8, 12, 12});
  const Convolution same = {.out_channels = 8, .kernel = 3, .padding = 1, .bias = false};
  x = net.Add("first", same, {x});
  x = net.Add("second", same, {x});
  x = net.Add("relu", Relu{}, {x});
  net.Loss(net.Add("fc", FullyConnected{.out_features = 4}, {x}), SoftmaxCrossEntropy{});
  return BuildProgram(net, options).value();
}

struct Demanded {
  Program program = TwoConvolutions();
  DeviceDescription device = DescribedDevice("h200").value();
  WorkspaceCatalog catalog;
  int64_t budget_bytes = kUnlimited;

  std::vector<KernelDemand> With(std::shared_ptr<const KernelTimings> timings,
                                 const MadeKernels& made = {},
                                 DivisionPolicy divisions = DivisionPolicy::kAll) {
    const KernelOptions kernels = {.timings = std::move(timings), .divisions = divisions};
    const PlanResult result =
        MakePlan(program, {.budget_bytes = budget_bytes, .kernels = kernels}, device, catalog)
            .value();
    return DemandsOf(program, result.plan, kernels, device, catalog, made).value();
  }
  const Step& StepNamed(const std::string& name) const {
    const auto found =
        std::find_if(program.steps.begin(), program.steps.end(),
                     [&](const Step& step) { return program.StepName(step) == name; });
    REQUIRE_MESSAGE(found != program.steps.end(), name);
    return *found;
  }
  StepSignature Of(const std::string& name) const { return program.Signature(StepNamed(name)); }
  double Model(const std::string& name) const {
    return PredictSeconds(Of(name), StepNamed(name).flops, device);
  }
};

const KernelDemand* Find(const std::vector<KernelDemand>& demands, const StepSignature& signature,
                         const std::string& engine) {
  const KernelDemand* found = nullptr;
  for (const KernelDemand& demand : demands) {
    if (!(demand.signature == signature) || demand.engine.id != engine) continue;
    CHECK(found == nullptr);  // each once
    found = &demand;
  }
  return found;
}
const KernelDemand& Get(const std::vector<KernelDemand>& demands, const StepSignature& signature,
                        const std::string& engine) {
  const KernelDemand* const found = Find(demands, signature, engine);
  REQUIRE_MESSAGE(found != nullptr, engine, " of ", SignatureText(signature));
  return *found;
}

TEST_CASE("a kernel is worth its share of the iteration times the doubt about it") {
  Demanded demanded;
  const std::vector<KernelDemand> demands = demanded.With(nullptr);
  const StepSignature forward = demanded.Of("first forward");
  REQUIRE(forward == demanded.Of("second forward"));
  const double seconds = demanded.Model("first forward");  // of one of two runs

  // Runs in the plan (0.3), is a configuration that fits (0.2 * 0.3), is the first engine (0.06).
  const KernelDemand& fast = Get(demands, forward, "fast");
  CHECK(fast.is_in_plan);
  CHECK(fast.run_seconds == Approx(seconds));
  CHECK(fast.worth_seconds == Approx(2 * seconds * (0.3 + 0.06 + 0.06)));
  // A tenth slower and the second engine (0.06), two tenths and the third (0.05).
  const KernelDemand& medium = Get(demands, forward, "medium");
  CHECK(!medium.is_in_plan);
  CHECK(medium.run_seconds == Approx(1.1 * seconds));
  CHECK(medium.worth_seconds == Approx(2 * seconds * (1.1 * 0.06 + 0.06)));
  const KernelDemand& small = Get(demands, forward, "small");
  CHECK(small.worth_seconds == Approx(2 * seconds * (1.2 * 0.06 + 0.05)));
  CHECK(Find(demands, forward, "unstable") == nullptr);

  // The second's only.
  CHECK(Get(demands, demanded.Of("second backward_data"), "fast").worth_seconds ==
        Approx(demanded.Model("second backward_data") * 0.42));
  const KernelDemand& relu = Get(demands, demanded.Of("relu forward"), std::string(kOwnEngine));
  CHECK(relu.worth_seconds == Approx(demanded.Model("relu forward") * 0.42));
  CHECK(relu.is_in_plan);
}

TEST_CASE("making a kernel costs 5 ms, loading its code 100 ms, and runs their time") {
  KernelDemand demand = {.signature = AdditionSignature({{1}}),
                         .engine = {.id = "a"},
                         .run_seconds = 1e-6,
                         .is_in_plan = true};
  CHECK(MeasuringSeconds(demand, {}) == Approx(5e-3 + 6 * 0.5e-3));
  demand.run_seconds = 20e-3;
  CHECK(MeasuringSeconds(demand, {}) == Approx(5e-3 + 6 * 20e-3));
  demand.is_in_plan = false;
  CHECK(MeasuringSeconds(demand, {}) == Approx(105e-3 + 6 * 20e-3));
  MadeKernels made;
  made.Add("b", 1e-3);
  CHECK(MeasuringSeconds(demand, made) == Approx(105e-3 + 6 * 20e-3));
  made.Add("a", 1e-3);
  CHECK(MeasuringSeconds(demand, made) == Approx(5e-3 + 6 * 20e-3));
  MadeKernels compiled;
  compiled.Add("a", 0.3);
  CHECK(MeasuringSeconds(demand, compiled) == Approx(0.3 + 6 * 20e-3));
}

TEST_CASE("the most worthwhile for its cost comes first, and code that is loaded costs less") {
  Demanded demanded;
  MadeKernels loaded;
  loaded.Add("medium", 0.001);
  for (const MadeKernels& made : {MadeKernels(), loaded}) {
    const std::vector<KernelDemand> demands = demanded.With(nullptr, made);
    double before = 1e9;
    for (const KernelDemand& demand : demands) {
      const double rate = demand.worth_seconds / MeasuringSeconds(demand, made);
      CHECK(rate <= before * (1 + 1e-12));
      before = rate;
    }
    // The longest of the plan's kernels runs twice.
    CHECK(demands.front().is_in_plan);
    const auto place = [&](const std::string& engine) {
      const StepSignature forward = demanded.Of("first forward");
      return &Get(demands, forward, engine) - demands.data();
    };
    CHECK(place("fast") < place("medium"));
    CHECK(place("medium") < place("small"));
  }
}

TEST_CASE("engines whose family takes long to make come later") {
  MadeKernels made;
  CHECK(made.LeastSeconds("eng5_k2=1") == 0);
  made.Add("eng5_k2=1", 0.7);
  made.Add("eng5_k2=3", 0.3);
  made.Add("eng5_k2=4", 0.5);
  CHECK(made.LeastSeconds("eng5") == 0.3);
  CHECK(made.LeastSeconds("eng6") == 0);
  CHECK(made.IsLoaded("eng5_k2=3"));
  CHECK(!made.IsLoaded("eng5"));
  Demanded demanded;
  const auto place_of_fast = [&](const MadeKernels& known) {
    const std::vector<KernelDemand> demands = demanded.With(nullptr, known);
    return &Get(demands, demanded.Of("first forward"), "fast") - demands.data();
  };
  MadeKernels slow;
  slow.Add("fast", 3600);
  CHECK(place_of_fast(MadeKernels()) < place_of_fast(slow));
}

TEST_CASE("the order does not depend on that of hash tables") {
  Demanded demanded, again;
  const std::vector<KernelDemand> a = demanded.With(nullptr), b = again.With(nullptr);
  REQUIRE(a.size() == b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    CHECK(a[i].signature == b[i].signature);
    CHECK(a[i].engine.id == b[i].engine.id);
  }
}

TEST_CASE("measured kernels are demanded no more, interpolated ones for less") {
  Demanded demanded;
  const StepSignature forward = demanded.Of("first forward");
  const auto all =
      std::make_shared<MadeUpTimings>(std::vector<TimedEngine>{{"fast", kBatch, 3 * kMiB, 1e-5},
                                                               {"medium", kBatch, 3 * kMiB, 2e-5},
                                                               {"small", kBatch, 3 * kMiB, 3e-5}});
  for (const KernelDemand& demand : demanded.With(all)) {
    CAPTURE(SignatureText(demand.signature));
    CAPTURE(demand.engine.id);
    CHECK(!IsDivisible(demand.signature));
  }

  // 8 images take 0.1 ms, a launch 2 us: 16 images 0.198 ms, and no other engine runs.
  MadeUpTimings half({{"fast", 8, 3 * kMiB, 1e-4}});
  half.failed = {{"medium", kBatch}, {"small", kBatch}};
  const std::vector<KernelDemand> demands =
      demanded.With(std::make_shared<MadeUpTimings>(half), {}, DivisionPolicy::kUndivided);
  const KernelDemand& fast = Get(demands, forward, "fast");
  CHECK(fast.is_in_plan);
  CHECK(fast.run_seconds == Approx(0.198e-3));
  CHECK(fast.worth_seconds == Approx(2 * 0.198e-3 * (0.1 + 0.2 * 0.1 + 0.06)));
}

TEST_CASE("what is expected to take three times as long as the fastest is not demanded") {
  Demanded demanded;
  // Of 8 images; for all 16 the times are those of twice as many after a launch of 2 us.
  const auto half = std::make_shared<MadeUpTimings>(std::vector<TimedEngine>{
      {"fast", 8, 3 * kMiB, 1e-3}, {"medium", 8, 3 * kMiB, 2.9e-3}, {"small", 8, 0, 3.1e-3}});
  const std::vector<KernelDemand> demands = demanded.With(half, {}, DivisionPolicy::kUndivided);
  const StepSignature forward = demanded.Of("first forward");
  CHECK(Find(demands, forward, "fast") != nullptr);
  CHECK(Find(demands, forward, "medium") != nullptr);
  CHECK(Find(demands, forward, "small") == nullptr);

  // Unless the plan runs it.
  demanded.budget_bytes =
      MinimumBudget(demanded.program, {}, demanded.device, demanded.catalog).value();
  const std::vector<KernelDemand> tight = demanded.With(half, {}, DivisionPolicy::kUndivided);
  CHECK(Get(tight, forward, "small").is_in_plan);
}

// Engines of twelve families, as a library lists them: many of the one that it recommends. The
// first engine of the second family needs more workspace than there is.
class FamiliesCatalog final : public EngineCatalog {
 public:
  absl::StatusOr<std::vector<Engine>> Engines(const StepSignature& signature) override {
    if (!IsDivisible(signature)) return std::vector<Engine>{{.id = std::string(kOwnEngine)}};
    std::vector<Engine> engines;
    for (int i = 0; i < 9; ++i) engines.push_back({.id = absl::StrCat("eng1_k2=", i)});
    engines.push_back({.id = "eng2_k2=0", .workspace_bytes = 100 * kGiB});
    for (int i = 2; i <= 12; ++i) engines.push_back({.id = absl::StrCat("eng", i, "_k2=1")});
    return engines;
  }
  std::string Versions() const override { return ""; }
};

TEST_CASE("the first engine of each family is demanded, however late the library lists it") {
  FamiliesCatalog catalog;
  const Demanded demanded;
  const KernelOptions kernels = {.divisions = DivisionPolicy::kUndivided};
  const PlanResult result =
      MakePlan(demanded.program, {.budget_bytes = 32 * kMiB, .kernels = kernels}, demanded.device,
               catalog)
          .value();
  const std::vector<KernelDemand> demands =
      DemandsOf(demanded.program, result.plan, kernels, demanded.device, catalog).value();
  const StepSignature forward = demanded.Of("first forward");
  const double seconds = demanded.Model("first forward");
  CHECK(Get(demands, forward, "eng1_k2=0").is_in_plan);
  CHECK(Get(demands, forward, "eng1_k2=0").runs == 2);
  // In two runs, by their places among the families.
  CHECK(Find(demands, forward, "eng2_k2=0") == nullptr);
  CHECK(Get(demands, forward, "eng2_k2=1").worth_seconds == Approx(2 * 0.06 * seconds));
  CHECK(Get(demands, forward, "eng3_k2=1").worth_seconds == Approx(2 * 0.05 * seconds));
  CHECK(Get(demands, forward, "eng8_k2=1").worth_seconds == Approx(2 * 0.03 * seconds));
  CHECK(Find(demands, forward, "eng9_k2=1") == nullptr);
  CHECK(Find(demands, forward, "eng1_k2=1") != nullptr);
  CHECK(Find(demands, forward, "eng1_k2=8") == nullptr);
}

TEST_CASE("engines that failed are not demanded") {
  Demanded demanded;
  const auto timings = std::make_shared<MadeUpTimings>(std::vector<TimedEngine>{});
  timings->failed = {{"fast", kBatch}};
  const std::vector<KernelDemand> demands = demanded.With(timings);
  const StepSignature forward = demanded.Of("first forward");
  CHECK(Find(demands, forward, "fast") == nullptr);
  CHECK(Get(demands, forward, "medium").is_in_plan);
  for (const KernelDemand& demand : demands) CHECK(demand.engine.id != "fast");
}

TEST_CASE("engines whose workspace never fits are not demanded") {
  Demanded demanded;
  demanded.budget_bytes =
      MinimumBudget(demanded.program, {}, demanded.device, demanded.catalog).value();
  for (const KernelDemand& demand : demanded.With(nullptr))
    CHECK(demand.engine.workspace_bytes <= demanded.budget_bytes);
  const std::vector<KernelDemand> demands = demanded.With(nullptr);
  CHECK(Find(demands, demanded.Of("first forward"), "fast") == nullptr);
}

TEST_CASE("collectives have no kernels to measure, and neither has the paper's accounting") {
  Demanded demanded;
  demanded.program = TwoConvolutions(
      {.share = {.rank = 0, .ranks = 2, .first_image = 0, .all_images = 2 * kBatch}});
  const auto is_collective = [](const Step& step) { return IsCollective(step.phase); };
  REQUIRE(std::any_of(demanded.program.steps.begin(), demanded.program.steps.end(), is_collective));
  const std::vector<KernelDemand> demands = demanded.With(nullptr);
  CHECK(!demands.empty());
  for (const KernelDemand& demand : demands) CHECK(!IsCollective(demand.signature.phase));

  demanded.program = TwoConvolutions({.accounting = Accounting::kPaper});
  CHECK(demanded.With(nullptr).empty());
}

TEST_CASE("a rerun counts as a run of the same kernel, unless it reads what the first has saved") {
  Demanded demanded;
  Graph net({.name = "reruns", .batch = kBatch});
  std::string x = net.Input({8, 12, 12});
  const Convolution same = {.out_channels = 8, .kernel = 3, .padding = 1, .bias = false};
  for (const std::string name : {"a", "b", "c"}) {
    x = net.Add(name, same, {x});
    x = net.Add(name + "_bn", BatchNorm{}, {x});
    x = net.Add(name + "_relu", Relu{}, {x});
  }
  net.Loss(net.Add("fc", FullyConnected{.out_features = 4}, {x}), SoftmaxCrossEntropy{});
  demanded.program = BuildProgram(net, {}).value();
  const PlannerOptions chen = {.budget_bytes = kGiB, .policy = "chen"};
  const PlanResult result =
      MakePlan(demanded.program, chen, demanded.device, demanded.catalog).value();
  int64_t convolutions = 0, norms = 0;  // with the reruns of convolutions
  for (const Action& action : result.plan.actions) {
    const auto* const compute = std::get_if<ComputeAction>(&action);
    if (compute == nullptr) continue;
    const Step& step = demanded.program.steps[compute->step.index()];
    const std::string name = demanded.program.StepName(step);
    convolutions += name == "a forward" || name == "b forward" || name == "c forward" ? 1 : 0;
    norms += compute->recompute && name == "a_bn forward" ? 1 : 0;
  }
  REQUIRE(convolutions > 3);
  REQUIRE(norms > 0);
  const std::vector<KernelDemand> demands =
      DemandsOf(demanded.program, result.plan, {}, demanded.device, demanded.catalog).value();
  for (const KernelDemand& demand : demands)
    CHECK((!demand.signature.rerun || demand.signature.layer.type() == "batch_norm"));
  const double seconds = demanded.Model("a forward");
  CHECK(Get(demands, demanded.Of("a forward"), "fast").worth_seconds ==
        Approx(static_cast<double>(convolutions) * seconds * 0.42));
}

TEST_CASE("every kernel of a plan is demanded, and the additions of gradients") {
  Demanded demanded;
  demanded.program = TwoConvolutions({.sub_batches = 2});
  std::set<std::string> wanted;
  for (const Step& step : demanded.program.steps) {
    wanted.insert(SignatureText(demanded.program.Signature(step)));
    for (const Use& use : step.accumulates) {
      if (!KernelOverwrites(step, use)) continue;
      wanted.insert(SignatureText(AdditionSignature(demanded.program.tensor(use.tensor).spec)));
    }
  }
  std::set<std::string> found;
  for (const KernelDemand& demand : demanded.With(nullptr))
    found.insert(SignatureText(demand.signature));
  CHECK(found == wanted);
}

}  // namespace
}  // namespace neap
