#include "tests/layers/update_checks.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <random>

#include "neap/core/step/loss_scale.h"
#include "neap/core/step/specify.h"
#include "neap/layers/activation.h"

namespace neap::testing {
namespace {

using namespace operands;

// Around the sizes of vectors, and of what one block takes (layers/cuda/kernels/optimizer.cu and
// gradient_norm.cu).
constexpr int64_t kSizes[] = {1, 3, 4, 7, 64, 2047, 2048, 2049, 4096, 4100, 40001};
constexpr int kTensors = 150;

TensorSpec SpecOf(int k, DType other = DType::kFp32) {
  TensorSpec spec = VectorSpec(kSizes[static_cast<size_t>(k) % std::size(kSizes)]);
  if (k % 3 == 1) spec.dtype = other;
  return spec;
}

class Numbers {
 public:
  std::vector<double> Of(const TensorSpec& spec) {
    std::vector<double> values(static_cast<size_t>(spec.elements()));
    for (double& value : values) value = uniform_(random_);
    return Rounded(spec, values);
  }

 private:
  std::mt19937 random_{1};
  std::uniform_real_distribution<double> uniform_{-1, 1};
};

Values RunUpdate(Backend& backend, const DeviceAccess& access, const StepSignature& signature,
                 const Values& given) {
  absl::StatusOr<Values> result = RunStep(backend, access, signature, given);
  REQUIRE_MESSAGE(result.ok(), result.status().ToString());
  return *std::move(result);
}

// LossScale as an operand's values.
std::vector<double> ScaleValues(double scale, double overflow = 0) {
  return {scale, 0, overflow, 0};
}

void AddOperand(StepSignature& signature, Operand operand, const TensorSpec& spec, Access access) {
  signature.operands.push_back({operand, spec, access});
}

// Values for all operands that the step reads, but for the iteration's scalars.
Values GivenTo(const StepSignature& signature, Numbers& numbers) {
  Values given;
  for (const OperandSpec& operand : signature.operands) {
    if (operand.access == Access::kWrite || operand.operand == Iteration()) continue;
    std::vector<double>& values = given[operand.operand] = numbers.Of(operand.tensor);
    const Slot slot = operand.operand.slot;
    if (slot != Slot::kSecondMoment && slot != Slot::kGradientNorm) continue;
    for (double& value : values) value = std::abs(value);
  }
  return given;
}

}  // namespace

void CheckManyUpdates(Backend& backend, const DeviceAccess& access) {
  for (const DType dtype : {DType::kFp32, DType::kBf16, DType::kFp16}) {
    for (const Optimizer& optimizer : SomeOptimizers()) {
      CAPTURE(Name(dtype));
      CAPTURE(static_cast<int>(optimizer.rule));
      CAPTURE(optimizer.momentum);
      std::vector<TensorSpec> params;
      for (int k = 0; k < kTensors; ++k) params.push_back(SpecOf(k, dtype));
      const StepSignature all = UpdateSignature(Relu{}, params, optimizer);
      Numbers numbers;
      Values given = GivenTo(all, numbers);
      given[Iteration()] = {0.125, 3, 7};
      const Values together = RunUpdate(backend, access, all, given);
      for (int k = 0; k < kTensors; ++k) {
        CAPTURE(k);
        const StepSignature one =
            UpdateSignature(Relu{}, {params[static_cast<size_t>(k)]}, optimizer);
        Values of_one = {{Iteration(), given.at(Iteration())}};
        if (optimizer.clips()) of_one[GradientNorm()] = given.at(GradientNorm());
        for (const OperandSpec& operand : one.operands) {
          const auto value = given.find({operand.operand.slot, k});
          if (value != given.end()) of_one.emplace(operand.operand, value->second);
        }
        for (const auto& [operand, values] : RunUpdate(backend, access, one, of_one))
          CHECK(together.at({operand.slot, k}) == values);
      }
    }
  }
}

void CheckManyGradients(Backend& backend, const DeviceAccess& access) {
  StepSignature check = {.layer = Relu{}, .phase = Phase::kCheckGradients};
  Numbers numbers;
  Values given = {{LossScaling(), ScaleValues(1024)}};
  for (int k = 0; k < kTensors; ++k) {
    AddOperand(check, ParamGrad(k), SpecOf(k), Access::kRead);
    given[ParamGrad(k)] = numbers.Of(SpecOf(k));
  }
  AddOperand(check, LossScaling(), VectorSpec(kLossScaleValues), Access::kAccumulate);
  CHECK(RunUpdate(backend, access, check, given).at(LossScaling()) == ScaleValues(1024));
  for (int k = 0; k < kTensors; ++k) {
    CAPTURE(k);
    double& last = given[ParamGrad(k)].back();
    const double finite = last;
    last = k % 2 == 0 ? std::numeric_limits<double>::infinity() : std::nan("");
    CHECK(RunUpdate(backend, access, check, given).at(LossScaling()) == ScaleValues(1024, 1));
    last = finite;
  }
}

void CheckScaledUpdates(Backend& backend, const DeviceAccess& access) {
  constexpr double kScale = 1024, kSkipped = 2, kStep = 7;
  for (const Optimizer& optimizer : SomeOptimizers()) {
    CAPTURE(static_cast<int>(optimizer.rule));
    CAPTURE(optimizer.clip_norm);
    const StepSignature plain =
        UpdateSignature(Relu{}, {SpecOf(5), SpecOf(4, DType::kFp16), SpecOf(9)}, optimizer);
    StepSignature scaled = plain;
    AddOperand(scaled, LossScaling(), VectorSpec(kLossScaleValues), Access::kRead);
    Numbers numbers;
    Values given = GivenTo(scaled, numbers);
    given[Iteration()] = {0.125, kStep, 7};
    given[LossScaling()] = {kScale, 0, 0, kSkipped};

    Values unscaled = given;
    unscaled.erase(LossScaling());
    unscaled[Iteration()] = {0.125, kStep - kSkipped, 7};
    for (auto& [operand, values] : unscaled) {
      for (double& value : values) {
        if (operand.slot == Slot::kParamGrad) value /= kScale;
        if (operand.slot == Slot::kGradientNorm) value /= kScale * kScale;
      }
    }
    CHECK(RunUpdate(backend, access, scaled, given) == RunUpdate(backend, access, plain, unscaled));

    given[LossScaling()][2] = 1;
    for (const auto& result : RunUpdate(backend, access, scaled, given)) {
      const Operand operand = result.first;
      CAPTURE(ToString(operand));
      const bool is_rounded = scaled.Has(Master(operand.index)) && operand.slot == Slot::kParam;
      const std::vector<double>& before = given.at(is_rounded ? Master(operand.index) : operand);
      CHECK(result.second == (is_rounded ? Rounded(scaled.Spec(operand), before) : before));
    }
  }
}

void CheckGradientNorm(Backend& backend, const DeviceAccess& access) {
  Numbers numbers;
  // Of some of the gradients, added to the sum of those before, if there are any.
  const auto add = [&](const std::vector<std::vector<double>>& gradients, size_t first, size_t end,
                       std::optional<double> before) {
    StepSignature check = {
        .layer = Relu{}, .phase = Phase::kCheckGradients, .optimizer = {.clip_norm = 1}};
    Values given;
    for (size_t k = first; k < end; ++k) {
      const int index = static_cast<int>(k - first);
      AddOperand(check, ParamGrad(index), SpecOf(static_cast<int>(k)), Access::kRead);
      given[ParamGrad(index)] = gradients[k];
    }
    if (before.has_value()) given[GradientNorm()] = {*before};
    AddOperand(check, GradientNorm(), VectorSpec(1),
               before.has_value() ? Access::kAccumulate : Access::kWrite);
    return RunUpdate(backend, access, check, given).at(GradientNorm())[0];
  };
  std::vector<std::vector<double>> gradients;
  double expected = 0;
  for (int k = 0; k < kTensors; ++k) {
    gradients.push_back(numbers.Of(SpecOf(k)));
    for (double value : gradients.back()) expected += value * value;
  }
  const double whole = add(gradients, 0, kTensors, std::nullopt);
  CHECK(whole == doctest::Approx(expected).epsilon(1e-5));
  for (const size_t size : {size_t{1}, size_t{7}, size_t{64}, size_t{149}}) {
    CAPTURE(size);
    std::optional<double> sum;
    for (size_t first = 0; first < kTensors; first += size)
      sum = add(gradients, first, std::min<size_t>(first + size, kTensors), sum);
    CHECK(sum == whole);
  }
}

void CheckManyStates(Backend& backend, const DeviceAccess& access) {
  const Optimizer optimizer = {.momentum = 0.5F};
  StepSignature update = UpdateSignature(Relu{}, {SpecOf(5), SpecOf(8)}, optimizer);
  AddOperand(update, LossScaling(), VectorSpec(kLossScaleValues), Access::kRead);
  Numbers numbers;
  Values given = {{Iteration(), {0.125, 3, 7}}};
  for (int k = 0; k < kTensors; ++k) {
    AddOperand(update, State(k), SpecOf(k), Access::kAccumulate);
    AddOperand(update, Backup(k), SpecOf(k), Access::kAccumulate);
  }
  for (const OperandSpec& operand : update.operands) {
    if (operand.operand.slot != Slot::kIteration)
      given[operand.operand] = numbers.Of(operand.tensor);
  }
  for (const bool overflow : {false, true}) {
    given[LossScaling()] = ScaleValues(2, overflow ? 1 : 0);
    Values result = RunUpdate(backend, access, update, given);
    for (int k = 0; k < kTensors; ++k) {
      const std::vector<double>& kept = given.at(overflow ? Backup(k) : State(k));
      CHECK(result.at(State(k)) == kept);
      CHECK(result.at(Backup(k)) == kept);
    }
    for (int k = 0; k < 2; ++k) CHECK((result.at(Param(k)) == given.at(Param(k))) == overflow);
  }
}

}  // namespace neap::testing
