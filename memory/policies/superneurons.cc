#include "neap/memory/policies/superneurons.h"

#include "neap/recompute/segments.h"

namespace neap {

std::vector<bool> ConvolutionResults(const Program& program, const RunOrder& /*order*/) {
  return KeptResults(program, [](const LayerTraits& layer) { return layer.hides_transfers; });
}

std::vector<bool> CheckpointResults(const Program& /*program*/, const RunOrder& order) {
  return order.checkpoints;
}

}  // namespace neap
