#include "tests/layers/fusion_checks.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "neap/layers/activation.h"
#include "neap/layers/convolution.h"
#include "neap/layers/fusion/concat_batch_norms.h"
#include "neap/layers/fusion/fused_convolution.h"
#include "neap/layers/fusion/fused_relu.h"
#include "neap/layers/fusion/norm_pass.h"
#include "neap/layers/join.h"
#include "neap/layers/pooling.h"
#include "tests/layers/conformance.h"

namespace neap::testing {
namespace {

using namespace operands;

// Runs steps of layers on one backend.
struct Runner {
  Backend& backend;
  const DeviceAccess& access;

  // Backward adds to the gradients of the inputs with odd numbers, if it can.
  Values Run(const Layer& layer, const std::vector<TensorSpec>& inputs, size_t step,
             const Values& given, bool rerun = false, Mode mode = Mode::kTraining,
             const std::string& engine = "") const {
    const LayerSpec spec = layer.Specify({.inputs = inputs, .mode = mode}).value();
    StepSignature signature =
        SignatureOf(spec.steps[step],
                    {.layer = layer, .spec = spec, .inputs = inputs, .mode = mode, .rerun = rerun});
    const std::vector<Slot>& native = spec.steps[step].accumulates_natively;
    const bool adds = std::count(native.begin(), native.end(), Slot::kInputGrad) > 0;
    for (OperandSpec& operand : signature.operands) {
      if (adds && operand.operand.slot == Slot::kInputGrad && operand.operand.index % 2 == 1)
        operand.access = Access::kAccumulate;
    }
    absl::StatusOr<Values> results = RunStep(backend, access, signature, given, {.engine = engine});
    REQUIRE_MESSAGE(results.ok(), results.status().ToString());
    return *std::move(results);
  }
};

// `given` with the results of a step.
Values With(Values given, const Values& results) {
  for (const auto& [operand, values] : results) given[operand] = values;
  return given;
}

void CheckSameBits(const Values& fused, const Values& apart) {
  for (const auto& result : fused) {
    const std::string difference = Difference(result.second, apart.at(result.first), 0);
    CHECK_MESSAGE(difference.empty(), ToString(result.first), ": ", difference);
  }
}

NormPass::Activation ReluIf(bool relu) {
  if (relu) return Relu{};
  return {};
}

void CheckParts(const Runner& runner, const std::vector<TensorSpec>& parts, bool relu) {
  const NormPass::Activation activation = ReluIf(relu);
  const Layer fused = NormPass{.activation = activation, .concatenates = true};
  const Layer norm = NormPass{.activation = activation};
  const LayerSpec spec = fused.Specify({.inputs = parts}).value();
  const Values given = RandomValues({.name = "", .layer = fused, .inputs = parts}, spec, 7);
  const std::vector<TensorSpec> whole = {spec.output};
  Values joined = given;
  joined[X()] = runner.Run(Concat{}, parts, 0, given).at(Y());

  const Values forward = runner.Run(fused, parts, 0, given);
  CheckSameBits(forward, runner.Run(norm, whole, 0, joined));
  const Values rerun = runner.Run(fused, parts, 0, With(given, forward), /*rerun=*/true);
  CHECK(rerun.at(Y()) == forward.at(Y()));

  Values backward = runner.Run(norm, whole, 1, With(joined, forward));
  Values of_concat = given;
  of_concat[Dy()] = backward.at(Dx());
  backward = With(backward, runner.Run(Concat{}, parts, 1, of_concat));
  CheckSameBits(runner.Run(fused, parts, 1, With(given, forward)), backward);
}

// Of two batch norms, and between them an input that is not normalised.
void CheckConcat(const Runner& runner, const std::vector<TensorSpec>& parts) {
  const Layer fused = ConcatBatchNorms{{{.relu = true, .position = 2}, {.position = 0}}};
  const std::vector<TensorSpec> inputs = {parts[2], parts[0], parts[1]};
  const LayerSpec spec = fused.Specify({.inputs = inputs}).value();
  const Values given = RandomValues({.name = "", .layer = fused, .inputs = inputs}, spec, 7);
  const Layer norms[] = {NormPass{.activation = Relu{}}, NormPass{}};
  const auto of_part = [](const Values& all, int i) {
    Values own;
    for (const auto& [operand, values] : all) {
      const bool image = operand.slot == Slot::kInput || operand.slot == Slot::kInputGrad;
      if (image && operand.index == i) own[{operand.slot, 0}] = values;
      if (!image && operand.index / 2 == i) own[{operand.slot, operand.index % 2}] = values;
    }
    return own;
  };
  Values joined, apart;
  joined[X(1)] = given.at(X(2));
  const auto take = [&](const Values& results, int i) {
    for (const auto& [operand, values] : results) {
      if (operand.slot != Slot::kOutput && operand.slot != Slot::kInputGrad)
        apart[{operand.slot, 2 * i + operand.index}] = values;
    }
  };
  for (const int i : {0, 1}) {
    const Values results =
        runner.Run(norms[i], {inputs[static_cast<size_t>(i)]}, 0, of_part(given, i));
    joined[X(i == 0 ? 2 : 0)] = results.at(Y());
    take(results, i);
  }
  apart[Y()] = runner.Run(Concat{}, parts, 0, joined).at(Y());
  const Values forward = runner.Run(fused, inputs, 0, given);
  CheckSameBits(forward, apart);
  const Values rerun = runner.Run(fused, inputs, 0, With(given, forward), /*rerun=*/true);
  CHECK(rerun.at(Y()) == forward.at(Y()));

  // Backward adds to the gradient of input 1, which is part 0.
  Values of_concat = given;
  of_concat[Dx(0)] = given.at(Dx(2));
  of_concat[Dx(1)] = std::vector<double>(given.at(Dx(2)).size());
  of_concat[Dx(2)] = given.at(Dx(0));
  const Values slices = runner.Run(Concat{}, parts, 1, of_concat);
  apart[Dx(2)] = slices.at(Dx(1));
  for (const int i : {0, 1}) {
    Values own = With(of_part(given, i), of_part(forward, i));
    own[Dy()] = slices.at(Dx(i == 0 ? 2 : 0));
    const Values results = runner.Run(norms[i], {inputs[static_cast<size_t>(i)]}, 1, own);
    apart[Dx(i)] = results.at(Dx());
    take(results, i);
  }
  Values sum = {{Addend(), apart.at(Dx(1))}, {Dx(), given.at(Dx(1))}};
  apart[Dx(1)] =
      RunStep(runner.backend, runner.access, AdditionSignature(inputs[1]), sum).value().at(Dx());
  CheckSameBits(runner.Run(fused, inputs, 1, With(given, forward)), apart);
}

void CheckAverages(const Runner& runner, const NormPass& fused, const TensorSpec& x) {
  NormPass norm = fused;
  norm.sink = {};
  const std::vector<TensorSpec> inputs(fused.adds() ? 2 : 1, x);
  const LayerSpec spec = Layer(fused).Specify({.inputs = inputs}).value();
  const Values given = RandomValues({.name = "", .layer = fused, .inputs = inputs}, spec, 7);
  const auto apart = [&](Mode mode) {
    Values results = runner.Run(norm, inputs, 0, given, false, mode);
    const Values unpooled = {{X(), results.at(Y())}};
    results[Y()] = runner.Run(GlobalAveragePool{}, {x}, 0, unpooled).at(Y());
    return results;
  };
  const Values forward = runner.Run(fused, inputs, 0, given);
  CheckSameBits(forward, apart(Mode::kTraining));
  CheckSameBits(runner.Run(fused, inputs, 0, given, false, Mode::kInference),
                apart(Mode::kInference));
  const Values rerun = runner.Run(fused, inputs, 0, With(given, forward), /*rerun=*/true);
  CheckSameBits(rerun, forward);

  Values unpooled = With(given, forward);
  unpooled[Dy()] = runner.Run(GlobalAveragePool{}, {x}, 1, given).at(Dx());
  CheckSameBits(runner.Run(fused, inputs, 1, With(given, forward)),
                runner.Run(norm, inputs, 1, unpooled));
}

void CheckActivated(const Runner& runner, const NormPass& fused, const Layer& activation,
                    const TensorSpec& x) {
  const LayerSpec spec = Layer(fused).Specify({.inputs = {x}}).value();
  const Values given = RandomValues({.name = "", .layer = fused, .inputs = {x}}, spec, 7);
  const auto apart = [&](Mode mode) {
    Values results = runner.Run(fused.norm, {x}, 0, given, false, mode);
    const Values normalised = {{X(), results.at(Y())}};
    results[Y()] = runner.Run(activation, {x}, 0, normalised, false, mode).at(Y());
    return results;
  };
  const Values forward = runner.Run(fused, {x}, 0, given);
  CheckSameBits(forward, apart(Mode::kTraining));
  CheckSameBits(runner.Run(fused, {x}, 0, given, false, Mode::kInference), apart(Mode::kInference));
  const Values rerun = runner.Run(fused, {x}, 0, With(given, forward), /*rerun=*/true);
  CHECK(rerun.at(Y()) == forward.at(Y()));

  const Values normalised = {{X(), runner.Run(fused.norm, {x}, 0, given).at(Y())},
                             {Y(), forward.at(Y())},
                             {Dy(), given.at(Dy())}};
  Values before = With(given, forward);
  before[Dy()] = runner.Run(activation, {x}, 1, normalised).at(Dx());
  CheckSameBits(runner.Run(fused, {x}, 1, With(given, forward)),
                runner.Run(fused.norm, {x}, 1, before));
}

// The first engine of the forward step that has a kernel for the ReLU behind it.
std::string PlainEngine(Backend& backend, const Layer& layer, const TensorSpec& x) {
  const std::vector<Engine> engines =
      backend.Engines(neap::SignatureOf(layer, Phase::kForward, {x}).value()).value();
  const auto plain = std::find_if(engines.begin(), engines.end(), [](const Engine& engine) {
    return engine.deterministic && !engine.computes_relu;
  });
  REQUIRE(plain != engines.end());
  return plain->id;
}

void CheckRelu(const Runner& runner, const Convolution& convolution, const TensorSpec& x) {
  const Layer fused = FusedConvolution{convolution};
  const LayerSpec spec = fused.Specify({.inputs = {x}}).value();
  Values given = RandomValues({.name = "", .layer = fused, .inputs = {x}}, spec, 7);
  const std::string engine = PlainEngine(runner.backend, fused, x);
  const auto run = [&](const Layer& layer, const TensorSpec& input, size_t step, const Values& on) {
    return runner.Run(layer, {input}, step, on, false, Mode::kTraining, step == 0 ? engine : "");
  };
  const Values forward = run(fused, x, 0, given);
  Convolution without_bias = convolution;
  without_bias.bias = false;
  Values on_sums = {{X(), run(without_bias, x, 0, given).at(Y())}};
  if (convolution.bias) on_sums[Param(0)] = given.at(Param(1));
  const Layer relu = FusedRelu{.bias = convolution.bias, .pool = {.kernel = 1, .stride = 1}};
  const TensorSpec& y = spec.output;
  CheckSameBits(forward, {{Y(), runner.Run(relu, {y}, 0, on_sums).at(Y())}});

  given = With(given, forward);
  const Values activation = run(fused, x, 1, given);
  const Values dz = runner.Run(Relu{}, {y}, 1, given);
  Values want = {{Dz(), dz.at(Dx())}};
  if (convolution.bias) {
    given[Dy()] = dz.at(Dx());
    want[ParamGrad(1)] = run(convolution, x, 1, given).at(ParamGrad(1));
  }
  CheckSameBits(activation, want);
}

}  // namespace

void CheckConvolutionWithRelu(Backend& backend, const DeviceAccess& access, DType dtype) {
  for (const Shape& shape : {Shape{4, 64, 14, 14}, Shape{3, 5, 9, 7}, Shape{2, 16, 8, 8}}) {
    for (const Layout layout : {Layout::kChannelsFirst, Layout::kChannelsLast}) {
      for (const bool bias : {true, false}) {
        const TensorSpec x = {shape, dtype, layout};
        CAPTURE(x.ToString());
        CAPTURE(bias);
        const int64_t channels = shape.c() + 3;
        CheckRelu({backend, access},
                  {.out_channels = channels, .kernel = 3, .padding = 1, .bias = bias}, x);
      }
    }
  }
}

void CheckConcatBatchNorms(Backend& backend, const DeviceAccess& access, DType dtype) {
  const std::vector<std::vector<int64_t>> channels = {{16, 8, 24}, {12, 4, 8}, {3, 2, 5}};
  for (const std::vector<int64_t>& of_parts : channels) {
    for (const Layout layout : {Layout::kChannelsFirst, Layout::kChannelsLast}) {
      CAPTURE(of_parts[0]);
      std::vector<TensorSpec> parts;
      for (int64_t c : of_parts) parts.push_back({Shape{4, c, 6, 8}, dtype, layout});
      CheckConcat({backend, access}, parts);
    }
  }
}

void CheckAveragedBatchNorm(Backend& backend, const DeviceAccess& access, DType dtype) {
  for (const Shape& shape : {Shape{8, 64, 7, 7}, Shape{3, 40, 8, 8}, Shape{2, 5, 3, 5},
                             Shape{3, 136, 4, 6}, Shape{2, 12, 1, 1}, Shape{64, 16, 12, 12}}) {
    for (const Layout layout : {Layout::kChannelsFirst, Layout::kChannelsLast}) {
      const TensorSpec x = {shape, dtype, layout};
      CAPTURE(x.ToString());
      for (const bool relu : {false, true}) {
        NormPass fused = {.activation = ReluIf(relu), .sink = GlobalAveragePool{}};
        CAPTURE(relu);
        CheckAverages({backend, access}, fused, x);
        fused.addend = NormPass::Raw{};
        CheckAverages({backend, access}, fused, x);
        fused.addend = BatchNorm{.epsilon = 1e-3F, .momentum = 0.3F};
        CheckAverages({backend, access}, fused, x);
      }
    }
  }
}

void CheckActivatedNorm(Backend& backend, const DeviceAccess& access, DType dtype) {
  const BatchNorm norm = {.epsilon = 1e-3F, .momentum = 0.3F};
  for (const Shape& shape : {Shape{8, 64, 7, 7}, Shape{2, 5, 3, 5}, Shape{64, 16, 12, 12}}) {
    for (const Layout layout : {Layout::kChannelsFirst, Layout::kChannelsLast}) {
      const TensorSpec x = {shape, dtype, layout};
      CAPTURE(x.ToString());
      const Clip clip = {-0.7123F, 1.0591F};
      CheckActivated({backend, access}, {.norm = norm, .activation = clip}, clip, x);
      CheckActivated({backend, access}, {.norm = norm, .activation = HardSwish{}}, HardSwish{}, x);
      CheckActivated({backend, access}, {.norm = norm, .activation = Silu{}}, Silu{}, x);
    }
  }
}

void CheckBatchNormOfParts(Backend& backend, const DeviceAccess& access, DType dtype) {
  const std::vector<std::vector<int64_t>> channels = {
      {32, 32, 8}, {64, 32, 32, 32, 32}, {1, 2, 5}, {12, 4, 32}, {3}, {20, 7}};
  for (const std::vector<int64_t>& parts : channels) {
    for (const Shape& image : {Shape{8, 1, 12, 12}, Shape{3, 1, 5, 3}, Shape{2, 1, 40, 40}}) {
      for (const Layout layout : {Layout::kChannelsFirst, Layout::kChannelsLast}) {
        std::vector<TensorSpec> inputs;
        for (int64_t c : parts)
          inputs.push_back({{image.n(), c, image.h(), image.w()}, dtype, layout});
        CAPTURE(inputs.back().ToString());
        CAPTURE(parts.size());
        for (const bool relu : {false, true}) CheckParts({backend, access}, inputs, relu);
      }
    }
  }
}

}  // namespace neap::testing
