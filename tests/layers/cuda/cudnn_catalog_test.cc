// Planning for a GPU that is not present, which needs cuDNN, but neither a GPU nor a driver.
#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "neap/core/base/units.h"
#include "neap/core/step/divided_kernel.h"
#include "neap/core/step/signature_text.h"
#include "neap/core/step/step_signature.h"
#include "neap/layers/activation.h"
#include "neap/layers/batch_norm.h"
#include "neap/layers/convolution.h"
#include "neap/layers/fully_connected.h"
#include "neap/layers/lrn.h"
#include "neap/layers/pooling.h"
#include "neap/layers/transposed_convolution.h"
#include "tests/layers/cuda/described_h200.h"

namespace neap::testing {
namespace {

TEST_CASE("the engines of a ResNet-50 convolution on an H200 are listed without an H200") {
  const std::unique_ptr<EngineCatalog> catalog = CatalogOrSkip();
  if (!catalog) return;
  const Layer conv =
      Convolution{.out_channels = 128, .kernel = 3, .stride = 2, .padding = 1, .bias = false};
  for (DType dtype : {DType::kFp32, DType::kTf32}) {
    for (Layout layout : {Layout::kChannelsFirst, Layout::kChannelsLast}) {
      for (const StepSignature& signature : Signatures(conv, {{128, 128, 56, 56}, dtype, layout})) {
        const absl::StatusOr<std::vector<Engine>> engines = catalog->Engines(signature);
        REQUIRE_MESSAGE(engines.ok(), std::string(engines.status().message()));
        CHECK(engines->size() >= 3);
        std::set<std::string> ids;
        bool deterministic = false;
        for (const Engine& engine : *engines) {
          CHECK(ids.insert(engine.id).second);
          CHECK(engine.id.rfind("eng", 0) == 0);
          CHECK(engine.workspace_bytes >= 0);
          deterministic = deterministic || engine.deterministic;
        }
        CHECK(deterministic);
      }
    }
  }
}

TEST_CASE("tf32 has engines that fp32 leaves out") {
  const std::unique_ptr<EngineCatalog> catalog = CatalogOrSkip();
  if (!catalog) return;
  const Layer conv = Convolution{.out_channels = 64, .kernel = 1};
  const auto count = [&](DType dtype) {
    return catalog->Engines(Signatures(conv, {{64, 64, 56, 56}, dtype, Layout::kChannelsLast})[0])
        .value()
        .size();
  };
  CHECK(count(DType::kTf32) > count(DType::kFp32));
}

TEST_CASE("16-bit convolutions have engines, whose weight gradients are cast to fp32") {
  const std::unique_ptr<EngineCatalog> catalog = CatalogOrSkip();
  if (!catalog) return;
  const Layer conv =
      Convolution{.out_channels = 128, .kernel = 3, .stride = 2, .padding = 1, .bias = false};
  constexpr int64_t kGradientBytes = 128 * 128 * 3 * 3 * 2;  // before the cast
  for (DType dtype : {DType::kFp16, DType::kBf16}) {
    for (Layout layout : {Layout::kChannelsFirst, Layout::kChannelsLast}) {
      for (const StepSignature& step : Signatures16(conv, {{128, 128, 56, 56}, dtype, layout})) {
        const absl::StatusOr<std::vector<Engine>> engines = catalog->Engines(step);
        REQUIRE_MESSAGE(engines.ok(), std::string(engines.status().message()));
        CHECK(engines->size() >= 3);
        for (const Engine& engine : *engines) {
          CHECK(engine.deterministic);
          CHECK(engine.notes.find("reduced-precision") == std::string::npos);
          const bool casts = engine.id.rfind("cast:eng", 0) == 0;
          CHECK(casts == (step.phase == Phase::kBackwardParams));
          CHECK((casts || engine.id.rfind("eng", 0) == 0));
          CHECK(engine.workspace_bytes >= (casts ? RoundUp(kGradientBytes, 256) : 0));
        }
        if (step.phase != Phase::kBackwardParams) continue;
        const absl::StatusOr<std::vector<Engine>> adding = AddingEngines(step, *catalog);
        REQUIRE_MESSAGE(adding.ok(), std::string(adding.status().message()));
        CHECK(adding->size() == engines->size());
      }
    }
  }
}

TEST_CASE("space to depth pads the channels of 16-bit images to a multiple of eight") {
  const std::unique_ptr<EngineCatalog> catalog = CatalogOrSkip();
  if (!catalog) return;
  const Layer first =
      Convolution{.out_channels = 64, .kernel = 7, .stride = 2, .padding = 3, .bias = false};
  constexpr int64_t kImages = 8 * 16 * 115 * 115 * 2, kFilters = 64 * 16 * 4 * 4;
  for (const StepSignature& step :
       Signatures16(first, {{8, 3, 224, 224}, DType::kBf16, Layout::kChannelsLast})) {
    const std::vector<Engine> engines = catalog->Engines(step).value();
    if (step.phase == Phase::kBackwardData) {
      CHECK(engines.front().id.rfind("s2d", 0) != 0);
      continue;
    }
    const bool forward = step.phase == Phase::kForward;
    CHECK(engines.front().id.rfind(forward ? "s2d2x2+eng" : "s2d2x2+cast:eng", 0) == 0);
    // The fp32 gradient, and the 16-bit one that is cast to it.
    const int64_t filter_bytes = kFilters * (forward ? 2 : 4 + 2);
    CHECK(engines.front().workspace_bytes >= RoundUp(kImages, 256) + filter_bytes);
  }
}

TEST_CASE("on request, fp16 convolutions also have engines that add in fp16, after all others") {
  const std::unique_ptr<EngineCatalog> plain = CatalogOrSkip();
  if (!plain) return;
  const std::unique_ptr<EngineCatalog> half = CatalogOrSkip({.half_accumulation = true});
  const Layer conv = Convolution{.out_channels = 128, .kernel = 3, .padding = 1, .bias = false};
  const Layer first = Convolution{.out_channels = 64, .kernel = 7, .stride = 2, .padding = 3};
  const Layer transposed = TransposedConvolution{.out_channels = 8, .kernel = 4, .stride = 2};
  for (const auto& [layer, channels] :
       {std::pair(conv, 128), std::pair(first, 3), std::pair(transposed, 16)}) {
    for (Layout layout : {Layout::kChannelsFirst, Layout::kChannelsLast}) {
      const TensorSpec x = {{16, channels, 28, 28}, DType::kFp16, layout};
      for (const StepSignature& step : Signatures16(layer, x)) {
        CAPTURE(SignatureText(step));
        const std::vector<Engine> without = plain->Engines(step).value();
        const std::vector<Engine> with = half->Engines(step).value();
        REQUIRE(with.size() > without.size());
        for (size_t i = 0; i < with.size(); ++i) {
          CHECK(with[i].accumulates_in_half == (i >= without.size()));
          CHECK(with[i].id.starts_with("half:") == with[i].accumulates_in_half);
          if (i < without.size()) {
            CHECK(with[i].id == without[i].id);
            continue;
          }
          CHECK(with[i].notes.rfind("half-accumulation", 0) == 0);
          const bool casts = with[i].id.find("cast:eng") != std::string::npos;
          CHECK(casts == (step.phase == Phase::kBackwardParams));
        }
        if (step.phase != Phase::kBackwardParams) continue;
        CHECK(AddingEngines(step, *half).value().size() == with.size());
        CHECK(AddingEngines(step, *plain).value().size() == without.size());
      }
    }
  }
}

TEST_CASE("engines that add in fp16 are for convolutions of fp16 only") {
  const std::unique_ptr<EngineCatalog> plain = CatalogOrSkip();
  if (!plain) return;
  const std::unique_ptr<EngineCatalog> half = CatalogOrSkip({.half_accumulation = true});
  const Layer conv = Convolution{.out_channels = 64, .kernel = 3, .padding = 1};
  for (DType dtype : {DType::kFp32, DType::kTf32, DType::kBf16}) {
    for (const StepSignature& step :
         Signatures16(conv, {{16, 64, 28, 28}, dtype, Layout::kChannelsLast}))
      CHECK(half->Engines(step)->size() == plain->Engines(step)->size());
  }
  const TensorSpec x = {{16, 64, 28, 28}, DType::kFp16};
  for (const Layer& layer : {Layer(FullyConnected{.out_features = 64}), Layer(Relu{})}) {
    for (const StepSignature& step : Signatures16(layer, x)) {
      const std::vector<Engine> engines = half->Engines(step).value();
      for (const Engine& engine : engines) CHECK(!engine.accumulates_in_half);
    }
  }
}

TEST_CASE("a plan may name an engine that adds in fp16, whatever the catalog lists") {
  const std::unique_ptr<EngineCatalog> half = CatalogOrSkip({.half_accumulation = true});
  if (!half) return;
  const std::unique_ptr<EngineCatalog> plain = CatalogOrSkip();
  auto& backend = dynamic_cast<Backend&>(*plain);
  const Layer conv = Convolution{.out_channels = 64, .kernel = 3, .padding = 1};
  const TensorSpec x = {{16, 64, 28, 28}, DType::kFp16, Layout::kChannelsLast};
  for (const StepSignature& step : Signatures16(conv, x)) {
    const std::vector<Engine> engines = half->Engines(step).value();
    for (const Engine& engine : engines) {
      const absl::StatusOr<Engine> found = backend.Find(step, engine.id);
      REQUIRE(found.ok());
      CHECK(found->workspace_bytes == engine.workspace_bytes);
    }
    CHECK(absl::IsNotFound(backend.Find(step, "half:eng").status()));
  }
}

TEST_CASE("a 16-bit gradient of a parameter is refused") {
  const std::unique_ptr<EngineCatalog> catalog = CatalogOrSkip();
  if (!catalog) return;
  StepSignature step =
      SignatureOf(Convolution{.out_channels = 64}, Phase::kBackwardParams, {{{8, 64, 28, 28}}})
          .value();
  for (OperandSpec& operand : step.operands) operand.tensor.dtype = DType::kBf16;
  const absl::Status status = catalog->Engines(step).status();
  CHECK(absl::IsUnimplemented(status));
  CHECK(std::string(status.message()).find("param_grad[0] in fp32") != std::string::npos);
}

TEST_CASE("weight gradients of AlexNet's third convolution have engines that add") {
  const std::unique_ptr<EngineCatalog> catalog = CatalogOrSkip();
  if (!catalog) return;
  const Layer conv3 = Convolution{.out_channels = 384, .kernel = 3, .padding = 1};
  for (DType dtype : {DType::kFp32, DType::kTf32}) {
    const TensorSpec x = {{128, 192, 13, 13}, dtype, Layout::kChannelsFirst};
    const StepSignature step = SignatureOf(conv3, Phase::kBackwardParams, {x}).value();
    const absl::StatusOr<std::vector<Engine>> adding = AddingEngines(step, *catalog);
    REQUIRE_MESSAGE(adding.ok(), std::string(adding.status().message()));
    CHECK(!adding->empty());
  }
}

TEST_CASE("matrix products are the first choice for gradients of an fp32 1x1 convolution") {
  const std::unique_ptr<EngineCatalog> catalog = CatalogOrSkip();
  if (!catalog) return;
  const auto first = [&](const Convolution& layer, DType dtype, Layout layout) {
    const TensorSpec x = {{16, 64, 28, 28}, dtype, layout};
    return catalog->Engines(Signatures(layer, x)[1]).value().front().id;
  };
  const Convolution pointwise = {.out_channels = 64, .kernel = 1};
  CHECK(first(pointwise, DType::kFp32, Layout::kChannelsFirst) == "cublaslt-1x1");
  CHECK(first(pointwise, DType::kFp32, Layout::kChannelsLast) != "cublaslt-1x1");
  CHECK(first(pointwise, DType::kTf32, Layout::kChannelsFirst) != "cublaslt-1x1");
  const Convolution grouped = {.out_channels = 64, .kernel = 1, .groups = 2};
  CHECK(first(grouped, DType::kFp32, Layout::kChannelsFirst) != "cublaslt-1x1");
}

TEST_CASE("a linear layer at each channels-last position is one matrix product") {
  const std::unique_ptr<EngineCatalog> catalog = CatalogOrSkip();
  if (!catalog) return;
  const auto is_product = [](const Engine& engine) {
    return engine.id.starts_with("cublaslt-positions");
  };
  const auto engines_of = [&](const Convolution& layer, const Shape& x, Layout layout) {
    return catalog->Engines(Signatures(layer, {x, DType::kBf16, layout})[0]).value();
  };
  const Convolution linear = {.out_channels = 64};
  const Convolution unbiased = {.out_channels = 64, .bias = false};
  for (const Shape& x :
       {Shape{8, 64, 128}, Shape{8, 64, 16, 16}, Shape{8, 64, 1, 1}, Shape{2, 64, 4, 16, 16}}) {
    CAPTURE(x.ToString());
    const bool is_sequence = x.spatial_axes() == 1;
    const std::vector<Engine> biased = engines_of(linear, x, Layout::kChannelsLast);
    CHECK(is_product(biased.front()));
    CHECK(biased.front().workspace_bytes % (32 * kMiB) == 256);
    const std::vector<Engine> plain = engines_of(unbiased, x, Layout::kChannelsLast);
    CHECK(is_product(plain.front()) == is_sequence);
    CHECK(std::any_of(plain.begin(), plain.end(), is_product));
    const std::vector<Engine> first = engines_of(linear, x, Layout::kChannelsFirst);
    CHECK(std::none_of(first.begin(), first.end(), is_product));
  }
  for (const Convolution& other :
       {Convolution{.out_channels = 64, .groups = 2}, Convolution{.out_channels = 64, .stride = 2},
        Convolution{.out_channels = 64, .padding = 1}}) {
    const std::vector<Engine> engines = engines_of(other, {8, 64, 16, 16}, Layout::kChannelsLast);
    CHECK(std::none_of(engines.begin(), engines.end(), is_product));
  }
}

TEST_CASE("neap's own kernels are the first choice for depthwise convolutions") {
  const std::unique_ptr<EngineCatalog> catalog = CatalogOrSkip();
  if (!catalog) return;
  const auto is_first = [&](const Convolution& layer, DType dtype, Layout layout) {
    int first = 0;
    for (const StepSignature& step : Signatures(layer, {{16, 64, 28, 28}, dtype, layout}))
      first += catalog->Engines(step).value().front().id == "neap-depthwise" ? 1 : 0;
    return first;
  };
  for (int64_t kernel : {3, 5, 7}) {
    for (int64_t stride : {1, 2}) {
      const Convolution depthwise = {
          .out_channels = 64, .kernel = kernel, .stride = stride, .padding = 1, .groups = 64};
      CHECK(is_first(depthwise, DType::kFp32, Layout::kChannelsFirst) == 3);
      CHECK(is_first(depthwise, DType::kTf32, Layout::kChannelsLast) == 3);
      CHECK(is_first(depthwise, DType::kBf16, Layout::kChannelsLast) == 3);
      CHECK(is_first(depthwise, DType::kFp16, Layout::kChannelsLast) == 3);
    }
  }
  for (const Convolution& other :
       {Convolution{.out_channels = 64, .kernel = 3, .groups = 32},
        Convolution{.out_channels = 128, .kernel = 3, .groups = 64},
        Convolution{.out_channels = 64, .kernel = 3, .dilation = 2, .groups = 64},
        Convolution{.out_channels = 64, .kernel = 3, .stride = {1, 2}, .groups = 64},
        Convolution{.out_channels = 64, .kernel = 9, .groups = 64}})
    CHECK(is_first(other, DType::kBf16, Layout::kChannelsLast) == 0);
}

TEST_CASE("a first layer also has engines by space to depth") {
  const std::unique_ptr<EngineCatalog> catalog = CatalogOrSkip();
  if (!catalog) return;
  struct Expected {
    Convolution layer;
    std::string prefix;
    int64_t x_bytes, weight_bytes;  // rearranged
  };
  const auto filters = [](int64_t kernel, int64_t stride, int64_t padding) {
    return Convolution{
        .out_channels = 64, .kernel = kernel, .stride = stride, .padding = padding, .bias = false};
  };
  for (const auto& [layer, engine_prefix, x_bytes, weight_bytes] :
       {Expected{filters(11, 4, 2), "s2d4x4+eng", 8 * 48 * 57 * 57 * 4, 64 * 48 * 3 * 3 * 4},
        Expected{filters(7, 2, 3), "s2d2x2+eng", 8 * 12 * 115 * 115 * 4, 64 * 12 * 4 * 4 * 4},
        Expected{filters(3, 2, 0), "s2d2x2+eng", 8 * 12 * 112 * 112 * 4, 64 * 12 * 2 * 2 * 4}}) {
    const bool few_zeros = layer.kernel.h() > 3;
    const std::string prefix = engine_prefix;
    CAPTURE(prefix);
    for (Layout layout : {Layout::kChannelsFirst, Layout::kChannelsLast}) {
      const std::vector<StepSignature> steps =
          Signatures(layer, {{8, 3, 224, 224}, DType::kTf32, layout});
      for (const StepSignature& step : steps) {
        const std::vector<Engine> engines = catalog->Engines(step).value();
        const bool is_first = engines.front().id.rfind("s2d", 0) == 0;
        CHECK(is_first ==
              (few_zeros && layout == Layout::kChannelsLast && step.phase != Phase::kBackwardData));
        int64_t least_bytes = kGiB;
        for (const Engine& engine : engines) {
          if (engine.id.rfind(prefix, 0) != 0) continue;
          least_bytes = std::min(least_bytes, engine.workspace_bytes);
          CHECK(engine.notes.rfind("space-to-depth", 0) == 0);
        }
        if (step.phase == Phase::kBackwardData) {
          CHECK(least_bytes == kGiB);
        } else {
          CHECK(least_bytes >= RoundUp(x_bytes, 256) + weight_bytes);
          CHECK(least_bytes <= RoundUp(x_bytes, 256) + weight_bytes + 256);
        }
      }
    }
  }
  const Convolution padded = filters(3, 1, 1), sparse = filters(1, 2, 0),
                    strided = filters(3, 2, 1);
  for (const auto& [layer, channels] : {std::pair(padded, 3), std::pair(sparse, 3),
                                        std::pair(strided, 64), std::pair(strided, 4)}) {
    for (const StepSignature& step : Signatures(layer, {{8, channels, 28, 28}})) {
      const std::vector<Engine> engines = catalog->Engines(step).value();
      for (const Engine& engine : engines) CHECK(engine.id.rfind("s2d", 0) != 0);
    }
  }
}

TEST_CASE("engines of layers that are not convolutions need no GPU either") {
  const std::unique_ptr<EngineCatalog> catalog = CatalogOrSkip();
  if (!catalog) return;
  const std::vector<Engine> relu = catalog->Engines(Signatures(Relu{}, {{8, 8, 8, 8}})[0]).value();
  REQUIRE(relu.size() == 1);
  CHECK(relu[0].id == "neap");
  CHECK(relu[0].workspace_bytes == 0);
  const std::vector<Engine> large =
      catalog->Engines(Signatures(FullyConnected{.out_features = 4096}, {{256, 256, 6, 6}})[0])
          .value();
  CHECK(large.size() == 2);
  CHECK(large.front().workspace_bytes > large.back().workspace_bytes);
}

TEST_CASE("steps that would overwrite a sum are refused for CUDA too") {
  const std::unique_ptr<EngineCatalog> catalog = CatalogOrSkip();
  if (!catalog) return;
  StepSignature forward = Signatures(Relu{}, {{8, 8, 8, 8}})[0];
  forward.operands.back().access = Access::kAccumulate;
  CHECK(absl::IsUnimplemented(catalog->Engines(forward).status()));
}

TEST_CASE("shapes that a kernel cannot index are refused when its engines are listed") {
  const std::unique_ptr<EngineCatalog> catalog = CatalogOrSkip();
  if (!catalog) return;
  const TensorSpec many = {{int64_t{1} << 20, 2, 64, 64}};  // 2^32 per channel
  const TensorSpec fewer = {{int64_t{1} << 18, 2, 64, 64}};
  for (const Layer& layer : {Layer(BatchNorm{}), Layer(LocalResponseNorm{})}) {
    const std::vector<StepSignature> too_many = Signatures(layer, many);
    const std::vector<StepSignature> some = Signatures(layer, fewer);
    for (const StepSignature& signature : too_many)
      CHECK(absl::IsUnimplemented(catalog->Engines(signature).status()));
    for (const StepSignature& signature : some) CHECK(catalog->Engines(signature).ok());
  }
  CHECK(catalog->Engines(Signatures(Relu{}, many)[0]).ok());
  const TensorSpec plane = {{1, 1, 65536, 65536}};
  CHECK(
      absl::IsUnimplemented(catalog->Engines(Signatures(GlobalAveragePool{}, plane)[0]).status()));
}

TEST_CASE("a convolution without an engine is unimplemented, and none adds to its gradients") {
  const std::unique_ptr<EngineCatalog> catalog = CatalogOrSkip();
  if (!catalog) return;
  const Layer large = Convolution{.out_channels = 8, .kernel = 200, .padding = 100, .bias = false};
  const TensorSpec x = {{1, 65536, 512, 512}};
  const StepSignature step = SignatureOf(large, Phase::kBackwardParams, {x}).value();
  CHECK(absl::IsUnimplemented(catalog->Engines(step).status()));
  const absl::StatusOr<std::vector<Engine>> adding = AddingEngines(step, *catalog);
  REQUIRE_MESSAGE(adding.ok(), std::string(adding.status().message()));
  CHECK(adding->empty());
}

TEST_CASE("a description that cuDNN does not understand is refused") {
  if (!CatalogOrSkip()) return;
  CHECK(absl::IsInvalidArgument(MakeCudnnCatalog("{}").status()));
  CHECK(absl::IsInvalidArgument(MakeCudnnCatalog("not json").status()));
  CHECK(absl::IsFailedPrecondition(CudnnDeviceProperties({.name = "some GPU"}).status()));
}

}  // namespace
}  // namespace neap::testing
