#include "neap/layers/conv/plan_convolution.h"

#include <doctest/doctest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "neap/core/base/status_macros.h"
#include "neap/core/step/divided_kernel.h"
#include "neap/core/step/signature_text.h"
#include "neap/core/step/step_signature.h"
#include "neap/layers/activation.h"
#include "neap/layers/catalog/engine_id.h"
#include "neap/layers/convolution.h"
#include "neap/layers/cpu/cpu_backend.h"
#include "neap/layers/cpu/cpu_device.h"
#include "tests/layers/made_up_timings.h"

namespace neap {
namespace {

using testing::MadeUpTimings;

// A catalog whose workspaces grow with the batch, as the libraries' do.
class GrowingCatalog final : public EngineCatalog {
 public:
  absl::StatusOr<std::vector<Engine>> Engines(const StepSignature& signature) override {
    const int64_t batch = BatchOf(signature);
    if (batch > largest) return absl::UnimplementedError("too large");
    if (AddsToGradients(signature)) {
      if (!adds) return absl::UnimplementedError("");
      return std::vector<Engine>{{.id = "fast", .workspace_bytes = 110 * batch}};
    }
    return std::vector<Engine>{
        {.id = "fast", .workspace_bytes = 100 * batch, .deterministic = is_fast_deterministic},
        {.id = "slow", .workspace_bytes = 30 * batch}};
  }
  std::string Versions() const override { return ""; }

