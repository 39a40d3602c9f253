#include "neap/core/graph/caller.h"

#include <iterator>

namespace neap {

absl::StatusOr<LayerSpec> Caller::Specify(const LayerContext& context) const {
  LayerSpec spec;
  StepSpec& pause = spec.steps.emplace_back();
  pause.phase = Phase::kPause;
  for (int i = 0; i < std::ssize(context.inputs); ++i) {
    pause.reads.push_back({Slot::kInput, i});
    pause.writes.push_back({Slot::kInputGrad, i});
    pause.in_place.emplace_back(pause.writes.back(), pause.reads.back());
  }
  return spec;
}

}  // namespace neap
