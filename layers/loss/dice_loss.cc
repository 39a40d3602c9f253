#include "neap/layers/loss/dice_loss.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/step/operands.h"
#include "neap/core/step/parameter_text.h"
#include "neap/layers/softmax_cross_entropy.h"
#include "neap/layers/steps/loss_steps.h"

namespace neap {
namespace {

absl::Status CheckNumbers(const DiceLoss& loss) {
  if (!(loss.smooth > 0 && std::isfinite(loss.smooth)))
    return absl::InvalidArgumentError(
        absl::StrCat("smooth is ", loss.smooth, ", expected a positive number"));
  if (loss.cross_entropy >= 0 && std::isfinite(loss.cross_entropy)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("the weight of its cross-entropy is ",
                                                 loss.cross_entropy, ", expected a number >= 0"));
}

}  // namespace

std::string DiceLoss::Parameters() const {
  return ParameterText({{"background", background},
                        {"batch", batch},
                        {"smooth", smooth},
                        {"cross_entropy", cross_entropy},
                        {"weight", weight}});
}

bool MakesSoftmax(const Layer& loss) {
  return loss.As<SoftmaxCrossEntropy>() != nullptr || loss.As<DiceLoss>() != nullptr;
}

absl::StatusOr<LayerSpec> DiceLoss::Specify(const LayerContext& context) const {
  using namespace operands;
  RETURN_IF_ERROR(CheckLabelledInputs(context, "logits", /*may_be_finer=*/true));
  RETURN_IF_ERROR(CheckNumbers(*this));
  const Shape& logits = context.inputs[0].shape;
  if (logits.c() == 1 && !background)
    return absl::InvalidArgumentError("has one class, the background, which does not count");
  ASSIGN_OR_RETURN(LayerSpec spec, LossSpec(context, 12, weight));
  spec.loss_mean = batch ? LossMean::kKnown : LossMean::kImages;
  spec.traits.independent_images = !batch;
  if (context.mode == Mode::kInference) return spec;
  spec.saved = {{"sums", {.shape = {batch ? 1 : logits.n(), 2 * logits.c() + 1}}}};
  spec.steps[0].writes.push_back(Saved(0));
  spec.steps[1].reads.push_back(Saved(0));
  return spec;
}

}  // namespace neap
