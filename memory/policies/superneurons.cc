#include "neap/memory/policies/superneurons.h"

#include "neap/recompute/segments.h"

namespace neap {

std::vector<bool> ConvolutionResults(const Program& program) {
  return KeptResults(program, [](const LayerTraits& layer) { return layer.hides_transfers; });
}

}  // namespace neap