  bool is_fast_deterministic = true;
  bool adds = false;
  int64_t largest = 100;
};

StepSignature TenImages(Phase phase) {
  return SignatureOf(Convolution{.out_channels = 4, .kernel = 3}, phase, {{{10, 4, 6, 6}}}).value();
}

using Parts = std::vector<EngineUse>;

Parts PartsOf(const absl::StatusOr<Configuration>& plan) {
  REQUIRE(plan.ok());
  return plan->parts;
}

bool Contains(const absl::Status& status, const std::string& text) {
  return std::string(status.message()).find(text) != std::string::npos;
}

TEST_CASE("a plan is the fastest that fits; a byte less gives the next, or an error") {
  GrowingCatalog catalog;
  const StepSignature forward = TenImages(Phase::kForward);
  const MadeUpTimings timings(
      {{"fast", 10, 1000, 1.0}, {"fast", 5, 500, 0.6}, {"slow", 10, 300, 5}});
  const auto plan = [&](int64_t limit_bytes, DivisionPolicy divisions = DivisionPolicy::kAll) {
    return PlanConvolution(
        forward,
        {.workspace_limit_bytes = limit_bytes, .divisions = divisions, .timings = &timings},
        catalog);
  };
  CHECK(PartsOf(plan(1000)) == Parts{{"fast", 10}});
  CHECK(PartsOf(plan(999)) == Parts{{"fast", 5}, {"fast", 5}});
  CHECK(plan(999)->workspace_bytes == 500);
  CHECK(plan(999)->seconds == doctest::Approx(1.2));
  CHECK(PartsOf(plan(500)) == Parts{{"fast", 5}, {"fast", 5}});
  CHECK(PartsOf(plan(499)) == Parts{{"slow", 10}});
  CHECK(PartsOf(plan(300)) == Parts{{"slow", 10}});
  CHECK(absl::IsResourceExhausted(plan(299, DivisionPolicy::kUndivided).status()));
  CHECK(Contains(plan(299, DivisionPolicy::kUndivided).status(), "needs 300"));
  CHECK(PartsOf(plan(299)) == Parts{{"slow", 8}, {"fast", 2}});  // not measured, but it fits
  CHECK(Contains(plan(29).status(), "needs 30"));
  CHECK(PartsOf(plan(999, DivisionPolicy::kPowerOfTwo)) == Parts{{"slow", 10}});
  CHECK(PartsOf(plan(999, DivisionPolicy::kUndivided)) == Parts{{"slow", 10}});
}

TEST_CASE("measured engines that the library dropped, or lists with more workspace, are not used") {
  GrowingCatalog catalog;
  const StepSignature forward = TenImages(Phase::kForward);
  const MadeUpTimings timings({{"gone", 10, 0, 0.1},
                               {"fast", 10, 999, 0.2},
                               {"gone", 5, 0, 0.1},
                               {"fast", 5, 499, 0.2},
                               {"slow", 5, 150, 0.6},
                               {"slow", 10, 300, 5}});
  CHECK(PartsOf(PlanConvolution(forward, {.timings = &timings}, catalog)) ==
        Parts{{"slow", 5}, {"slow", 5}});
}

TEST_CASE("an engine that the library does not list for one part is used for no other part") {
  GrowingCatalog catalog;
  const StepSignature forward = TenImages(Phase::kForward);
  const MadeUpTimings timings(
      {{"gone", 5, 0, 0.1}, {"gone", 2, 0, 0.01}, {"slow", 5, 150, 0.6}, {"slow", 10, 300, 5}});
  int listed = 0;
  class CountingCatalog final : public EngineCatalog {
   public:
    CountingCatalog(EngineCatalog& other, int& listed) : other_(other), listed_(listed) {}
    absl::StatusOr<std::vector<Engine>> Engines(const StepSignature& signature) override {
      ++listed_;
      return other_.Engines(signature);
    }
    std::string Versions() const override { return ""; }

   private:
    EngineCatalog& other_;
    int& listed_;
  } counting(catalog, listed);
  CHECK(PartsOf(PlanConvolution(forward, {.timings = &timings}, counting)) ==
        Parts{{"slow", 5}, {"slow", 5}});
  CHECK(listed <= 4);  // the whole batch, the unlisted part, and the two listed ones
}

TEST_CASE("times of engines that add in fp16 are used only if the catalog lists them") {
  const MadeUpTimings timings({{"slow", 10, 300, 5},
                               WithTime(EngineFromText("half:fast", 300), 10, 2),
                               WithTime(EngineFromText("half:fast", 150), 5, 0.5),
                               {"slow", 5, 150, 2}});
  class HalfCatalog final : public EngineCatalog {
   public:
    absl::StatusOr<std::vector<Engine>> Engines(const StepSignature& signature) override {
      const int64_t bytes = 30 * BatchOf(signature);
      std::vector<Engine> engines = {{.id = "slow", .workspace_bytes = bytes}};
      if (lists_half) engines.push_back(EngineFromText("half:fast", bytes));
      return engines;
    }
    std::string Versions() const override { return ""; }
    bool lists_half = false;
  } catalog;
  const StepSignature forward = TenImages(Phase::kForward);
  CHECK(PartsOf(PlanConvolution(forward, {.timings = &timings}, catalog)) ==
        Parts{{"slow", 5}, {"slow", 5}});
  catalog.lists_half = true;
  CHECK(PartsOf(PlanConvolution(forward, {.timings = &timings}, catalog)) ==
        Parts{{"half:fast", 5}, {"half:fast", 5}});
}

TEST_CASE("times of parts are not used if the whole batch was not measured") {
  GrowingCatalog catalog;
  const StepSignature forward = TenImages(Phase::kForward);
  const MadeUpTimings timings({{"fast", 5, 500, 0.6}});
  CHECK(PartsOf(PlanConvolution(forward, {.timings = &timings}, catalog)) == Parts{{"fast", 10}});
}

TEST_CASE("gradients of parameters in parts also need scratch memory, exact to the byte") {
  GrowingCatalog catalog;
  const StepSignature step = TenImages(Phase::kBackwardParams);
  const MadeUpTimings timings({{"fast", 5, 500, 0.6}, {"slow", 10, 300, 5}});
  const int64_t divided_bytes = 500 + DivisionScratchBytes(step);
  const auto plan = [&](int64_t limit_bytes) {
    return PlanConvolution(step, {.workspace_limit_bytes = limit_bytes, .timings = &timings},
                           catalog);
  };
  CHECK(plan(divided_bytes)->workspace_bytes == divided_bytes);
  CHECK(PartsOf(plan(divided_bytes)) == Parts{{"fast", 5}, {"fast", 5}});
  CHECK(PartsOf(plan(divided_bytes - 1)) == Parts{{"slow", 10}});
}

TEST_CASE("an engine that adds gradients by itself needs no scratch memory for them") {
  GrowingCatalog catalog;
  catalog.adds = true;
  const StepSignature step = TenImages(Phase::kBackwardParams);
  const MadeUpTimings timings({{"fast", 5, 500, 0.6}, {"slow", 10, 300, 5}},
                              {{"fast", 5, 550, 0.7}});
  const auto plan = [&](int64_t limit_bytes) {
    return PlanConvolution(step, {.workspace_limit_bytes = limit_bytes, .timings = &timings},
                           catalog);
  };
  CHECK(PartsOf(plan(550)) == Parts{{"fast", 5}, {"fast", 5, true}});
  CHECK(plan(550)->workspace_bytes == 550);
  CHECK(plan(550)->seconds == doctest::Approx(0.6 + 0.7));
  CHECK(PartsOf(plan(549)) == Parts{{"slow", 10}});
  catalog.adds = false;  // any more
  CHECK(PartsOf(plan(550)) == Parts{{"slow", 10}});
  CHECK(PartsOf(plan(500 + DivisionScratchBytes(step))) == Parts{{"fast", 5}, {"fast", 5}});
}

TEST_CASE("the time of additions counts; if it is unknown, no part uses scratch memory") {
  GrowingCatalog catalog;
  catalog.adds = true;
  const StepSignature step = TenImages(Phase::kBackwardParams);
  const std::vector<TimedEngine> engines = {{"fast", 5, 500, 0.6}, {"slow", 10, 300, 5}};
  const auto plan = [&](std::optional<double> addition_seconds,
                        std::vector<TimedEngine> adding = {}) {
    MadeUpTimings timings(engines, std::move(adding));
    timings.addition_seconds = addition_seconds;
    return PlanConvolution(step, {.timings = &timings}, catalog);
  };
  CHECK(PartsOf(plan(0.1)) == Parts{{"fast", 5}, {"fast", 5}});
  CHECK(plan(0.1)->seconds == doctest::Approx(2 * 0.6 + 2 * 0.1));  // weight and bias
  CHECK(PartsOf(plan({})) == Parts{{"slow", 10}});
  CHECK(PartsOf(plan({}, {{"fast", 5, 550, 0.7}})) == Parts{{"fast", 5}, {"fast", 5, true}});
}

TEST_CASE("engines that add need no scratch memory without timings either") {
  GrowingCatalog catalog;
  const StepSignature step = TenImages(Phase::kBackwardParams);
  const auto plan = [&](int64_t limit_bytes) {
    return PlanConvolution(step, {.workspace_limit_bytes = limit_bytes}, catalog);
  };
  CHECK(absl::IsResourceExhausted(plan(299).status()));
  catalog.adds = true;
  CHECK(PartsOf(plan(299)) == Parts{{"slow", 8}, {"fast", 2, true}});
  CHECK(plan(299)->workspace_bytes == 240);
}

TEST_CASE("without timings the library's order decides, undivided if any engine fits") {
  GrowingCatalog catalog;
  const StepSignature forward = TenImages(Phase::kForward);
  const MadeUpTimings nothing({});
  for (const KernelTimings* timings :
       {static_cast<const KernelTimings*>(nullptr), static_cast<const KernelTimings*>(&nothing)}) {
    const auto plan = [&](int64_t limit_bytes, DivisionPolicy divisions = DivisionPolicy::kAll) {
      return PlanConvolution(
          forward,
          {.workspace_limit_bytes = limit_bytes, .divisions = divisions, .timings = timings},
          catalog);
    };
    CHECK(PartsOf(plan(1000)) == Parts{{"fast", 10}});
    CHECK(plan(1000)->seconds == 0);
    CHECK(PartsOf(plan(999)) == Parts{{"slow", 10}});
    CHECK(PartsOf(plan(299)) == Parts{{"slow", 8}, {"fast", 2}});
    CHECK(plan(299)->workspace_bytes == 240);
    CHECK(PartsOf(plan(60)) == Parts(5, {"slow", 2}));
    CHECK(PartsOf(plan(30)) == Parts(10, {"slow", 1}));
    CHECK(absl::IsResourceExhausted(plan(29).status()));
    CHECK(Contains(plan(29).status(), "needs 30"));
    CHECK(Contains(plan(299, DivisionPolicy::kUndivided).status(), "needs 300"));
  }
}

TEST_CASE("a batch that is too large for all engines runs in the largest parts that are not") {
  GrowingCatalog catalog;
  catalog.largest = 5;
  const StepSignature step = TenImages(Phase::kForward);
  const MadeUpTimings timings({{"fast", 4, 400, 4e-3}, {"fast", 8, 800, 1e-3}});
  const KernelTimings* const both[] = {nullptr, &timings};
  for (const KernelTimings* const known : both) {
    const absl::StatusOr<Configuration> plan =
        PlanConvolution(step, {.workspace_limit_bytes = 1000, .timings = known}, catalog);
    CHECK(PartsOf(plan) == Parts{{"fast", 4}, {"fast", 4}, {"fast", 2}});
  }
  catalog.largest = 0;
  CHECK(PlanConvolution(step, {}, catalog).status().message() == "too large");
}

TEST_CASE("nondeterministic engines are left out on request") {
  GrowingCatalog catalog;
  catalog.is_fast_deterministic = false;
  const StepSignature forward = TenImages(Phase::kForward);
  const MadeUpTimings timings({{"fast", 10, 1000, 1.0, false}, {"slow", 10, 300, 5}});
  for (const KernelTimings* known :
       {static_cast<const KernelTimings*>(nullptr), static_cast<const KernelTimings*>(&timings)}) {
    CHECK(PartsOf(PlanConvolution(forward, {.timings = known}, catalog)) == Parts{{"fast", 10}});
    CHECK(PartsOf(PlanConvolution(forward, {.timings = known, .deterministic = true}, catalog)) ==
          Parts{{"slow", 10}});
  }
}

TEST_CASE("a failed engine is avoided for the whole batch, for parts and for adding") {
  GrowingCatalog catalog;
  const StepSignature forward = TenImages(Phase::kForward);
  MadeUpTimings timings({});
  const auto plan = [&](const StepSignature& step, DivisionPolicy divisions) {
    return PlanConvolution(step, {.divisions = divisions, .timings = &timings}, catalog);
  };
  timings.failed = {{"fast", 10}};
  CHECK(PartsOf(plan(forward, DivisionPolicy::kAll)) == Parts{{"slow", 10}});
  timings.failed = {{"fast", 10}, {"slow", 10}, {"fast", 2}};
  CHECK(PartsOf(plan(forward, DivisionPolicy::kAll)) == Parts{{"fast", 8}, {"slow", 2}});
  CHECK(PartsOf(plan(forward, DivisionPolicy::kUndivided)) == Parts{{"fast", 10}});  // all failed
  const StepSignature gradients = TenImages(Phase::kBackwardParams);
  catalog.adds = true;
  timings.failed.pop_back();
  CHECK(PartsOf(plan(gradients, DivisionPolicy::kAll)) == Parts{{"fast", 8}, {"fast", 2, true}});
  timings.failed.push_back({"fast", 2, true});
  CHECK(PartsOf(plan(gradients, DivisionPolicy::kAll)) == Parts{{"fast", 8}, {"fast", 2}});
}

TEST_CASE("for each step a kernel can be made from the plan with the workspace that it states") {
  const std::unique_ptr<Backend> backend = MakeCpuBackend();
  for (Phase phase : {Phase::kForward, Phase::kBackwardParams, Phase::kBackwardData}) {
    const StepSignature step = TenImages(phase);
    absl::StatusOr<Configuration> plan = PlanConvolution(step, {}, *backend);
    while (plan.ok()) {  // down to the least workspace
      CHECK(MakeDividedKernel(*backend, step, plan->parts, plan->workspace_bytes).ok());
      plan = PlanConvolution(step, {.workspace_limit_bytes = plan->workspace_bytes - 1}, *backend);
    }
    CHECK(absl::IsResourceExhausted(plan.status()));
  }
}

absl::Status RunPlanned(const StepSignature& step, absl::Span<void* const> operands,
                        int64_t workspace_limit_bytes) {
  const std::unique_ptr<Backend> backend = MakeCpuBackend();
  ASSIGN_OR_RETURN(
      const Configuration plan,
      PlanConvolution(step, {.workspace_limit_bytes = workspace_limit_bytes}, *backend));
  ASSIGN_OR_RETURN(const std::unique_ptr<Kernel> kernel,
                   MakeDividedKernel(*backend, step, plan.parts, plan.workspace_bytes));
  const absl::StatusOr<Buffer> workspace =
      CpuDevice::Open().value()->Allocate(MemoryKind::kDevice, workspace_limit_bytes);
  return kernel->Run({.operands = operands,
                      .workspace = workspace->data(),
                      .workspace_bytes = plan.workspace_bytes});
}

TEST_CASE("a plan runs on the caller's memory and workspace") {
  const StepSignature step = TenImages(Phase::kForward);
  std::vector<std::vector<float>> tensors;
  std::vector<void*> operands;
  for (const OperandSpec& operand : step.operands)
    tensors.emplace_back(static_cast<size_t>(operand.tensor.elements()), 0.5F);
  for (std::vector<float>& tensor : tensors) operands.push_back(tensor.data());
  const absl::Status status = RunPlanned(step, operands, 1 * kMiB);
  CHECK_MESSAGE(status.ok(), status);
  // 4 channels of 3 x 3, 0.5 * 0.5 each, and the bias.
  const std::vector<float> expected(tensors.back().size(), 4 * 9 * 0.25F + 0.5F);
  CHECK(tensors.back() == expected);
}

TEST_CASE("a step that is not a convolution's is refused") {
  GrowingCatalog catalog;
  const StepSignature relu = SignatureOf(Relu{}, Phase::kForward, {{{2, 3, 4, 4}}}).value();
  CHECK(absl::IsInvalidArgument(PlanConvolution(relu, {}, catalog).status()));
}

}  // namespace
}  // namespace neap
