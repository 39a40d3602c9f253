#include "neap/core/plan/cost_features.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <string_view>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "neap/core/step/operands.h"
#include "neap/core/step/signature_text.h"

namespace neap {
namespace {

// The first of the operands that the step has; null if it has none of them.
const TensorSpec* FirstOf(const StepSignature& signature, std::initializer_list<Operand> operands) {
  for (const Operand& operand : operands) {
    if (signature.Has(operand)) return &signature.Spec(operand);
  }
  return nullptr;
}

// Logarithms of the pixels and bytes from which a larger batch is not less efficient: it takes
// longer in proportion.
constexpr double kFullPixels = 20, kFullBytes = 29;

double LogOf(int64_t number, double most) {
  return std::clamp(std::log2(static_cast<double>(std::max<int64_t>(number, 1))), 0.0, most);
}

int64_t PixelsOf(const TensorSpec& tensor) { return tensor.shape.positions(); }

// The activation that a layer's parameters name: "clip" of "activation=clip(low=0 high=6)".
std::string_view ActivationOf(std::string_view parameters) {
  constexpr std::string_view kKey = "activation=";
  const size_t at = parameters.find(kKey);
  if (at == std::string_view::npos) return {};
  const std::string_view name = parameters.substr(at + kKey.size());
  return name.substr(0, name.find_first_of(" (,"));
}

std::string_view TypeClass(DType dtype) {
  if (Is16Bit(dtype)) return "16-bit";
  return dtype == DType::kTf32 ? "tf32" : "fp32";
}

// The tensors of a step by which its work is described.
struct Tensors {
  const TensorSpec* input = nullptr;
  const TensorSpec* output = nullptr;
  const TensorSpec* weight = nullptr;  // of a convolution or a product of matrices
};

Tensors TensorsOf(const StepSignature& signature) {
  using namespace operands;
  Tensors tensors = {.input = FirstOf(signature, {X(), Dx(), Dy(), Y()}),
                     .output = FirstOf(signature, {Y(), Dy(), Dz(), Dx(), X()}),
                     .weight = FirstOf(signature, {Param(0), ParamGrad(0)})};
  const bool multiplies = signature.multiplies && signature.phase != Phase::kBackwardActivation &&
                          tensors.input != nullptr && tensors.weight != nullptr &&
                          tensors.weight->shape.spatial_axes() > 0;
  if (!multiplies) tensors.weight = nullptr;
  return tensors;
}

// "dense" for a convolution or a product of matrices, or in groups of several channels or of one.
// The weight of a transposed convolution has the output's channels behind the input's.
std::string_view GroupsOf(const Tensors& tensors) {
  if (tensors.weight == nullptr) return "";
  const Shape& weight = tensors.weight->shape;
  const int64_t in = tensors.input->shape.c();
  if (weight.c() >= in || (weight.n() == in && weight.c() == tensors.output->shape.c()))
    return "dense";
  return weight.c() == 1 ? "depthwise" : "grouped";
}

void NameKind(const StepSignature& signature, const Tensors& tensors, CostFeatures& features) {
  std::string type(TypeOf(signature.layer, signature.phase, signature.optimizer));
  if (IsOfLayer(signature.phase)) {
    const std::string parameters = signature.layer.Parameters();
    const std::string_view activation = ActivationOf(parameters);
    if (!activation.empty()) type.append(":").append(activation);
  }
  const Phase phase = signature.phase == Phase::kAddGradients ? Phase::kForward : signature.phase;
  std::string elements;
  if (tensors.input != nullptr) {
    elements.append(" ").append(TypeClass(tensors.input->dtype));
    elements.append(" ").append(Name(tensors.input->layout));
  }
  if (tensors.weight != nullptr) {
    features.family.append(GroupsOf(tensors)).append(" ").append(Name(phase));
    features.group = features.family + elements;
    features.kind = type + " " + features.group;
    return;
  }
  features.family = "pass";
  features.group.append(type).append(" ").append(Name(phase));
  if (signature.mode == Mode::kInference) features.group += " inference";
  // A norm runs again with the statistics that it has; others run the same kernel again.
  if (signature.rerun && (absl::StrContains(type, "_norm") || type == "norm_pass"))
    features.group += " rerun";
  features.kind = features.group + elements;
}

int64_t BytesTouched(const StepSignature& signature) {
  int64_t bytes = 0;
  for (const OperandSpec& operand : signature.operands)
    bytes += operand.tensor.size_bytes() * (operand.access == Access::kAccumulate ? 2 : 1);
  return bytes;
}

void DescribeExtents(const Tensors& tensors, double flops, CostFeatures& features) {
  using F = CostFeatures;
  auto& values = features.values;
  const int64_t in = tensors.input->shape.c();
  const int64_t out = tensors.output->shape.c();
  int64_t groups = 1;
  if (tensors.weight != nullptr) {
    const Shape& weight = tensors.weight->shape;
    groups = std::max<int64_t>(GroupsOf(tensors) == "dense" ? 1 : in / weight.c(), 1);
    const auto [least, most] =
        std::minmax_element(weight.spatial().begin(), weight.spatial().end());
    values[F::kTaps] = LogOf(weight.positions(), 12);
    values[F::kAsymmetric] = *least == *most ? 0 : 1;
  }
  values[F::kInputChannels] = LogOf(in / groups, 12);
  values[F::kOutputChannels] = LogOf(out / groups, 12);
  values[F::kPixels] = LogOf(tensors.output->shape.n() * PixelsOf(*tensors.output), kFullPixels);
  const int axes = std::max(tensors.input->shape.spatial_axes(), 1);
  values[F::kStride] = std::clamp(
      (LogOf(PixelsOf(*tensors.input), 24) - LogOf(PixelsOf(*tensors.output), 24)) / axes, -3.0,
      3.0);
  values[F::kMaxChannels] = std::max(values[F::kInputChannels], values[F::kOutputChannels]);
  values[F::kFewInputChannels] = in / groups < 16 ? 1 : 0;
  values[F::kFewOutputChannels] = out / groups < 32 ? 1 : 0;
  values[F::kRaggedInputChannels] = in % 64 == 0 ? 0 : 1;
  values[F::kRaggedOutputChannels] = out % 64 == 0 ? 0 : 1;
  const auto elements = static_cast<double>(std::max<int64_t>(tensors.output->elements(), 1));
  values[F::kWork] = std::clamp(std::log2(std::max(flops, 1.0) / elements), -4.0, 16.0);
}

}  // namespace

CostFeatures FeaturesOf(const StepSignature& signature, double flops,
                        const DeviceDescription& device) {
  using F = CostFeatures;
  CostFeatures features;
  auto& values = features.values;
  const Tensors tensors = TensorsOf(signature);
  NameKind(signature, tensors, features);
  const auto bytes = static_cast<double>(BytesTouched(signature));
  const DType dtype = tensors.input == nullptr ? DType::kFp32 : tensors.input->dtype;
  const double rate = device.FlopsOf(dtype);
  const double arithmetic = rate > 0 ? flops / rate : 0;
  const double memory = device.memory_bandwidth > 0 ? bytes / device.memory_bandwidth : 0;
  features.bound_seconds = kLaunchSeconds + std::max(arithmetic, memory);
  if (tensors.weight == nullptr && device.gpu.has_value() && bytes > 0) {
    const double cached = static_cast<double>(device.gpu->l2_cache_bytes) / bytes;
    features.least_seconds = memory * std::max(1 - cached, 0.0);
  }
  values[F::kOne] = 1;
  if (arithmetic > 0 && memory > 0)
    values[F::kBalance] = std::clamp(std::log2(arithmetic / memory), -6.0, 6.0);
  values[F::kImbalance] = std::abs(values[F::kBalance]);
  values[F::kBytes] = std::clamp(std::log2(std::max(bytes, 1.0)), 16.0, kFullBytes);
  values[F::kManyBytes] = std::max(values[F::kBytes] - 25, 0.0);
  values[F::kVeryManyBytes] = std::max(values[F::kBytes] - 28, 0.0);
  if (tensors.input != nullptr && tensors.output != nullptr)
    DescribeExtents(tensors, flops, features);
  values[F::kMoreInputChannels] = std::max(values[F::kInputChannels] - 6, 0.0);
  values[F::kMoreOutputChannels] = std::max(values[F::kOutputChannels] - 6, 0.0);
  values[F::kMorePixels] = std::max(values[F::kPixels] - 16, 0.0);
  return features;
}

}  // namespace neap
