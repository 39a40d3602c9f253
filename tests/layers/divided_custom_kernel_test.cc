// Custom kernels of a layer that is run in parts of its mini-batch.
#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "neap/core/base/status_macros.h"
#include "neap/core/step/divided_kernel.h"
#include "neap/core/step/signature_text.h"
#include "neap/core/step/step_signature.h"
#include "neap/layers/catalog/custom_kernel.h"
#include "neap/layers/catalog/default_catalog.h"
#include "neap/layers/conv/plan_convolution.h"
#include "neap/layers/convolution.h"
#include "neap/layers/cpu/cpu_backend.h"
#include "tests/layers/harness.h"

namespace neap::testing {
namespace {

using namespace operands;

// A convolution by another name. Its kernel writes the gradients of the parameters, or adds to them
// where it is asked to; `adds` says whether the definition declares the latter.
struct OwnConvolution {
  static constexpr std::string_view kType = "own_convolution";
  Convolution like;
  bool adds = false;
  absl::StatusOr<LayerSpec> Specify(const LayerContext& context) const {
    ASSIGN_OR_RETURN(LayerSpec spec, like.Specify(context));
    for (StepSpec& step : spec.steps) {
      if (adds && step.phase == Phase::kBackwardParams)
        step.accumulates_natively = {Slot::kParamGrad};
    }
    return spec;
  }
  std::string Parameters() const { return like.Parameters(); }
  friend bool operator==(const OwnConvolution&, const OwnConvolution&) = default;
};

const TensorSpec kImages = {{8, 3, 4, 4}};

StepSignature WeightGradient(bool adds) {
  const Convolution like = {.out_channels = 4, .kernel = 3, .bias = false};
  return SignatureOf(OwnConvolution{like, adds}, Phase::kBackwardParams, {kImages}).value();
}

// dw[o, c, i, j] = sum of dy[n, o, y, x] * x[n, c, y + i, x + j], over the images of the run.
absl::Status Gradient(const CustomRun& step) {
  const Shape& x = step.signature.Spec(X()).shape;
  const Shape& dy = step.signature.Spec(Dy()).shape;
  const Shape& dw = step.signature.Spec(ParamGrad(0)).shape;
  float* to = step.Get<float>(ParamGrad(0));
  const bool adds = step.signature.Accumulates(ParamGrad(0));
  for (int64_t o = 0; o < dw.n(); ++o) {
    for (int64_t c = 0; c < dw.c(); ++c) {
      for (int64_t tap = 0; tap < dw.h() * dw.w(); ++tap, ++to) {
        float sum = adds ? *to : 0.0F;
        for (int64_t n = 0; n < x.n(); ++n) {
          for (int64_t at = 0; at < dy.h() * dy.w(); ++at) {
            const int64_t row = at / dy.w() + tap / dw.w(), column = at % dy.w() + tap % dw.w();
            sum += step.Get<float>(Dy())[(n * dy.c() + o) * dy.h() * dy.w() + at] *
                   step.Get<float>(X())[((n * x.c() + c) * x.h() + row) * x.w() + column];
          }
        }
        *to = sum;
      }
    }
  }
  return absl::OkStatus();
}

// The kernel takes workspace for each image, so that a limit divides the batch.
std::vector<CustomKernel> Kernels() {
  return {{.layer_type = std::string(OwnConvolution::kType),
           .phase = Phase::kBackwardParams,
           .run = Gradient,
           .workspace_bytes = [](const StepSignature& step) { return 1024 * BatchOf(step); }}};
}

// A backend whose only step is run in parts of the batch, as `parts` say.
class DividedBackend final : public Backend {
 public:
  DividedBackend(Backend& backend, Configuration parts)
      : backend_(backend), parts_(std::move(parts)) {}
  absl::StatusOr<std::vector<Engine>> Engines(const StepSignature& /*signature*/) override {
    return std::vector<Engine>{{.id = "parts", .workspace_bytes = parts_.workspace_bytes}};
  }
  absl::StatusOr<std::unique_ptr<Kernel>> MakeKernel(const StepSignature& signature,
                                                     std::string_view /*engine*/) override {
    return MakeDividedKernel(backend_, signature, parts_.parts, parts_.workspace_bytes);
  }
  std::string Versions() const override { return ""; }

 private:
  Backend& backend_;
  Configuration parts_;
};

TEST_CASE("a custom kernel is listed as one that adds only if its layer says so") {
  const std::unique_ptr<Backend> backend = MakeCpuBackend(Kernels()).value();
  DefaultCatalog described(Kernels());
  for (EngineCatalog* const catalog :
       {static_cast<EngineCatalog*>(backend.get()), static_cast<EngineCatalog*>(&described)}) {
    CHECK(catalog->Engines(WeightGradient(false)).ok());
    CHECK(AddingEngines(WeightGradient(false), *catalog)->empty());
    CHECK(AddingEngines(WeightGradient(true), *catalog)->size() == 1);
    const absl::Status status = catalog->Engines(AddingSignature(WeightGradient(false))).status();
    CHECK(absl::IsUnimplemented(status));
    CHECK(std::string(status.message()) ==
          "the kernel registered for own_convolution backward_params does not accumulate "
          "param_grad[0]: the step's accumulates_natively lacks the slot");
  }
}

TEST_CASE("the gradient of a divided custom convolution is the sum over all parts") {
  const std::unique_ptr<Backend> backend = MakeCpuBackend(Kernels()).value();
  Values given = {{X(), {}}, {Dy(), {}}};
  const StepSignature step = WeightGradient(false);
  // Whole numbers, so that sums are exact in any order.
  for (auto& [operand, values] : given) {
    for (int64_t i = 0; i < step.Spec(operand).elements(); ++i)
      values.push_back(static_cast<double>(i % 7 - 3));
  }
  const Values whole = RunStep(*backend, HostAccess(), step, given).value();
  for (const bool adds : {false, true}) {
    CAPTURE(adds);
    const StepSignature divided = WeightGradient(adds);
    const Configuration parts =
        PlanConvolution(divided, {.workspace_limit_bytes = 4096}, *backend).value();
    REQUIRE(parts.parts.size() > 1);
    CHECK(parts.parts.back().adds == adds);
    DividedBackend in_parts(*backend, parts);
    CHECK(RunStep(in_parts, HostAccess(), divided, given).value() == whole);
  }
}

}  // namespace
}  // namespace neap::testing
