// The engines of convolutions with a ReLU, and their order. Needs cuDNN, but no GPU.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "neap/core/base/units.h"
#include "neap/core/step/signature_text.h"
#include "neap/layers/convolution.h"
#include "neap/layers/fusion/fused_convolution.h"
#include "tests/layers/cuda/described_h200.h"

namespace neap::testing {
namespace {

constexpr DType kFusedTypes[] = {DType::kFp32, DType::kTf32, DType::kBf16, DType::kFp16};
constexpr Layout kLayouts[] = {Layout::kChannelsFirst, Layout::kChannelsLast};

StepSignature Forward(const Layer& layer, const TensorSpec& x) {
  return Signatures(layer, x).front();
}

bool HasRelu(const Engine& engine) { return engine.computes_relu; }

// The engines with a ReLU, or those without.
std::vector<Engine> Only(bool relu, const std::vector<Engine>& engines) {
  std::vector<Engine> found;
  std::copy_if(engines.begin(), engines.end(), std::back_inserter(found),
               [&](const Engine& engine) { return HasRelu(engine) == relu; });
  return found;
}

std::vector<std::string> IdsOf(const std::vector<Engine>& engines) {
  std::vector<std::string> ids;
  for (const Engine& engine : engines) ids.push_back(engine.id);
  return ids;
}

TEST_CASE("a convolution with a ReLU has its own engines, and a few that compute the ReLU") {
  const std::unique_ptr<EngineCatalog> catalog = CatalogOrSkip();
  if (!catalog) return;
  auto& backend = dynamic_cast<Backend&>(*catalog);
  const Convolution conv = {.out_channels = 128, .kernel = 3, .padding = 1};
  for (DType dtype : kFusedTypes) {
    for (Layout layout : kLayouts) {
      const TensorSpec x = {{16, 64, 28, 28}, dtype, layout};
      const StepSignature step = Forward(FusedConvolution{conv}, x);
      CAPTURE(SignatureText(step));
      const std::vector<Engine> engines = catalog->Engines(step).value();
      CHECK(IdsOf(Only(false, engines)) == IdsOf(catalog->Engines(Forward(conv, x)).value()));
      const std::vector<Engine> relu = Only(true, engines);
      const bool fp32 = dtype == DType::kFp32;
      CHECK(!relu.empty());
      CHECK(relu.size() <= (fp32 ? 4 : 8));
      const int64_t bias_bytes = Is16Bit(dtype) ? 256 : 0;
      for (const Engine& engine : relu) {
        CHECK(engine.id.starts_with("relu:eng"));
        CHECK(engine.uses_tensor_cores == !fp32);
        CHECK(engine.workspace_bytes >= bias_bytes);
        CHECK(backend.Find(step, engine.id)->workspace_bytes == engine.workspace_bytes);
      }
      CHECK(absl::IsNotFound(backend.Find(step, "relu:eng").status()));
    }
  }
}

TEST_CASE("engines with a ReLU come first on tensor cores, if they need no larger workspace") {
  const std::unique_ptr<EngineCatalog> catalog = CatalogOrSkip();
  if (!catalog) return;
  const Layer conv = FusedConvolution{{.out_channels = 128, .kernel = 3, .padding = 1}};
  bool some_are_later = false;
  for (DType dtype : kFusedTypes) {
    for (Layout layout : kLayouts) {
      for (int64_t channels : {3, 64}) {
        const StepSignature step = Forward(conv, {{16, channels, 28, 28}, dtype, layout});
        CAPTURE(SignatureText(step));
        const std::vector<Engine> engines = catalog->Engines(step).value();
        const auto plain = std::find_if_not(engines.begin(), engines.end(), HasRelu);
        const auto last = std::find_if(plain, engines.end(), HasRelu);
        CHECK(std::all_of(last, engines.end(), HasRelu));
        const int64_t bias_bytes = Is16Bit(dtype) ? 256 : 0;
        for (auto engine = engines.begin(); engine != plain; ++engine)
          CHECK(engine->workspace_bytes <= plain->workspace_bytes + bias_bytes);
        for (auto engine = last; engine != engines.end(); ++engine) {
          CHECK((dtype == DType::kFp32 ||
                 engine->workspace_bytes > plain->workspace_bytes + bias_bytes));
          some_are_later = some_are_later || dtype != DType::kFp32;
        }
        if (dtype == DType::kFp32) CHECK(plain == engines.begin());
        if (dtype != DType::kFp32 && channels == 64) CHECK(HasRelu(engines.front()));
      }
    }
  }
  CHECK(some_are_later);
}

TEST_CASE("engines with a ReLU come behind space to depth and matrix products that come first") {
  const std::unique_ptr<EngineCatalog> catalog = CatalogOrSkip();
  if (!catalog) return;
  const Layer first = FusedConvolution{{.out_channels = 96, .kernel = 11, .stride = 4}};
  for (DType dtype : {DType::kTf32, DType::kBf16, DType::kFp16}) {
    const StepSignature step = Forward(first, {{8, 3, 227, 227}, dtype, Layout::kChannelsLast});
    CAPTURE(SignatureText(step));
    const std::vector<Engine> engines = catalog->Engines(step).value();
    const auto is_deep = [](const Engine& engine) { return engine.id.starts_with("s2d4x4+"); };
    CHECK(is_deep(engines.front()));
    const auto other = std::find_if_not(engines.begin(), engines.end(), is_deep);
    CHECK(std::none_of(other, engines.end(), is_deep));
    CHECK(std::any_of(other, engines.end(), HasRelu));
  }
  const Layer pointwise = FusedConvolution{{.out_channels = 64, .kernel = 1}};
  const std::vector<Engine> engines =
      catalog->Engines(Forward(pointwise, {{16, 64, 28, 28}})).value();
  CHECK(engines.front().id == "cublaslt-1x1");
  CHECK(HasRelu(engines.back()));
}

TEST_CASE("without a bias no engine computes the ReLU, nor does one in another step") {
  const std::unique_ptr<EngineCatalog> catalog = CatalogOrSkip();
  if (!catalog) return;
  Convolution conv = {.out_channels = 128, .kernel = 3, .padding = 1, .bias = false};
  for (DType dtype : {DType::kFp32, DType::kTf32}) {
    const TensorSpec x = {{16, 64, 28, 28}, dtype, Layout::kChannelsLast};
    const std::vector<Engine> engines =
        catalog->Engines(Forward(FusedConvolution{conv}, x)).value();
    CHECK(IdsOf(engines) == IdsOf(catalog->Engines(Forward(conv, x)).value()));
  }
  conv.bias = true;
  const std::vector<StepSignature> steps =
      Signatures(FusedConvolution{conv}, {{16, 64, 28, 28}, DType::kTf32, Layout::kChannelsLast});
  for (size_t i = 1; i < steps.size(); ++i)
    CHECK(Only(true, catalog->Engines(steps[i]).value()).empty());
}

}  // namespace
}  // namespace neap::testing
