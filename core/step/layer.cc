#include "neap/core/step/layer.h"

#include <array>

#include "absl/strings/str_cat.h"
#include "neap/core/base/enum_name.h"

namespace neap {
namespace {

constexpr std::array<std::string_view, 12> kPhaseNames = {
    "forward", "backward_activation", "backward_data", "backward_params", "check_gradients",
    "update",  "update_scale",        "all_reduce",    "reduce_scatter",  "all_gather",
    "pause",   "add_gradients"};
constexpr std::array<std::string_view, 18> kSlotNames = {
    "input",   "output",     "input_grad", "output_grad", "linear_grad",   "addend",
    "param",   "param_grad", "saved",      "state",       "optimizer",     "second_moment",
    "average", "master",     "backup",     "loss_scale",  "gradient_norm", "iteration"};

}  // namespace

std::string_view Name(Phase phase) { return NameIn(kPhaseNames, phase); }

absl::StatusOr<Phase> ParsePhase(std::string_view text) {
  for (size_t i = 0; i < static_cast<size_t>(Phase::kAddGradients); ++i) {
    if (kPhaseNames[i] == text) return static_cast<Phase>(i);
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "unknown phase \"", std::string(text),
      "\", expected forward, backward_activation, backward_data, backward_params, "
      "check_gradients, update, update_scale, all_reduce, reduce_scatter, all_gather or pause"));
}

std::string ToString(Operand operand) {
  return absl::StrCat(std::string(NameIn(kSlotNames, operand.slot)), "[", operand.index, "]");
}

}  // namespace neap
