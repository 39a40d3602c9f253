#include "tests/layers/reference.h"

#include <algorithm>
#include <cmath>

#include "neap/core/base/philox.h"
#include "neap/layers/crop.h"
#include "neap/layers/dropout.h"
#include "neap/layers/fusion/folded_convolution.h"
#include "neap/layers/fusion/fused_relu.h"
#include "neap/layers/fusion/norm_pass.h"
#include "neap/layers/join.h"
#include "neap/layers/lrn.h"
#include "neap/layers/zero_pad.h"
#include "tests/layers/reference_activation.h"
#include "tests/layers/reference_attention.h"
#include "tests/layers/reference_batch_norm.h"
#include "tests/layers/reference_channels.h"
#include "tests/layers/reference_concat_batch_norms.h"
#include "tests/layers/reference_folded_convolution.h"
#include "tests/layers/reference_image_norms.h"
#include "tests/layers/reference_loss.h"
#include "tests/layers/reference_residual.h"
#include "tests/layers/reference_resize.h"
#include "tests/layers/reference_shapes.h"
#include "tests/layers/reference_sync_batch_norm.h"
#include "tests/layers/reference_tokens.h"
#include "tests/layers/reference_update.h"
#include "tests/layers/reference_window.h"

namespace neap::testing {
namespace {

using namespace operands;
using Vector = std::vector<double>;

// The number of what element `i` is dropped with: itself, a channel of an image, or an image.
int64_t DroppedUnitOf(const StepSignature& signature, const TensorSpec& tensor, int64_t i) {
  const auto* const dropout = signature.layer.As<Dropout>();
  if (dropout == nullptr) return i / (tensor.elements() / tensor.shape.n());
  return dropout->per_channel ? i / tensor.shape.positions() : MemoryIndex(tensor, i);
}

Values DropoutStep(const StepSignature& signature, const Values& given) {
  const bool forward = signature.phase == Phase::kForward;
  const Operand from = forward ? X() : Dy();
  Vector result = given.at(from);
  if (signature.mode == Mode::kTraining) {
    const auto* const depth = signature.layer.As<StochasticDepth>();
    const float probability =
        depth != nullptr ? depth->rate : signature.layer.As<Dropout>()->probability;
    const Vector& iteration = given.at(Iteration());
    for (size_t i = 0; i < result.size(); ++i) {
      const int64_t unit = DroppedUnitOf(signature, signature.Spec(from), static_cast<int64_t>(i));
      const bool keep = DropoutKeeps(static_cast<uint64_t>(iteration[2]), signature.layer_seed,
                                     static_cast<uint32_t>(iteration[1]),
                                     static_cast<uint64_t>(unit), probability);
      result[i] = keep ? result[i] / (1 - static_cast<double>(probability)) : 0;
    }
  }
  return {{forward ? Y() : Dx(), result}};
}

size_t ChannelAt(const Shape& shape, size_t i) {
  return static_cast<size_t>(static_cast<int64_t>(i) / (shape.positions()) % shape.c());
}

// relu(x + bias), before pooling.
Vector FusedReluUnpooled(const StepSignature& signature, const Values& given) {
  const Shape& shape = signature.Spec(X()).shape;
  Vector result = given.at(X());
  for (size_t i = 0; i < result.size(); ++i) {
    if (signature.Has(Param(0))) result[i] += given.at(Param(0))[ChannelAt(shape, i)];
    result[i] = std::max(0.0, result[i]);
  }
  return result;
}

Values FusedReluForward(const StepSignature& signature, const Values& given) {
  const FusedRelu& layer = *signature.layer.As<FusedRelu>();
  const Vector y = FusedReluUnpooled(signature, given);
  Pooled pooled = MaxPooled(layer.pool, signature.Spec(X()).shape, signature.Spec(Y()).shape, y);
  for (size_t i = 0; i < pooled.y.size(); ++i) {
    if (pooled.y[i] <= 0) pooled.index[i] = kNotPositive;
  }
  Values result = {{Y(), pooled.y}};
  if (signature.Has(Saved(0))) result[Saved(0)] = pooled.index;
  return result;
}

Values FusedReluStep(const StepSignature& signature, const Values& given) {
  if (signature.phase == Phase::kForward) return FusedReluForward(signature, given);
  const FusedRelu& layer = *signature.layer.As<FusedRelu>();
  const TensorSpec& spec = signature.Spec(Dx());
  const Shape& out = signature.Spec(Dy()).shape;
  const Vector dx = Rounded(
      spec, MaxPoolGradient(layer.pool, spec.shape, out, given.at(Dy()), given.at(Saved(0))));
  Values result = {{Dx(), dx}};
  if (!signature.Has(ParamGrad(0))) return result;
  Vector sums(static_cast<size_t>(spec.shape.c()));
  for (size_t i = 0; i < dx.size(); ++i) sums[ChannelAt(spec.shape, i)] += dx[i];
  result[ParamGrad(0)] = sums;
  return result;
}

// s_c of the LRN header, for element `i` of channel c; `step` is the stride of channels.
struct LrnAt {
  const LocalResponseNorm& layer;
  const Shape& shape;
  int64_t step = shape.positions();

