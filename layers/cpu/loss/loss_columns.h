// Shared code of the loops of losses: the channels of each image or pixel, in both layouts, the
// metrics, and the factors of the gradient.
#pragma once

#include <cstdint>
#include <optional>

#include "neap/core/base/tensor.h"
#include "neap/core/graph/label_grid.h"
#include "neap/core/step/loss_scale.h"
#include "neap/core/step/step_signature.h"
#include "neap/layers/cpu/candidates.h"

namespace neap::cpu {

// The channels of one image or pixel, with a stride of `apart` elements.
template <typename T>
struct Column {
  T* first;
  int64_t apart;
  T& operator[](int64_t c) const { return first[c * apart]; }
};

struct Columns {
  int64_t count, channels, pixels;  // pixels of an image
  bool last;                        // the channels of a pixel are contiguous

  explicit Columns(const TensorSpec& tensor)
      : count(tensor.elements() / tensor.shape.c()),
        channels(tensor.shape.c()),
        pixels(tensor.shape.positions()),
        last(tensor.layout == Layout::kChannelsLast) {}
  template <typename T>
  Column<T> Of(T* tensor, int64_t i) const {
    if (last) return {tensor + i * channels, 1};
    return {tensor + i / pixels * channels * pixels + i % pixels, pixels};
  }
  // The number of labels in the whole batch, over which means are taken.
  int64_t CountInBatch(const StepSignature& signature) const {
    return signature.part.WholeCount(count, count / pixels);
  }
};

// The label of each image or pixel, input 1, which may be finer than the predictions.
class LabelColumn {
 public:
  LabelColumn(const LoopArgs& args, const Columns& columns)
      : labels_(args.Get<int32_t>(operands::X(1))) {
    const TensorSpec& labels = args.signature.Spec(operands::X(1));
    if (labels.elements() == columns.count) return;  // kernels may have other axes than labels then
    const bool forward = args.signature.phase == Phase::kForward;
    const Operand predictions = forward ? operands::X(0) : operands::Y();
    grid_ = LabelGridOf(args.signature.Spec(predictions).shape, labels.shape);
  }
  int32_t operator[](int64_t i) const { return labels_[grid_.has_value() ? grid_->LabelOf(i) : i]; }

 private:
  const int32_t* labels_;
  std::optional<LabelGrid> grid_;
};

// Writes the metrics of the batch's part, or adds them, unless the step has none or runs again.
inline void StoreMetrics(const LoopArgs& args, double mean_loss, int64_t correct) {
  float* const metrics = args.Find<float>(operands::State(0));
  if (metrics == nullptr || args.signature.rerun) return;
  const bool adds = args.signature.Accumulates(operands::State(0));
  metrics[0] = (adds ? metrics[0] : 0) + static_cast<float>(mean_loss);
  metrics[1] = (adds ? metrics[1] : 0) + static_cast<float>(correct);
}

// The factor by which the gradient of the mean is multiplied. A loss scale is a power of two, so
// the product is exact.
inline float GradientFactor(const LoopArgs& args, float weight) {
  const LossScale* const scaling = args.Find<LossScale>(operands::LossScaling());
  return weight * (scaling == nullptr ? 1.0F : scaling->scale);
}

}  // namespace neap::cpu
