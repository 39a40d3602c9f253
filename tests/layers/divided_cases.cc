#include "tests/layers/divided_cases.h"

#include <algorithm>
#include <iterator>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/step/divided_kernel.h"
#include "neap/core/step/signature_text.h"
#include "neap/core/step/specify.h"
#include "neap/layers/convolution.h"
#include "neap/layers/fusion/fused_convolution.h"
#include "neap/layers/fusion/residual_convolution.h"
#include "neap/layers/transposed_convolution.h"
#include "tests/layers/cases.h"
#include "tests/layers/conformance.h"

namespace neap::testing {
namespace {

// A backend with one engine, which runs every step in `parts`.
class DividingBackend final : public Backend {
 public:
  DividingBackend(Backend& backend, std::vector<EngineUse> parts, int64_t workspace_bytes)
      : backend_(backend), parts_(std::move(parts)), workspace_bytes_(workspace_bytes) {}
  absl::StatusOr<std::vector<Engine>> Engines(const StepSignature& /*signature*/) override {
    return std::vector<Engine>{{.id = "divided", .workspace_bytes = workspace_bytes_}};
  }
  absl::StatusOr<std::unique_ptr<Kernel>> MakeKernel(const StepSignature& signature,
                                                     std::string_view /*engine*/) override {
    return MakeDividedKernel(backend_, signature, parts_, workspace_bytes_);
  }
  std::string Versions() const override { return backend_.Versions(); }

 private:
  Backend& backend_;
  std::vector<EngineUse> parts_;
  int64_t workspace_bytes_;
};

class DividedCase {
 public:
  DividedCase(Backend& backend, const DeviceAccess& access, const DividedOptions& options,
              uint32_t seed)
      : backend_(backend), access_(access), options_(options), seed_(seed), random_(seed) {}

  DividedResult Run() {
    const LayerCase layer_case = RandomCase();
    const LayerSpec spec = layer_case.layer.Specify({.inputs = layer_case.inputs}).value();
    Values values = RandomValues(layer_case, spec, seed_);
    for (const StepSpec& step : spec.steps) {
      const StepSignature signature =
          SignatureOf(step, {.layer = layer_case.layer, .spec = spec, .inputs = layer_case.inputs});
      if (IsDivisible(signature)) RunStepDivided(signature, values);
      AddResults(signature, values);
    }
    return std::move(result_);
  }

 private:
  int64_t Between(int64_t least, int64_t most) {
    return std::uniform_int_distribution<int64_t>(least, most)(random_);
  }

  // A number for each spatial axis.
  std::vector<int64_t> BetweenEach(int64_t least, int64_t most) {
    std::vector<int64_t> numbers;
    for (int i = 0; i < options_.axes; ++i) numbers.push_back(Between(least, most));
    return numbers;
  }

  LayerCase RandomCase() {
    const Layout layout = Between(0, 1) == 0 ? Layout::kChannelsFirst : Layout::kChannelsLast;
    const int64_t images = Between(2, 12), in_channels = Between(1, options_.most_channels);
    const int64_t largest = options_.axes == 3 ? 7 : 11;
    const TensorSpec x = {SpatialShape(images, in_channels, BetweenEach(4, largest)),
                          options_.dtype, layout};
    if (options_.only_3x3) {
      const int64_t channels = Between(1, options_.most_channels);
      return {.layer = WithOrWithoutRelu({.out_channels = channels, .kernel = 3, .padding = 1}),
              .inputs = {x}};
    }
    const Extents kernel = Extents::Of(BetweenEach(1, 4));
    std::vector<int64_t> margins;
    for (const int64_t extent : kernel.values()) margins.push_back(Between(0, extent - 1));
    const Extents padding = Extents::Of(margins);
    const int64_t stride = Between(1, 2), channels = Between(1, options_.most_channels);
    const bool bias = Between(0, 1) == 0;
    if (Between(0, 4) == 0) {
      return {.layer = TransposedConvolution{.out_channels = channels,
                                             .kernel = kernel,
                                             .stride = stride,
                                             .padding = padding,
                                             .bias = bias},
              .inputs = {x}};
    }
    if (layout == Layout::kChannelsLast && Between(0, 5) == 0) {
      const TensorSpec y = WithShape(x, SpatialShape(images, channels, x.shape.spatial()));
      return {.layer = ResidualConvolution{channels, bias}, .inputs = {x, y}};
    }
    return {.layer = WithOrWithoutRelu({.out_channels = channels,
                                        .kernel = kernel,
                                        .stride = stride,
                                        .padding = padding,
                                        .bias = bias}),
            .inputs = {x}};
  }

  Layer WithOrWithoutRelu(const Convolution& convolution) {
    if (Between(0, 2) == 0) return FusedConvolution{convolution};
    return convolution;
  }

