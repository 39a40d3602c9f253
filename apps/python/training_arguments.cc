#include "apps/python/training_arguments.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <cstdint>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "apps/python/bindings.h"
#include "apps/python/errors.h"

namespace neap::python {
namespace {

namespace nb = nanobind;
using nb::literals::operator""_a;

// Errors: INVALID_ARGUMENT for an unknown name.
absl::StatusOr<LearningRate::Decay> DecayOf(const std::string& name) {
  using Decay = LearningRate::Decay;
  constexpr std::pair<const char*, Decay> kDecays[] = {{"constant", Decay::kConstant},
                                                       {"step", Decay::kStep},
                                                       {"exponential", Decay::kExponential},
                                                       {"cosine", Decay::kCosine}};
  for (const auto& [known, decay] : kDecays) {
    if (name == known) return decay;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "decay: '", name.substr(0, 64), "' is not 'constant', 'step', 'exponential' or 'cosine'"));
}

}  // namespace

LearningRate ToLearningRate(const Rate& rate) {
  if (const auto* const base = std::get_if<float>(&rate)) return {.base = *base};
  return std::get<LearningRate>(rate);
}

absl::StatusOr<Optimizer> ToOptimizer(const std::string& name, std::optional<float> momentum,
                                      bool nesterov,
                                      const std::optional<std::pair<float, float>>& betas,
                                      std::optional<float> epsilon) {
  Optimizer optimizer = {.nesterov = nesterov};
  if (name == "sgd") {
    if (betas.has_value() || epsilon.has_value())
      return absl::InvalidArgumentError("betas and eps are those of optimizer 'adamw'");
    optimizer.momentum = momentum.value_or(optimizer.momentum);
    return optimizer;
  }
  if (name != "adamw")
    return absl::InvalidArgumentError(
        absl::StrCat("optimizer '", name.substr(0, 64), "' is neither sgd nor adamw"));
  if (momentum.has_value() || nesterov)
    return absl::InvalidArgumentError("momentum and nesterov are those of optimizer 'sgd'");
  optimizer.rule = Optimizer::Rule::kAdamW;
  if (betas.has_value()) std::tie(optimizer.beta1, optimizer.beta2) = *betas;
  optimizer.epsilon = epsilon.value_or(optimizer.epsilon);
  return optimizer;
}

void BindLearningRate(nb::module_& module) {
  nb::class_<LearningRate>(
      module, "LearningRate",
      "Rises linearly from `warmup_start` times `base` over `warmup_steps`, "
      "then follows `decay`: 'constant',\n'step' (times `factor` after every "
      "`period_steps`), 'exponential' (the same, a little after every step) or\n"
      "'cosine' (down to `minimum` at `period_steps`).")
      .def(
          "__init__",
          [](LearningRate* rate, float base, int64_t warmup_steps, const std::string& decay,
             int64_t period_steps, float factor, float minimum, float warmup_start) {
            new (rate) LearningRate{.base = base,
                                    .minimum = minimum,
                                    .warmup_steps = warmup_steps,
                                    .warmup_start = warmup_start,
                                    .decay = Checked(DecayOf(decay)),
                                    .period_steps = period_steps,
                                    .factor = factor};
          },
          "base"_a, "warmup_steps"_a = 0, "decay"_a = "constant", "period_steps"_a = 1,
          "factor"_a = 0.1F, nb::kw_only(), "minimum"_a = 0.0F, "warmup_start"_a = 0.0F)
      .def("at", &LearningRate::At, "step"_a, "The rate of a step, which are counted from 0.")
      .def_ro("base", &LearningRate::base, "The rate after the warm-up.")
      .def(
          "__eq__", [](const LearningRate& a, const LearningRate& b) { return a == b; },
          nb::is_operator())
      .def("__repr__", [](const LearningRate& rate) {
        return absl::StrCat("<neap.LearningRate ", neap::ToString(rate), ">");
      });
}

}  // namespace neap::python
