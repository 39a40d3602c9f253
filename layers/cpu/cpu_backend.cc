#include "neap/layers/cpu/cpu_backend.h"

#include <oneapi/dnnl/dnnl.h>

#include <optional>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "neap/layers/activation.h"
#include "neap/layers/attention/attention.h"
#include "neap/layers/batch_norm.h"
#include "neap/layers/catalog/kernel_axes.h"
#include "neap/layers/catalog/table_backend.h"
#include "neap/layers/channel_shuffle.h"
#include "neap/layers/channel_slice.h"
#include "neap/layers/channel_split.h"
#include "neap/layers/convolution.h"
#include "neap/layers/cpu/addend.h"
#include "neap/layers/cpu/candidates.h"
#include "neap/layers/cpu/converted.h"
#include "neap/layers/crop.h"
#include "neap/layers/dropout.h"
#include "neap/layers/fully_connected.h"
#include "neap/layers/fusion/activated_group_norm.h"
#include "neap/layers/fusion/biased_gelu.h"
#include "neap/layers/fusion/concat_batch_norms.h"
#include "neap/layers/fusion/folded_convolution.h"
#include "neap/layers/fusion/fused_convolution.h"
#include "neap/layers/fusion/fused_relu.h"
#include "neap/layers/fusion/norm_pass.h"
#include "neap/layers/fusion/residual_convolution.h"
#include "neap/layers/fusion/residual_tail.h"
#include "neap/layers/fusion/sync_batch_norm.h"
#include "neap/layers/join.h"
#include "neap/layers/loss/dice_loss.h"
#include "neap/layers/lrn.h"
#include "neap/layers/multiply.h"
#include "neap/layers/norm/group_norm.h"
#include "neap/layers/norm/layer_norm.h"
#include "neap/layers/norm/softmax.h"
#include "neap/layers/pooling.h"
#include "neap/layers/prelu.h"
#include "neap/layers/resize/pixel_shuffle.h"
#include "neap/layers/resize/resize.h"
#include "neap/layers/scale_shift.h"
#include "neap/layers/shape/permute.h"
#include "neap/layers/shape/reshape.h"
#include "neap/layers/shape/roll.h"
#include "neap/layers/shape/tile.h"
#include "neap/layers/shape/windows.h"
#include "neap/layers/softmax_cross_entropy.h"
#include "neap/layers/target_loss.h"
#include "neap/layers/tokens/embedding.h"
#include "neap/layers/tokens/linear_cross_entropy.h"
#include "neap/layers/tokens/position_embedding.h"
#include "neap/layers/tokens/prepend_token.h"
#include "neap/layers/transposed_convolution.h"
#include "neap/layers/zero_pad.h"

