// The losses of neap that compare their predictions with labels.
#pragma once

#include "neap/core/step/layer.h"

namespace neap {

// Whether the layer is one of them that makes the softmax of what it reads: SoftmaxCrossEntropy or
// DiceLoss.
bool TakesLabels(const Layer& loss);

}  // namespace neap
