// The engines of convolutions of volumes. Needs cuDNN, but no GPU.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
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
    }
  }
}

// The engine by space to depth that comes first in the list, with its place; -1 if there is none.
std::pair<int, Engine> FirstDeep(EngineCatalog& catalog, const StepSignature& step) {
  const std::vector<Engine> engines = catalog.Engines(step).value();
  for (size_t i = 0; i < engines.size(); ++i) {
    if (absl::StartsWith(engines[i].id, "s2d")) return {static_cast<int>(i), engines[i]};
  }
  return {-1, {}};
}

TEST_CASE("first layers of volumes have engines by space to depth, with and without a stride") {
  const std::unique_ptr<EngineCatalog> catalog = CatalogOrSkip();
  if (!catalog) return;
  const Convolution strided = {.out_channels = 32, .kernel = 7, .stride = 2, .padding = 3};
  const Convolution plain = {.out_channels = 32, .kernel = 3, .padding = 1};
  struct Case {
    Convolution layer;
    int64_t channels;
    DType dtype;
    const char* prefix;        // empty if there are no such engines
    int64_t channels_of_deep;  // with their padding
    int64_t positions;         // of an image of the rearranged x
  };
  const Case cases[] = {{strided, 1, DType::kBf16, "s2d2x2x2+", 8, 19 * 15 * 13},
                        {strided, 1, DType::kTf32, "s2d2x2x2+", 8, 19 * 15 * 13},
                        {plain, 1, DType::kBf16, "s2d1x1x3+", 8, 34 * 26 * 20},
                        {plain, 4, DType::kFp16, "s2d1x1x3+", 16, 34 * 26 * 20},
                        {plain, 1, DType::kTf32, "s2d1x1x3+", 4, 34 * 26 * 20},
                        {plain, 3, DType::kTf32, "", 0, 0},
                        {plain, 1, DType::kFp32, "", 0, 0},
                        {plain, 8, DType::kBf16, "", 0, 0}};
  for (const Case& c : cases) {
    const TensorSpec x = {{2, c.channels, 32, 24, 20}, c.dtype, Layout::kChannelsLast};
    for (const StepSignature& step : Signatures16(c.layer, x)) {
      CAPTURE(SignatureText(step));
      const auto [place, engine] = FirstDeep(*catalog, step);
      const bool has_any = c.prefix[0] != 0 && step.phase != Phase::kBackwardData;
      CHECK((place >= 0) == has_any);
      if (!has_any) continue;
      CHECK(absl::StartsWith(engine.id, c.prefix));
      CHECK((place == 0) == (c.layer == strided));  // others are for measured times only
      CHECK(engine.workspace_bytes >= 2 * c.channels_of_deep * c.positions * SizeOf(c.dtype));
    }
  }
}

std::string EngineIdsOf(EngineCatalog& catalog, const StepSignature& step) {
  const absl::StatusOr<std::vector<Engine>> engines = catalog.Engines(step);
  REQUIRE_MESSAGE(engines.ok(), std::string(engines.status().message()));
  std::string ids;
  for (const Engine& engine : *engines) absl::StrAppend(&ids, engine.id, " ");
  return ids;
}

TEST_CASE("planes of volumes in NDHWC are images, if windows do not move along the depth") {
  const std::unique_ptr<EngineCatalog> catalog = CatalogOrSkip();
  if (!catalog) return;
  struct Case {
    Layer volumes, images;
    int64_t channels;
    const char* engine;  // of images only
  };
  // A usual one, a stem, a depthwise one, and a transposed one.
  const Case cases[] = {
      {Convolution{.out_channels = 32, .kernel = {1, 3, 3}, .padding = {0, 1, 1}},
       Convolution{.out_channels = 32, .kernel = 3, .padding = 1}, 16, "eng"},
      {Convolution{
           .out_channels = 32, .kernel = {1, 7, 7}, .stride = {1, 2, 2}, .padding = {0, 3, 3}},
       Convolution{.out_channels = 32, .kernel = 7, .stride = 2, .padding = 3}, 3, "s2d2x2+"},
      {Convolution{.out_channels = 16, .kernel = {1, 3, 3}, .padding = {0, 1, 1}, .groups = 16},
       Convolution{.out_channels = 16, .kernel = 3, .padding = 1, .groups = 16}, 16, "neap"},
      {TransposedConvolution{.out_channels = 8, .kernel = {1, 2, 2}, .stride = {1, 2, 2}},
       TransposedConvolution{.out_channels = 8, .kernel = 2, .stride = 2}, 16, "eng"}};
  for (const Case& c : cases) {
    CAPTURE(c.volumes.Parameters());
    const auto steps_of = [&](const Layer& layer, Shape shape) {
      return Signatures16(layer, {std::move(shape), DType::kBf16, Layout::kChannelsLast});
    };
    const auto of_volumes = steps_of(c.volumes, {2, c.channels, 6, 24, 20});
    const auto of_images = steps_of(c.images, {12, c.channels, 24, 20});
    REQUIRE(of_volumes.size() == of_images.size());
    for (size_t i = 0; i < of_volumes.size(); ++i) {
      const std::string ids = EngineIdsOf(*catalog, of_volumes[i]);
      CHECK(ids == EngineIdsOf(*catalog, of_images[i]));
      if (of_volumes[i].phase != Phase::kBackwardData) CHECK(absl::StrContains(ids, c.engine));
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