namespace neap {
namespace {

std::vector<KernelRow> Rows() {
  return {
      {kAnyLayer, Phase::kCheckGradients, cpu::CheckGradients},
      {kAnyLayer, Phase::kUpdate, cpu::UpdateParams},
      {kAnyLayer, Phase::kUpdateScale, cpu::UpdateLossScale},
      {kAnyLayer, Phase::kAddGradients, cpu::AddGradients},
      {kLayer<TransposedConvolution>, Phase::kForward, cpu::TransposedConvolutionForward},
      {kLayer<TransposedConvolution>, Phase::kBackwardData, cpu::TransposedConvolutionBackwardData},
      {kLayer<TransposedConvolution>, Phase::kBackwardParams,
       cpu::TransposedConvolutionBackwardParams},
      {kLayer<AveragePool>, Phase::kForward, cpu::AveragePoolForward},
      {kLayer<AveragePool>, Phase::kBackwardData, cpu::AveragePoolBackward},
      {kLayer<GlobalAveragePool>, Phase::kForward, cpu::GlobalAveragePoolForward},
      {kLayer<GlobalAveragePool>, Phase::kBackwardData, cpu::GlobalAveragePoolBackward},
      {kLayer<MaxPool>, Phase::kForward, cpu::MaxPoolForward},
      {kLayer<MaxPool>, Phase::kBackwardData, cpu::MaxPoolBackward},
      {kLayer<Relu>, std::nullopt, cpu::ActivationSteps},
      {kLayer<LeakyRelu>, std::nullopt, cpu::ActivationSteps},
      {kLayer<Sigmoid>, std::nullopt, cpu::SigmoidSteps},
      {kLayer<Tanh>, std::nullopt, cpu::TanhSteps},
      {kLayer<HardSigmoid>, std::nullopt, cpu::ActivationSteps},
      {kLayer<HardSwish>, std::nullopt, cpu::ActivationSteps},
      {kLayer<Silu>, std::nullopt, cpu::ActivationSteps},
      {kLayer<Gelu>, std::nullopt, cpu::ActivationSteps},
      {kLayer<Elu>, std::nullopt, cpu::ActivationSteps},
      {kLayer<Softplus>, std::nullopt, cpu::ActivationSteps},
      {kLayer<Mish>, std::nullopt, cpu::ActivationSteps},
      {kLayer<Prelu>, std::nullopt, cpu::PreluSteps},
      {kLayer<PositionEmbedding>, std::nullopt, cpu::PositionEmbeddingSteps},
      {kLayer<PrependToken>, std::nullopt, cpu::PrependTokenSteps},
      {kLayer<ScaleShift>, std::nullopt, cpu::ScaleShiftSteps},
      {kLayer<LocalResponseNorm>, Phase::kForward, cpu::LrnForward},
      {kLayer<LocalResponseNorm>, Phase::kBackwardData, cpu::LrnBackward},
      {kLayer<Dropout>, std::nullopt, cpu::DropoutSteps},
      {kLayer<StochasticDepth>, std::nullopt, cpu::DropoutSteps},
      {kLayer<Softmax>, std::nullopt, cpu::SoftmaxAxisSteps},
      {kLayer<SoftmaxCrossEntropy>, Phase::kForward, cpu::SoftmaxForward},
      {kLayer<SoftmaxCrossEntropy>, Phase::kBackwardData, cpu::SoftmaxBackward},
      {kLayer<MeanSquaredError>, std::nullopt, cpu::MeanSquaredErrorSteps},
      {kLayer<BinaryCrossEntropy>, std::nullopt, cpu::BinaryCrossEntropySteps},
      {kLayer<FocalLoss>, std::nullopt, cpu::FocalLossSteps},
      {kLayer<DiceLoss>, std::nullopt, cpu::DiceSteps},
      {kLayer<GroupNorm>, std::nullopt, cpu::ImageNormSteps},
      {kLayer<InstanceNorm>, std::nullopt, cpu::ImageNormSteps},
      {kLayer<BatchNormStatistics>, Phase::kForward, cpu::BatchNormStatisticsForward},
      {kLayer<BatchNormStatistics>, Phase::kBackwardData, cpu::BatchNormStatisticsBackward},
      {kLayer<BatchNormApply>, Phase::kForward, cpu::BatchNormApplyForward},
      {kLayer<BatchNormApply>, Phase::kBackwardData, cpu::BatchNormApplyBackward},
      {kLayer<Add>, Phase::kForward, cpu::AddForward},
      {kLayer<Add>, Phase::kBackwardData, cpu::AddBackward},
      {kLayer<Multiply>, Phase::kForward, cpu::MultiplyForward},
      {kLayer<Multiply>, Phase::kBackwardData, cpu::MultiplyBackward},
      {kLayer<Attention>, std::nullopt, cpu::AttentionSteps},
      {kLayer<Concat>, Phase::kForward, cpu::ConcatForward},
      {kLayer<Concat>, Phase::kBackwardData, cpu::ConcatBackward},
      {kLayer<Crop>, Phase::kForward, cpu::CropForward},
      {kLayer<Crop>, Phase::kBackwardData, cpu::CropBackward},
      {kLayer<ChannelShuffle>, std::nullopt, cpu::PermutationSteps},
      {kLayer<PixelShuffle>, std::nullopt, cpu::PermutationSteps},
      {kLayer<PixelUnshuffle>, std::nullopt, cpu::PermutationSteps},
      {kLayer<Reshape>, std::nullopt, cpu::PermutationSteps},
      {kLayer<Permute>, std::nullopt, cpu::PermutationSteps},
      {kLayer<WindowPartition>, std::nullopt, cpu::PermutationSteps},
      {kLayer<WindowMerge>, std::nullopt, cpu::PermutationSteps},
      {kLayer<Roll>, std::nullopt, cpu::PermutationSteps},
      {kLayer<Tile>, std::nullopt, cpu::TileSteps},
      {kLayer<Resize>, std::nullopt, cpu::ResampleSteps},
      {kLayer<AdaptiveAveragePool>, std::nullopt, cpu::ResampleSteps},
      {kLayer<ChannelSlice>, Phase::kForward, cpu::ChannelSliceForward},
      {kLayer<ChannelSlice>, Phase::kBackwardData, cpu::ChannelSliceBackward},
      {kLayer<ChannelSplit>, std::nullopt, cpu::ChannelSplitSteps},
      {kLayer<ZeroPad>, Phase::kForward, cpu::ZeroPadForward},
      {kLayer<ZeroPad>, Phase::kBackwardData, cpu::ZeroPadBackward},
  };
}

// Kernels that need to know the type of the tensors: they do the work of several layers, and round
// the results between them, or they round a layer's bounds or its logits.
std::vector<KernelRow> RoundingRows() {
  return {
      {kLayer<Clip>, std::nullopt, cpu::ActivationSteps},
      {kLayer<LinearCrossEntropy>, std::nullopt, cpu::LinearCrossEntropySteps},
      {kLayer<BatchNorm>, Phase::kForward, cpu::NormPassForward},
      {kLayer<BatchNorm>, Phase::kBackwardData, cpu::NormPassBackward},
      {kLayer<NormPass>, Phase::kForward, cpu::NormPassForward},
      {kLayer<NormPass>, Phase::kBackwardData, cpu::NormPassBackward},
      {kLayer<ActivatedGroupNorm>, std::nullopt, cpu::ImageNormSteps},
      {kLayer<LayerNorm>, std::nullopt, cpu::ImageNormSteps},
      {kLayer<FusedConvolution>, Phase::kBackwardActivation,
       cpu::FusedConvolutionBackwardActivation},
      {kLayer<FoldedConvolution>, Phase::kForward, cpu::FoldedConvolutionForward},
      {kLayer<FoldedConvolution>, Phase::kBackwardActivation,
       cpu::FoldedConvolutionBackwardActivation},
      {kLayer<FoldedConvolution>, Phase::kBackwardParams, cpu::FoldedConvolutionBackwardParams},
      {kLayer<FoldedConvolution>, Phase::kBackwardData, cpu::FoldedConvolutionBackwardData},
      {kLayer<ConcatBatchNorms>, Phase::kForward, cpu::ConcatBatchNormsForward},
      {kLayer<ConcatBatchNorms>, Phase::kBackwardData, cpu::ConcatBatchNormsBackward},
      {kLayer<BiasedGelu>, std::nullopt, cpu::BiasedGeluSteps},
      {kLayer<ResidualTail>, std::nullopt, cpu::ResidualTailSteps},
      {kLayer<FusedRelu>, Phase::kForward, cpu::FusedReluForward},
      {kLayer<FusedRelu>, Phase::kBackwardData, cpu::FusedReluBackward},
  };
}

// Kernels for tensors of all types, without copies.
std::vector<KernelRow> AnyTypeRows() {
  return {{kLayer<Embedding>, std::nullopt, cpu::EmbeddingSteps},
          {kLayer<ResidualConvolution>, Phase::kForward, cpu::ResidualConvolutionForward}};
}

// Kernels that are oneDNN's alone.
std::vector<KernelRow> OnednnRows() {
  return {
      {kLayer<Convolution>, Phase::kForward, cpu::ConvolutionForward},
      {kLayer<Convolution>, Phase::kBackwardData, cpu::ConvolutionBackwardData},
      {kLayer<Convolution>, Phase::kBackwardParams, cpu::ConvolutionBackwardParams},
      {kLayer<FusedConvolution>, Phase::kForward, cpu::FusedConvolutionForward},
      {kLayer<FusedConvolution>, Phase::kBackwardData, cpu::FusedConvolutionBackwardData},
      {kLayer<FusedConvolution>, Phase::kBackwardParams, cpu::FusedConvolutionBackwardParams},
      {kLayer<ResidualConvolution>, Phase::kBackwardData, cpu::ResidualConvolutionBackwardData},
      {kLayer<ResidualConvolution>, Phase::kBackwardParams, cpu::ResidualConvolutionBackwardParams},
      {kLayer<FullyConnected>, Phase::kForward, cpu::FullyConnectedForward},
      {kLayer<FullyConnected>, Phase::kBackwardData, cpu::FullyConnectedBackwardData},
      {kLayer<FullyConnected>, Phase::kBackwardParams, cpu::FullyConnectedBackwardParams},
  };
}

std::string LibraryVersions() {
  const dnnl_version_t* const version = dnnl_version();
  return absl::StrCat("oneDNN ", version->major, ".", version->minor, ".", version->patch, ", ",
                      std::thread::hardware_concurrency(), " threads");
}

KernelTable Table() {
  KernelTable table = {
      .device = "the CPU", .versions = LibraryVersions(), .rows = {}, .view = WithKernelAxes};
  const auto add = [&](std::vector<KernelRow> rows, auto convert) {
    for (KernelRow& row : rows) {
      if (row.phase != Phase::kAddGradients) row.list = convert(std::move(row.list));
      table.rows.push_back(std::move(row));
    }
  };
  add(Rows(), cpu::Converted);
  add(RoundingRows(), cpu::ConvertedAndRounded);
  add(AnyTypeRows(), [](cpu::ListCandidates list) { return list; });
  add(OnednnRows(), [](cpu::ListCandidates list) {
    return cpu::WithAddend(cpu::ConvertedOrBf16(std::move(list)));
  });
  return table;
}

}  // namespace

std::unique_ptr<Backend> MakeCpuBackend() { return std::make_unique<TableBackend>(Table()); }

absl::StatusOr<std::unique_ptr<Backend>> MakeCpuBackend(std::vector<CustomKernel> custom) {
  return TableBackend::Create(Table(), std::move(custom));
}

}  // namespace neap
