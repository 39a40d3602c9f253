// Attention by cuDNN and by neap's kernels against the float64 reference: every engine of backward
// after every engine of forward, since a new plan may change one of them in the midst of training.
#include <doctest/doctest.h>

#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "neap/core/step/kernel.h"
#include "neap/layers/attention/attention.h"
#include "tests/gpu_test.h"
#include "tests/layers/conformance.h"
#include "tests/layers/cuda/device_arena.h"
#include "tests/layers/reference.h"

namespace neap::testing {
namespace {

using namespace operands;

constexpr double kTolerance = 0x1p-7;  // of results that are rounded to 16 bits on their way
// Of lse, which is a sum in fp32 of products of 16-bit numbers, unless these were rotated.
constexpr double kLseTolerance = 1e-4;

struct AttentionCase {
  Attention layer;
  std::vector<Shape> inputs;
  bool surely_cudnn = false;  // has engines for both steps; others are taken as they are listed
};

// Heads of dimensions with which cuDNN has kernels, apart and packed, and positions that are no
// multiple of a tile.
std::vector<AttentionCase> SdpaCases() {
  const Shape query = {2, 4 * 64, 200}, key = {2, 4 * 64, 77}, shared = {2, 2 * 64, 77};
  return {
      {{.heads = 12, .causal = true}, {{2, 36 * 64, 128}}, true},
      {{.heads = 4, .kv_heads = 2, .causal = true}, {{2, 8 * 128, 130}}, true},
      {{.heads = 4}, {query, key, key}, true},
      {{.heads = 4, .kv_heads = 2, .scale = 0.3F}, {query, shared, shared}, true},
      {{.heads = 4}, {query, key, {2, 4 * 32, 77}}},
      {{.heads = 4}, {query, key, key, {2, 4, 200, 77}}},
      {{.heads = 4}, {query, key, key, {2, 1, 200, 77}}},
      {{.heads = 4, .rotary_dims = 64}, {query, key, key}, true},
      {{.heads = 4, .kv_heads = 2, .causal = true, .rotary_dims = 32}, {{2, 8 * 64, 197}}},
      {{.heads = 3}, {{2, 9 * 32, 7, 7}}},
  };
}

LayerCase CaseOf(const AttentionCase& attention, DType dtype) {
  LayerCase layer_case = {
      .name = attention.layer.Parameters(), .layer = attention.layer, .dtype = dtype};
  layer_case.layout = Layout::kChannelsLast;
  for (const Shape& shape : attention.inputs)
    layer_case.inputs.push_back({shape, dtype, Layout::kChannelsLast});
  return layer_case;
}

// The results of every engine of a step.
class EngineRuns {
 public:
  explicit EngineRuns(CudaDevice& gpu) : gpu_(gpu), arena_(gpu) {}

  std::vector<std::pair<Engine, Values>> All(const StepSignature& signature, const Values& given) {
    std::vector<std::pair<Engine, Values>> all;
    const std::vector<Engine> engines = gpu_.backend().Engines(signature).value();
    for (const Engine& engine : engines) {
      const RunOptions options = {.engine = engine.id};
      absl::StatusOr<Values> got =
          RunStep(gpu_.backend(), arena_.Access(), signature, given, options);
      CAPTURE(engine.id);
      REQUIRE(got.ok());
      if (engine.deterministic) {
        CHECK(*got == RunStep(gpu_.backend(), arena_.Access(), signature, given, options).value());
      }
      all.emplace_back(engine, *std::move(got));
    }
    return all;
  }

 private:
  CudaDevice& gpu_;
  DeviceArena arena_;
};

void CheckResults(const Attention& layer, const Values& got, const Values& want) {
  for (const auto& [operand, values] : want) {
    CAPTURE(ToString(operand));
    // Rotated queries and keys are rounded too, and the gradients of these.
    const double of_16_bits = layer.rotary_dims == 0 ? kTolerance : 2 * kTolerance;
    const bool is_exact = operand == Saved(0) && layer.rotary_dims == 0;
    CHECK(Difference(got.at(operand), values, is_exact ? kLseTolerance : of_16_bits) == "");
  }
}

// The input of a bias is data, whose gradient no layer needs: with it, cuDNN has no engine.
StepSignature BackwardOf(const SignatureOptions& options) {
  StepSpec backward = options.spec.steps[1];
  for (const Operand& gradient : backward.optional_writes) std::erase(backward.writes, gradient);
  return SignatureOf(backward, options);
}

void CheckAllPairs(EngineRuns& runs, const LayerCase& layer_case, bool surely_cudnn) {
  CAPTURE(layer_case.name);
  const SignatureOptions options = {.layer = layer_case.layer,
                                    .spec = layer_case.layer.Specify(layer_case.Context()).value(),
                                    .inputs = layer_case.inputs};
  const StepSignature forward = SignatureOf(options.spec.steps[0], options);
  const StepSignature backward = BackwardOf(options);
  const Values given = RandomValues(layer_case, options.spec, /*seed=*/7);
  const Values want = ReferenceStep(forward, given);
  const auto forwards = runs.All(forward, given);
  if (surely_cudnn) CHECK(forwards.front().first.id == "cudnn-sdpa");
  for (const auto& [first, results] : forwards) {
    CAPTURE(first.id);
    CheckResults(*layer_case.layer.As<Attention>(), results, want);
    Values with_results = given;
    for (const auto& [operand, values] : results) with_results[operand] = values;
    const Values want_gradients = ReferenceStep(backward, with_results);
    bool has_deterministic_sdpa = false;
    for (const auto& [second, gradients] : runs.All(backward, with_results)) {
      CAPTURE(second.id);
      CheckResults(*layer_case.layer.As<Attention>(), gradients, want_gradients);
      if (second.id == "cudnn-sdpa-deterministic") has_deterministic_sdpa = true;
    }
    if (surely_cudnn) CHECK(has_deterministic_sdpa);
  }
}

TEST_CASE("attention's engines agree with the reference, whichever ran forward") {
  const std::unique_ptr<CudaDevice> gpu = OpenGpuOrSkip();
  if (!gpu) return;
  EngineRuns runs(*gpu);
  // The emulated GPU has cuDNN's version 0, which has no attention.
  const bool has_cudnn = gpu->backend().Versions().find("cuDNN 0.") == std::string::npos;
  for (const DType dtype : {DType::kBf16, DType::kFp16}) {
    for (const AttentionCase& attention : SdpaCases())
      CheckAllPairs(runs, CaseOf(attention, dtype), has_cudnn && attention.surely_cudnn);
  }
}

}  // namespace
}  // namespace neap::testing
