#include "neap/core/step/layer.h"

#include <array>

#include "absl/strings/str_cat.h"

namespace neap {
namespace {

constexpr std::array<std::string_view, 5> kPhaseNames = {
    "forward", "backward_data", "backward_params", "update", "add_gradients"};
constexpr std::array<std::string_view, 11> kSlotNames = {
    "input",      "output", "input_grad", "output_grad", "addend",   "param",
    "param_grad", "saved",  "state",      "optimizer",   "iteration"};

}  // namespace

std::string_view Name(Phase phase) { return kPhaseNames[static_cast<size_t>(phase)]; }

absl::StatusOr<Phase> ParsePhase(std::string_view text) {
  for (Phase phase :
       {Phase::kForward, Phase::kBackwardData, Phase::kBackwardParams, Phase::kUpdate}) {
    if (Name(phase) == text) return phase;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("unknown phase \"", std::string(text),
                   "\", expected forward, backward_data, backward_params or update"));
}

std::string ToString(Operand operand) {
  return absl::StrCat(std::string(kSlotNames[static_cast<size_t>(operand.slot)]), "[",
                      operand.index, "]");
}

}  // namespace neap
