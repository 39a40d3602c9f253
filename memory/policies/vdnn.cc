#include "neap/memory/policies/vdnn.h"

namespace neap {
namespace {

// The activations that the forward steps of these layers read.
template <typename Wanted>
std::vector<bool> ForwardInputs(const Program& program, const Wanted& wanted) {
  std::vector<bool> inputs(program.tensors.size(), false);
  for (const Step& step : program.steps) {
    if (step.phase != Phase::kForward) continue;
    if (!wanted(program.layers[step.layer.index()].traits)) continue;
    for (const Use& use : step.reads) {
      if (program.tensor(use.tensor).role == Role::kActivation) inputs[use.tensor.index()] = true;
    }
  }
  return inputs;
}

}  // namespace

std::vector<bool> AllInputs(const Program& program, const RunOrder& /*order*/) {
  return ForwardInputs(program, [](const LayerTraits& /*layer*/) { return true; });
}

std::vector<bool> ConvolutionInputs(const Program& program, const RunOrder& /*order*/) {
  return ForwardInputs(program, [](const LayerTraits& layer) { return layer.hides_transfers; });
}

}  // namespace neap
