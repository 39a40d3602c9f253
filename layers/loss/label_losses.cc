#include "neap/layers/loss/label_losses.h"

#include "neap/layers/loss/dice_loss.h"
#include "neap/layers/softmax_cross_entropy.h"

namespace neap {

bool TakesLabels(const Layer& loss) {
  return loss.As<SoftmaxCrossEntropy>() != nullptr || loss.As<DiceLoss>() != nullptr;
}

}  // namespace neap
