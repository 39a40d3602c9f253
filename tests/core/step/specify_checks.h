// The specs of layers as text, and layers that must be refused.
#pragma once

#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "neap/core/step/layer.h"

namespace neap {

inline TensorSpec Image(Shape shape, Layout layout = Layout::kChannelsFirst) {
  return {.shape = std::move(shape), .layout = layout};
}

inline std::string OperandsText(const std::vector<Operand>& operands) {
  return absl::StrJoin(operands, " ", [](std::string* out, Operand operand) {
    absl::StrAppend(out, ToString(operand));
  });
}

inline std::string SlotName(Slot slot) {
  const std::string operand = ToString({slot});  // "state[0]"
  return operand.substr(0, operand.find('['));
}

// "reads -> writes (+ accumulates) [rerun reads] in place [adds to slots]", one line per step.
inline std::string StepsText(const LayerSpec& spec) {
  std::string text;
  for (const StepSpec& step : spec.steps) {
    absl::StrAppend(&text, std::string(Name(step.phase)), ": ", OperandsText(step.reads), " -> ",
                    OperandsText(step.writes));
    if (!step.accumulates.empty()) absl::StrAppend(&text, " + ", OperandsText(step.accumulates));
    if (!step.rerun_reads.empty())
      absl::StrAppend(&text, " rerun ", OperandsText(step.rerun_reads));
    for (const auto& [written, read] : step.in_place) {
      absl::StrAppend(&text, " ", ToString(written), " over ", ToString(read));
    }
    for (Slot slot : step.accumulates_natively) absl::StrAppend(&text, " adds to ", SlotName(slot));
    text += "\n";
  }
  return text;
}

inline LayerSpec Specified(const Layer& layer, const std::vector<TensorSpec>& inputs,
                           Mode mode = Mode::kTraining) {
  absl::StatusOr<LayerSpec> spec = layer.Specify({.inputs = inputs, .mode = mode});
  REQUIRE(spec.ok());
  return *std::move(spec);
}

inline void CheckRefused(const Layer& layer, const std::vector<TensorSpec>& inputs,
                         const std::string& reason) {
  const absl::StatusOr<LayerSpec> spec = layer.Specify({.inputs = inputs});
  CAPTURE(reason);
  CHECK(absl::IsInvalidArgument(spec.status()));
  CHECK(std::string(spec.status().message()) == reason);
}

}  // namespace neap