  int64_t Channel(int64_t i) const { return i / step % shape.c(); }
  template <typename F>
  double SumNear(int64_t i, F f) const {
    double sum = 0;
    for (int64_t d = -(layer.size / 2); d <= layer.size / 2; ++d) {
      const int64_t c = Channel(i) + d;
      if (c >= 0 && c < shape.c()) sum += f(i + d * step);
    }
    return sum;
  }
  double Scale(const Vector& x, int64_t i) const {
    const double squares = SumNear(i, [&](int64_t j) {
      const double v = x[static_cast<size_t>(j)];
      return v * v;
    });
    return static_cast<double>(layer.k) +
           static_cast<double>(layer.alpha) / static_cast<double>(layer.size) * squares;
  }
};

Values Lrn(const StepSignature& signature, const Values& given) {
  const LocalResponseNorm& layer = *signature.layer.As<LocalResponseNorm>();
  const LrnAt at = {layer, signature.Spec(X()).shape};
  const Vector& x = given.at(X());
  const double beta = static_cast<double>(layer.beta);
  Vector scale(x.size());
  for (size_t i = 0; i < x.size(); ++i) scale[i] = at.Scale(x, static_cast<int64_t>(i));
  Vector result(x.size());
  if (signature.phase == Phase::kForward) {
    for (size_t i = 0; i < x.size(); ++i) result[i] = x[i] * std::pow(scale[i], -beta);
    return {{Y(), result}};
  }
  const Vector& dy = given.at(Dy());
  for (size_t i = 0; i < x.size(); ++i) {
    const double sum = at.SumNear(static_cast<int64_t>(i), [&](int64_t neighbour) {
      const size_t j = static_cast<size_t>(neighbour);
      return dy[j] * x[j] * std::pow(scale[j], -beta - 1);
    });
    result[i] = dy[i] * std::pow(scale[i], -beta) - 2 * static_cast<double>(layer.alpha) * beta /
                                                        static_cast<double>(layer.size) * x[i] *
                                                        sum;
  }
  return {{Dx(), result}};
}

// The position in {.., whole} of each element of {.., part}, which begins there at `offset`.
std::vector<size_t> PositionsInWhole(const Shape& whole, const Shape& part, const Extents& offset) {
  std::vector<size_t> positions;
  for (int64_t i = 0; i < part.elements(); ++i) {
    int64_t rest = i, position = 0, step = 1;
    for (int axis = part.rank() - 1; axis >= 2; --axis) {
      position += (rest % part[axis] + offset[axis - 2]) * step;
      rest /= part[axis];
      step *= whole[axis];
    }
    positions.push_back(static_cast<size_t>(rest * step + position));
  }
  return positions;
}

// Cuts the part at `offset` out of the step's input, or puts the input there in zeros.
Values RectangleStep(const StepSignature& signature, const Values& given, bool cuts,
                     const Extents& offset) {
  const bool forward = signature.phase == Phase::kForward;
  const Operand from = forward ? X() : Dy();
  const Operand to = forward ? Y() : Dx();
  const std::vector<size_t> inside = PositionsInWhole(
      signature.Spec(cuts ? from : to).shape, signature.Spec(cuts ? to : from).shape, offset);
  const Vector& input = given.at(from);
  Vector result(static_cast<size_t>(signature.Spec(to).elements()));
  for (size_t i = 0; i < inside.size(); ++i) {
    (cuts ? result[i] : result[inside[i]]) = input[cuts ? inside[i] : i];
  }
  return {{to, result}};
}

Values CropStep(const StepSignature& signature, const Values& given) {
  const bool forward = signature.phase == Phase::kForward;
  return RectangleStep(signature, given, forward, signature.layer.As<Crop>()->offset);
}

Values ZeroPadStep(const StepSignature& signature, const Values& given) {
  const bool forward = signature.phase == Phase::kForward;
  const ZeroPad& layer = *signature.layer.As<ZeroPad>();
  const std::vector<int64_t> before = {layer.front, layer.top, layer.left};
  const size_t axes = signature.Spec(forward ? X() : Dx()).shape.spatial().size();
  return RectangleStep(signature, given, !forward,
                       Extents::Of(absl::MakeConstSpan(before).last(axes)));
}

Values AddStep(const StepSignature& signature, const Values& given) {
  Values result;
  for (const OperandSpec& operand : signature.operands) {
    const Operand o = operand.operand;
    if (o.slot == Slot::kInput) {
      Vector& y = result.try_emplace(Y(), given.at(o).size()).first->second;
      const size_t of_each = y.size() / given.at(o).size();  // 1, or the positions
      for (size_t i = 0; i < y.size(); ++i) y[i] += given.at(o)[i / of_each];
    } else if (o.slot == Slot::kInputGrad) {
      const Vector& dy = given.at(Dy());
      Vector& dx = result[o];
      dx.resize(static_cast<size_t>(operand.tensor.elements()));
      const size_t of_each = dy.size() / dx.size();
      for (size_t i = 0; i < dy.size(); ++i) dx[i / of_each] += dy[i];
    }
  }
  return result;
}

Values MultiplyStep(const StepSignature& signature, const Values& given) {
  const Vector& a = given.at(X(0));
  const Vector& b = given.at(X(1));
  const size_t of_each = a.size() / b.size();  // elements of a, for one of b
  if (signature.phase == Phase::kForward) {
    Vector y(a.size());
    for (size_t i = 0; i < a.size(); ++i) y[i] = a[i] * b[i / of_each];
    return {{Y(), y}};
  }
  const Vector& dy = given.at(Dy());
  Vector da(a.size()), db(b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    da[i] = dy[i] * b[i / of_each];
    db[i / of_each] += dy[i] * a[i];
  }
  return {{Dx(0), da}, {Dx(1), db}};
}

Values ConcatStep(const StepSignature& signature, const Values& given) {
  const bool forward = signature.phase == Phase::kForward;
  const Slot slot = forward ? Slot::kInput : Slot::kInputGrad;
  const Shape& whole = signature.Spec(forward ? Y() : Dy()).shape;
  const size_t pixels = static_cast<size_t>(whole.positions());
  const size_t length = static_cast<size_t>(whole.c()) * pixels;
  Values result;
  if (forward) result[Y()].resize(static_cast<size_t>(whole.elements()));
  size_t begin = 0;
  for (int k = 0; signature.Has({slot, k}); ++k) {
    const size_t run = static_cast<size_t>(signature.Spec({slot, k}).shape.c()) * pixels;
    if (!forward) result[Dx(k)].resize(run * static_cast<size_t>(whole.n()));
    for (size_t i = 0; i < run * static_cast<size_t>(whole.n()); ++i) {
      const size_t at = i / run * length + begin + i % run;
      if (forward) {
        result[Y()][at] = given.at(X(k))[i];
      } else {
        result[Dx(k)][i] = given.at(Dy())[at];
      }
    }
    begin += run;
  }
  return result;
}

// Native accumulation: adds the given values to the result.
void AddGiven(const StepSignature& signature, const Values& given, Values& result) {
  for (auto& [operand, values] : result) {
    const bool is_gradient = operand.slot == Slot::kInputGrad || operand.slot == Slot::kParamGrad;
    if (!is_gradient || !signature.Accumulates(operand)) continue;
    for (size_t i = 0; i < values.size(); ++i) values[i] += given.at(operand)[i];
  }
}

}  // namespace

Values ReferenceStep(const StepSignature& signature, const Values& given) {
  struct Entry {
    std::string_view type;
    Values (*step)(const StepSignature&, const Values&);
  };
  constexpr Entry kTable[] = {{"convolution", ReferenceConvolution},
                              {"fused_convolution", ReferenceFusedConvolution},
                              {"folded_convolution", ReferenceFoldedConvolution},
                              {"fully_connected", ReferenceFullyConnected},
                              {"max_pool", ReferenceMaxPool},
                              {"average_pool", ReferenceAveragePool},
                              {"global_average_pool", ReferenceAveragePool},
                              {"adaptive_average_pool", ReferenceAdaptiveAveragePool},
                              {"resize", ReferenceResize},
                              {"pixel_shuffle", ReferencePixelShuffle},
                              {"pixel_unshuffle", ReferencePixelShuffle},
                              {"reshape", ReferenceShapes},
                              {"permute", ReferenceShapes},
                              {"window_partition", ReferenceShapes},
                              {"window_merge", ReferenceShapes},
                              {"roll", ReferenceShapes},
                              {"tile", ReferenceTile},
                              {"relu", ReferenceActivation},
                              {"leaky_relu", ReferenceActivation},
                              {"clip", ReferenceActivation},
                              {"sigmoid", ReferenceActivation},
                              {"tanh", ReferenceActivation},
                              {"hard_sigmoid", ReferenceActivation},
                              {"hard_swish", ReferenceActivation},
                              {"silu", ReferenceActivation},
                              {"gelu", ReferenceActivation},
                              {"elu", ReferenceActivation},
                              {"softplus", ReferenceActivation},
                              {"mish", ReferenceActivation},
                              {"fused_relu", FusedReluStep},
                              {"biased_gelu", ReferenceBiasedGelu},
                              {"residual_tail", ReferenceResidualTail},
                              {"residual_convolution", ReferenceResidualConvolution},
                              {"lrn", Lrn},
                              {"batch_norm", ReferenceBatchNorm},
                              {"norm_pass", ReferenceBatchNorm},
                              {"group_norm", ReferenceImageNorm},
                              {"instance_norm", ReferenceImageNorm},
                              {"layer_norm", ReferenceImageNorm},
                              {"activated_group_norm", ReferenceActivatedGroupNorm},
                              {"concat_batch_norms", ReferenceConcatBatchNorms},
                              {"batch_norm_statistics", ReferenceBatchNormStatistics},
                              {"batch_norm_apply", ReferenceBatchNormApply},
                              {"dropout", DropoutStep},
                              {"stochastic_depth", DropoutStep},
                              {"softmax", ReferenceSoftmax},
                              {"softmax_cross_entropy", ReferenceSoftmaxCrossEntropy},
                              {"linear_cross_entropy", ReferenceLinearCrossEntropy},
                              {"embedding", ReferenceEmbedding},
                              {"position_embedding", ReferencePositionEmbedding},
                              {"prepend_token", ReferencePrependToken},
                              {"mean_squared_error", ReferenceMeanSquaredError},
                              {"binary_cross_entropy", ReferenceBinaryCrossEntropy},
                              {"focal_loss", ReferenceFocalLoss},
                              {"dice_loss", ReferenceDiceLoss},
                              {"add", AddStep},
                              {"multiply", MultiplyStep},
                              {"attention", ReferenceAttention},
                              {"concat", ConcatStep},
                              {"crop", CropStep},
                              {"prelu", ReferencePrelu},
                              {"scale_shift", ReferenceScaleShift},
                              {"channel_shuffle", ReferenceChannelShuffle},
                              {"channel_slice", ReferenceChannelSlice},
                              {"channel_split", ReferenceChannelSplit},
                              {"zero_pad", ZeroPadStep},
                              {"transposed_convolution", ReferenceTransposedConvolution}};
  if (signature.phase == Phase::kUpdate) return ReferenceUpdate(signature, given);
  if (signature.phase == Phase::kAddGradients) {
    Values sum = {{Dx(), given.at(Addend())}};
    AddGiven(signature, given, sum);
    return sum;
  }
  for (const Entry& entry : kTable) {
    if (entry.type != signature.layer.type()) continue;
    Values result = entry.step(signature, given);
    AddGiven(signature, given, result);
    return result;
  }
  return {};
}

bool IsChoice(const StepSignature& signature, Operand operand) {
  const bool fused = signature.layer.As<NormPass>() != nullptr ||
                     signature.layer.As<FusedRelu>() != nullptr ||
                     signature.layer.As<FoldedConvolution>() != nullptr;
  return fused && operand.slot == Slot::kSaved && signature.Spec(operand).dtype == DType::kUInt8;
}

std::string ChoiceFailure(const StepSignature& signature, const Values& given, const Values& got,
                          double tolerance) {
  if (signature.layer.As<FoldedConvolution>() != nullptr)
    return FoldedConvolutionChoiceFailure(signature, got);
  const FusedRelu* const relu = signature.layer.As<FusedRelu>();
  if (relu == nullptr) return BatchNormChoiceFailure(signature, given, got, tolerance);
  return MaximumFailure(relu->pool, signature.Spec(X()).shape, signature.Spec(Y()).shape,
                        FusedReluUnpooled(signature, given), {got.at(Y()), got.at(Saved(0))},
                        tolerance);
}

}  // namespace neap::testing
