// The engines of convolutions of volumes. Needs cuDNN, but no GPU.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "neap/core/step/divided_kernel.h"
#include "neap/core/step/signature_text.h"
#include "neap/layers/convolution.h"
#include "neap/layers/cuda/conv/cudnn_engines.h"
#include "neap/layers/fusion/fused_convolution.h"
#include "neap/layers/transposed_convolution.h"
#include "tests/layers/cuda/described_h200.h"

namespace neap::testing {
namespace {

constexpr DType kTypes[] = {DType::kFp32, DType::kTf32, DType::kBf16, DType::kFp16};

// The engines of each step, all of which are cuDNN's.
void CheckEngines(EngineCatalog& catalog, const Layer& layer, const TensorSpec& x) {
  for (const StepSignature& step : Signatures16(layer, x)) {
    CAPTURE(SignatureText(step));
    const absl::StatusOr<std::vector<Engine>> engines = catalog.Engines(step);
    REQUIRE_MESSAGE(engines.ok(), std::string(engines.status().message()));
    CHECK(std::any_of(engines->begin(), engines->end(),
                      [](const Engine& engine) { return engine.deterministic; }));
    for (const Engine& engine : *engines) {
      if (step.phase == Phase::kBackwardActivation) continue;
      CHECK(engine.id.find("eng") != std::string::npos);
      CHECK(engine.id.find("s2d") == std::string::npos);
      CHECK(engine.workspace_bytes >= 0);
      CHECK(engine.notes.find("reduced-precision") == std::string::npos);
    }
    if (step.phase != Phase::kBackwardParams) continue;
    const absl::StatusOr<std::vector<Engine>> adding = AddingEngines(step, catalog);
    REQUIRE_MESSAGE(adding.ok(), std::string(adding.status().message()));
    CHECK(!adding->empty());
  }
}

TEST_CASE("convolutions of volumes have engines of cuDNN in all phases, types and layouts") {
  const std::unique_ptr<EngineCatalog> catalog = CatalogOrSkip();
  if (!catalog) return;
  for (const DType dtype : kTypes) {
    for (const Layout layout : {Layout::kChannelsFirst, Layout::kChannelsLast}) {
      const TensorSpec x = {{2, 16, 8, 12, 10}, dtype, layout};
      const Convolution conv = {.out_channels = 32, .kernel = 3, .padding = 1};
      CheckEngines(*catalog, conv, x);
      CheckEngines(*catalog, FusedConvolution{conv}, x);
      CheckEngines(*catalog,
                   Convolution{.out_channels = 8,
                               .kernel = {3, 2, 1},
                               .stride = {2, 1, 1},
                               .padding = {1, 0, 0},
                               .dilation = {1, 2, 1}},
                   x);
      CheckEngines(*catalog, TransposedConvolution{.out_channels = 8, .kernel = 2, .stride = 2}, x);
      // Images have kernels of neap's own for these.
      CheckEngines(*catalog, Convolution{.out_channels = 16, .stride = 2}, x);
      CheckEngines(*catalog,
                   Convolution{.out_channels = 16, .kernel = 3, .padding = 1, .groups = 16}, x);
      CheckEngines(*catalog, Convolution{.out_channels = 8, .kernel = 3, .stride = 2},
                   {{2, 3, 8, 12, 10}, dtype, layout});
    }
  }
}

TEST_CASE("some versions of cuDNN are too old for volumes, but not for images") {
  CHECK(IsTooOld(91400, 3));
  CHECK(IsTooOld(90800, 3));
  CHECK(!IsTooOld(91500, 3));
  CHECK(!IsTooOld(91900, 3));
  CHECK(!IsTooOld(90800, 2));
}

}  // namespace
}  // namespace neap::testing