  // Adds what the step computes, for the steps behind it, unless there are such values.
  void AddResults(const StepSignature& signature, Values& values) {
    const std::vector<Engine> engines = backend_.Engines(signature).value();
    for (const Engine& engine : engines) {
      const absl::StatusOr<Values> results =
          RunStep(backend_, access_, signature, values, {.engine = engine.id});
      if (absl::IsAborted(results.status())) continue;  // it does not build
      if (!results.ok()) return Fail(signature, engine, std::string(results.status().message()));
      values.insert(results->begin(), results->end());
      return;
    }
  }

  // Sizes of parts of the whole batch, in order, that keep the operands aligned.
  std::vector<int64_t> RandomParts(int64_t batch, int64_t granularity) {
    std::vector<int64_t> parts;
    while (batch > granularity) {
      const int64_t part = granularity * Between(1, std::max<int64_t>(1, batch / granularity - 1));
      parts.push_back(part);
      batch -= part;
    }
    if (batch > 0) parts.push_back(batch);
    return parts;
  }

  void RunStepDivided(const StepSignature& signature, const Values& values) {
    const std::vector<int64_t> parts = RandomParts(BatchOf(signature), BatchGranularity(signature));
    std::vector<Engine> engines = backend_.Engines(signature).value();
    if (engines.size() > options_.most_engines) engines.resize(options_.most_engines);
    for (const Engine& engine : engines) {
      if (!engine.deterministic || !options_.is_tried(engine)) continue;
      RunEngineDivided(signature, engine, parts, /*adds=*/false, values);
      if (SumsParts(signature) && parts.size() > 1)
        RunEngineDivided(signature, engine, parts, /*adds=*/true, values);
    }
  }

  void RunEngineDivided(const StepSignature& signature, const Engine& engine,
                        const std::vector<int64_t>& parts, bool adds, const Values& values) {
    std::vector<EngineUse> uses;
    int64_t workspace_bytes = 0;
    for (int64_t part : parts) {
      const bool later = !uses.empty();
      const StepSignature like = WithBatch(signature, part);
      const absl::StatusOr<Engine> same =
          Find(adds && later ? AddingSignature(like) : like, engine.id);
      if (!same.ok()) return;  // not listed for this batch, or not for adding
      uses.push_back({engine.id, part, adds && later});
      const int64_t scratch_bytes = later && !adds ? DivisionScratchBytes(signature) : 0;
      workspace_bytes = std::max(workspace_bytes, same->workspace_bytes + scratch_bytes);
    }
    DividingBackend dividing(backend_, uses, workspace_bytes);
    const absl::StatusOr<Values> whole =
        RunStep(backend_, access_, signature, values, {.engine = engine.id});
    const absl::StatusOr<Values> divided = RunStep(dividing, access_, signature, values);
    const absl::StatusOr<Values> again = RunStep(dividing, access_, signature, values);
    for (const absl::StatusOr<Values>* ran : {&whole, &divided}) {
      if (absl::IsAborted(ran->status())) return;  // it does not build
    }
    for (const absl::StatusOr<Values>* ran : {&whole, &divided, &again}) {
      if (!ran->ok()) return Fail(signature, engine, std::string(ran->status().message()));
    }
    ++(adds ? result_.adding : result_.writing);
    const bool may_differ =
        signature.phase == Phase::kBackwardParams || !options_.treats_images_alike(engine);
    for (const auto& [operand, want] : *whole) {
      Expect(signature, engine, divided->at(operand), want, may_differ ? options_.tolerance : 0);
      Expect(signature, engine, again->at(operand), divided->at(operand), 0);
    }
  }

  absl::StatusOr<Engine> Find(const StepSignature& signature, const std::string& id) {
    ASSIGN_OR_RETURN(const std::vector<Engine> engines, backend_.Engines(signature));
    for (const Engine& engine : engines) {
      if (engine.id == id) return engine;
    }
    return absl::NotFoundError(id);
  }

  void Expect(const StepSignature& signature, const Engine& engine, const std::vector<double>& got,
              const std::vector<double>& want, double tolerance) {
    const std::string difference = Difference(got, want, tolerance, /*least_scale=*/0);
    if (!difference.empty()) Fail(signature, engine, difference);
  }

  void Fail(const StepSignature& signature, const Engine& engine, const std::string& why) {
    result_.failures.push_back(absl::StrCat("seed ", seed_, ", ", SignatureText(signature),
                                            ", batch ", BatchOf(signature), ", engine ", engine.id,
                                            ": ", why));
  }

  Backend& backend_;
  const DeviceAccess& access_;
  const DividedOptions& options_;
  uint32_t seed_;
  std::mt19937 random_;
  DividedResult result_;
};

}  // namespace

DividedResult RunDividedConvolutions(Backend& backend, const DeviceAccess& access,
                                     const DividedOptions& options) {
  DividedResult all;
  for (int i = 0; i < options.cases; ++i) {
    const uint32_t seed = options.seed * 1000 + static_cast<uint32_t>(i);
    DividedResult one = DividedCase(backend, access, options, seed).Run();
    all.writing += one.writing;
    all.adding += one.adding;
    std::move(one.failures.begin(), one.failures.end(), std::back_inserter(all.failures));
  }
  return all;
}

}  // namespace neap::testing
