// Soft Dice of the softmax, one set of positions after another. Sums are float64.
#include "neap/layers/loss/dice_loss.h"

#include <algorithm>
#include <cstdint>
#include <limits>

#include "neap/layers/cpu/loss/softmax_column.h"

namespace neap::cpu {
namespace {

using namespace operands;

// The sets of a step: each has so many images, one after another.
struct DiceSets {
  int64_t count, positions;  // positions of a set
  int64_t classes, first_class;
  double share;  // of a set in the mean over those of the whole batch

  DiceSets(const StepSignature& signature, const Columns& columns) : classes(columns.channels) {
    const DiceLoss& layer = *signature.layer.As<DiceLoss>();
    const int64_t images = columns.count / columns.pixels;
    count = layer.batch ? 1 : images;
    positions = columns.count / count;
    first_class = layer.background ? 0 : 1;
    share = static_cast<double>(images / count) /
            static_cast<double>(signature.part.WholeCount(images, images));
  }
  double counted_classes() const { return static_cast<double>(classes - first_class); }
};

// I, P and G of each class, one behind the other, and the number of known labels.
struct DiceSums {
  double* intersections;
  double* predictions;
  double* labels;
  double known;
};

void AddPosition(Column<const float> y, int64_t classes, int32_t label, DiceSums& sums) {
  if (label == kNoLabel) return;
  sums.known += 1;
  for (int64_t c = 0; c < classes; ++c) sums.predictions[c] += static_cast<double>(y[c]);
  if (label < 0 || label >= classes) return;
  sums.intersections[label] += static_cast<double>(y[label]);
  sums.labels[label] += 1;
}

// The Dice part of a set's loss. `saved`, the set's, may be null.
double CloseSet(const DiceSets& sets, const DiceLoss& layer, const DiceSums& sums, float* saved) {
  const auto smooth = static_cast<double>(layer.smooth);
  double sum = 0;
  for (int64_t c = 0; c < sets.classes; ++c) {
    const bool counts = c >= sets.first_class && sums.known > 0;
    const double whole = sums.predictions[c] + sums.labels[c] + smooth;
    const double dice = (2 * sums.intersections[c] + smooth) / whole;
    if (counts) sum += dice;
    if (saved == nullptr) continue;
    saved[c] = static_cast<float>(counts ? 2 / whole : 0);
    saved[sets.classes + c] = static_cast<float>(counts ? dice / whole : 0);
  }
  if (saved != nullptr) {
    const auto weight = static_cast<double>(layer.cross_entropy);
    saved[2 * sets.classes] = static_cast<float>(sums.known > 0 ? weight / sums.known : 0);
  }
  return -sum / sets.counted_classes();
}

void DiceForward(const LoopArgs& args) {
  const Columns columns(args.signature.Spec(X(0)));
  const LabelColumn labels(args, columns);
  const DiceLoss& layer = *args.signature.layer.As<DiceLoss>();
  const DiceSets sets(args.signature, columns);
  const float* const logits = args.Get<float>(X(0));
  float* const y = args.Get<float>(Y());
  float* saved = args.Find<float>(Saved(0));
  double* const workspace = args.Workspace<double>();
  const int64_t classes = sets.classes;
  const auto entropy_weight = static_cast<double>(layer.cross_entropy);
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  double loss = 0;
  int64_t correct = 0;
  for (int64_t set = 0; set < sets.count; ++set) {
    std::fill_n(workspace, 3 * classes, 0.0);
    DiceSums sums = {workspace, workspace + classes, workspace + 2 * classes, 0};
    double entropy = 0;
    for (int64_t i = set * sets.positions; i < (set + 1) * sets.positions; ++i) {
      const int32_t label = labels[i];
      const ClassScore score =
          SoftmaxColumn(columns.Of(logits, i), classes, label, {}, columns.Of(y, i));
      const bool is_wrong = label != kNoLabel && (label < 0 || label >= classes);
      if (entropy_weight > 0 || is_wrong) entropy += is_wrong ? kNaN : entropy_weight * score.loss;
      correct += score.correct ? 1 : 0;
      const float* const probabilities = y;
      AddPosition(columns.Of(probabilities, i), classes, label, sums);
    }
    loss += CloseSet(sets, layer, sums, saved);
    if (sums.known > 0) loss += entropy / sums.known;
    if (saved != nullptr) saved += 2 * classes + 1;
  }
  StoreMetrics(args, loss * sets.share, correct);
}

void DiceBackward(const LoopArgs& args) {
  const Columns columns(args.signature.Spec(Y()));
  const LabelColumn labels(args, columns);
  const DiceSets sets(args.signature, columns);
  const float* const probabilities = args.Get<float>(Y());
  const float* saved = args.Get<float>(Saved(0));
  float* const gradients = args.Get<float>(Dx());
  const float factor = GradientFactor(args, args.signature.layer.As<DiceLoss>()->weight) *
                       static_cast<float>(sets.share);
  const auto counted = static_cast<float>(sets.counted_classes());
  const int64_t classes = sets.classes;
  for (int64_t i = 0; i < columns.count; ++i) {
    const float* const sums = saved + i / sets.positions * (2 * classes + 1);
    const Column<const float> y = columns.Of(probabilities, i);
    const Column<float> dx = columns.Of(gradients, i);
    const int32_t label = labels[i];
    const auto slope = [&](int64_t c) {
      return (sums[classes + c] - (c == label ? sums[c] : 0.0F)) / counted;
    };
    float mean = 0;
    for (int64_t c = 0; c < classes; ++c) mean += y[c] * slope(c);
    for (int64_t c = 0; c < classes; ++c) {
      const float entropy = sums[2 * classes] * (y[c] - (c == label ? 1.0F : 0.0F));
      const float gradient = (y[c] * (slope(c) - mean) + entropy) * factor;
      dx[c] = label == kNoLabel ? 0.0F : gradient;
    }
  }
}

}  // namespace

absl::StatusOr<Candidates> DiceSteps(const StepSignature& signature) {
  if (signature.phase != Phase::kForward) return OwnLoop(signature, DiceBackward);
  const int64_t classes = signature.Spec(X(0)).shape.c();
  return OwnLoop(signature, DiceForward, 3 * classes * static_cast<int64_t>(sizeof(double)));
}

}  // namespace neap::cpu
