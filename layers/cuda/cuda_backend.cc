#include "neap/layers/cuda/cuda_backend.h"

#include <functional>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/base/units.h"
#include "neap/layers/activation.h"
#include "neap/layers/attention/attention.h"
#include "neap/layers/batch_norm.h"
#include "neap/layers/catalog/kernel_axes.h"
#include "neap/layers/catalog/table_backend.h"
#include "neap/layers/channel_shuffle.h"
#include "neap/layers/channel_slice.h"
#include "neap/layers/channel_split.h"
#include "neap/layers/convolution.h"
#include "neap/layers/crop.h"
#include "neap/layers/cuda/candidates.h"
#include "neap/layers/cuda/device/cuda_status.h"
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
namespace cuda {
namespace {

struct TableEntry {
  RowLayer layer;
  CandidatesOf candidates;
  std::optional<Phase> phase = std::nullopt;  // nullopt: the function handles every phase
  CandidatesOf half = nullptr;                // lists those that add in fp16
};

constexpr TableEntry kTable[] = {
    {kAnyLayer, CheckGradientsCandidates, Phase::kCheckGradients},
    {kAnyLayer, UpdateCandidates, Phase::kUpdate},
    {kAnyLayer, UpdateScaleCandidates, Phase::kUpdateScale},
    {kAnyLayer, AddGradientsCandidates, Phase::kAddGradients},
    {kLayer<Convolution>, ConvolutionCandidates, std::nullopt, HalfConvolutionCandidates},
    {kLayer<FusedConvolution>, ConvolutionCandidates, std::nullopt, HalfConvolutionCandidates},
    {kLayer<TransposedConvolution>, ConvolutionCandidates, std::nullopt, HalfConvolutionCandidates},
    {kLayer<ResidualConvolution>, ConvolutionCandidates, std::nullopt, HalfConvolutionCandidates},
    {kLayer<FoldedConvolution>, FoldedConvolutionCandidates},
    {kLayer<FullyConnected>, FullyConnectedCandidates},
    {kLayer<BatchNorm>, NormPassCandidates},
    {kLayer<NormPass>, NormPassCandidates},
    {kLayer<GroupNorm>, GroupNormCandidates},
    {kLayer<InstanceNorm>, GroupNormCandidates},
    {kLayer<ActivatedGroupNorm>, GroupNormCandidates},
    {kLayer<LayerNorm>, LayerNormCandidates},
    {kLayer<BatchNormStatistics>, BatchNormStatisticsCandidates},
    {kLayer<BatchNormApply>, BatchNormApplyCandidates},
    {kLayer<ConcatBatchNorms>, ConcatBatchNormsCandidates},
    {kLayer<FusedRelu>, FusedReluCandidates},
    {kLayer<BiasedGelu>, BiasedGeluCandidates},
    {kLayer<ResidualTail>, ResidualTailCandidates},
    {kLayer<Relu>, ActivationCandidates},
    {kLayer<LeakyRelu>, ActivationCandidates},
    {kLayer<Prelu>, PreluCandidates},
    {kLayer<ScaleShift>, ScaleShiftCandidates},
    {kLayer<Embedding>, EmbeddingCandidates},
    {kLayer<PositionEmbedding>, PositionEmbeddingCandidates},
    {kLayer<PrependToken>, PrependTokenCandidates},
    {kLayer<Clip>, ActivationCandidates},
    {kLayer<Sigmoid>, ActivationCandidates},
    {kLayer<Tanh>, ActivationCandidates},
    {kLayer<HardSigmoid>, ActivationCandidates},
    {kLayer<HardSwish>, ActivationCandidates},
    {kLayer<Silu>, ActivationCandidates},
    {kLayer<Gelu>, ActivationCandidates},
    {kLayer<Elu>, ActivationCandidates},
    {kLayer<Softplus>, ActivationCandidates},
    {kLayer<Mish>, ActivationCandidates},
    {kLayer<Dropout>, DropoutCandidates},
    {kLayer<StochasticDepth>, DropoutCandidates},
    {kLayer<MaxPool>, MaxPoolCandidates},
    {kLayer<AveragePool>, AveragePoolCandidates},
    {kLayer<GlobalAveragePool>, GlobalAveragePoolCandidates},
    {kLayer<AdaptiveAveragePool>, ResampleCandidates},
    {kLayer<LocalResponseNorm>, LrnCandidates},
    {kLayer<Softmax>, SoftmaxAxisCandidates},
    {kLayer<SoftmaxCrossEntropy>, SoftmaxCandidates},
    {kLayer<LinearCrossEntropy>, LinearCrossEntropyCandidates},
    {kLayer<MeanSquaredError>, TargetLossCandidates},
    {kLayer<BinaryCrossEntropy>, TargetLossCandidates},
    {kLayer<FocalLoss>, TargetLossCandidates},
    {kLayer<DiceLoss>, DiceCandidates},
    {kLayer<Add>, AddCandidates},
    {kLayer<Multiply>, MultiplyCandidates},
    {kLayer<Attention>, AttentionCandidates},
    {kLayer<Concat>, ConcatCandidates},
    {kLayer<ChannelShuffle>, PermutationCandidates},
    {kLayer<PixelShuffle>, PermutationCandidates},
    {kLayer<PixelUnshuffle>, PermutationCandidates},
    {kLayer<Reshape>, PermutationCandidates},
    {kLayer<Permute>, PermutationCandidates},
    {kLayer<WindowPartition>, PermutationCandidates},
    {kLayer<WindowMerge>, PermutationCandidates},
    {kLayer<Roll>, PermutationCandidates},
    {kLayer<Tile>, TileCandidates},
    {kLayer<Resize>, ResampleCandidates},
    {kLayer<ChannelSlice>, ChannelSliceCandidates},
    {kLayer<ChannelSplit>, ChannelSplitCandidates},
    {kLayer<Crop>, CropCandidates},
    {kLayer<ZeroPad>, ZeroPadCandidates},
};

std::string LibraryVersions(const Runtime& runtime) {
  const size_t cudnn = runtime.cudnn->Version(), blas = runtime.cublas->get_version();
  return absl::StrCat("cuDNN ", cudnn / 10000, ".", cudnn / 100 % 100, ".", cudnn % 100,
                      ", cuBLASLt ", blas / 10000, ".", blas / 100 % 100, ".", blas % 100);
}

using List = std::function<absl::StatusOr<Candidates>(const StepSignature& signature)>;

List Checked(CandidatesOf candidates, const SharedRuntime& runtime) {
  return [candidates, runtime](const StepSignature& signature) -> absl::StatusOr<Candidates> {
    RETURN_IF_ERROR(
        CheckFp32(signature, {Slot::kParamGrad, Slot::kSaved, Slot::kState, Slot::kOptimizer,
                              Slot::kSecondMoment, Slot::kAverage, Slot::kMaster, Slot::kBackup}));
    return candidates(signature, runtime);
  };
}

// The candidates of `first`, which may have none if `second` has some, then those of `second`.
List Both(const List& first, const List& second) {
  return [first, second](const StepSignature& signature) -> absl::StatusOr<Candidates> {
    absl::StatusOr<Candidates> candidates = first(signature);
    if (!candidates.ok() && !absl::IsUnimplemented(candidates.status())) return candidates;
    ASSIGN_OR_RETURN(Candidates more, second(signature));
    if (more.empty()) return candidates;
    if (!candidates.ok()) return more;
    std::move(more.begin(), more.end(), std::back_inserter(*candidates));
    return candidates;
  };
}

// The table for listing engines; `runtime` need not have a GPU.
KernelTable Table(const SharedRuntime& runtime, const EngineOptions& options) {
  KernelTable table = {.device = "CUDA",
                       .versions = LibraryVersions(*runtime),
                       .adds_parts = true,
                       .view = WithKernelAxes};
  for (const TableEntry& entry : kTable) {
    KernelRow row = {entry.layer, entry.phase, Checked(entry.candidates, runtime)};
    if (entry.half != nullptr) {
      row.unlisted = Checked(entry.half, runtime);
      if (options.half_accumulation) row.list = Both(row.list, row.unlisted);
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

absl::StatusOr<uint32_t*> NewTickets(cudaStream_t stream) {
  constexpr size_t kBytes = kernels::kTickets * sizeof(uint32_t);
  void* tickets = nullptr;
  RETURN_IF_ERROR(CudaStatus(cudaMalloc(&tickets, kBytes), "cudaMalloc of tickets"));
  const cudaError_t error = cudaMemsetAsync(tickets, 0, kBytes, stream);
  if (error == cudaSuccess) return static_cast<uint32_t*>(tickets);
  cudaFree(tickets);
  return CudaStatus(error, "cudaMemsetAsync of tickets");
}

// The same table, for kernels that run.
KernelTable RunnableTable(const SharedRuntime& runtime, const EngineOptions& options) {
  KernelTable table = Table(runtime, options);
  table.stream = runtime->stream;
  table.enter = [device = runtime->device] {
    return CudaStatus(cudaSetDevice(device), "cudaSetDevice");
  };
  return table;
}

}  // namespace
}  // namespace cuda

absl::StatusOr<std::unique_ptr<Backend>> MakeCudaBackend(void* compute_stream,
                                                         std::vector<CustomKernel> custom,
                                                         const EngineOptions& options) {
  auto runtime = std::make_shared<cuda::Runtime>();
  runtime->stream = static_cast<cudaStream_t>(compute_stream);
  RETURN_IF_ERROR(CudaStatus(cudaGetDevice(&runtime->device), "cudaGetDevice"));
  ASSIGN_OR_RETURN(runtime->cublas, cuda::LoadCublas());
  RETURN_IF_ERROR(
      runtime->cublas->Checked("cublasLtCreate", runtime->cublas->create(&runtime->blas)));
  ASSIGN_OR_RETURN(runtime->tickets, cuda::NewTickets(runtime->stream));
  ASSIGN_OR_RETURN(runtime->cudnn, CudnnConvolutions::ForDevice(compute_stream, options.lists));
  ASSIGN_OR_RETURN(runtime->attention, CudnnAttention::ForDevice(compute_stream));
  return TableBackend::Create(cuda::RunnableTable(runtime, options), std::move(custom));
}

absl::StatusOr<std::unique_ptr<EngineCatalog>> MakeCudnnCatalog(
    std::string_view device_properties_json, std::vector<CustomKernel> custom,
    const EngineOptions& options) {
  auto runtime = std::make_shared<cuda::Runtime>();
  ASSIGN_OR_RETURN(runtime->cublas, cuda::LoadCublas());
  ASSIGN_OR_RETURN(runtime->cudnn,
                   CudnnConvolutions::ForDescribedDevice(device_properties_json, options.lists));
  ASSIGN_OR_RETURN(runtime->attention, CudnnAttention::ForDescribedDevice(device_properties_json));
  return TableBackend::Create(cuda::Table(runtime, options), std::move(custom));
}

absl::StatusOr<std::string> CudnnDeviceProperties(const DeviceDescription& device) {
  if (!device.gpu.has_value()) {
    return absl::FailedPreconditionError(
        absl::StrCat("the description of ", device.name, " has no properties of a GPU"));
  }
  const GpuProperties& gpu = *device.gpu;
  // Names and order are those of cuDNN 9.19 for an H200. What is not of `gpu` is the same for all
  // GPUs since Kepler, or does not matter to engines: the driver's version, and its device's place.
  const nlohmann::ordered_json json = {
      {"maxGridSize", {2147483647, 65535, 65535}},
      {"maxBlockSize", {1024, 1024, 64}},
      {"regsPerBlock", 65536},
      {"multiProcessorCount", gpu.multiprocessors},
      {"warpSize", 32},
      {"maxSharedMemoryPerBlock", 48 * kKiB},
      {"maxSharedMemoryPerBlockOptin", gpu.shared_memory_per_block_bytes},
      {"reservedSharedMemoryPerBlock", gpu.reserved_shared_memory_per_block_bytes},
      {"maxRegistersPerSM", 65536},
      {"maxCtasPerSM", gpu.blocks_per_multiprocessor},
      {"maxThreadsPerBlock", 1024},
      {"maxThreadsPerSM", gpu.threads_per_multiprocessor},
      {"pciDeviceId", 0},
      {"isTccDriver", 0},
      {"supportCoopLaunch", 1},
      {"totalGlobalMem", device.memory_bytes},
      {"smClockRateKHz", gpu.clock_khz},
      {"memClockRateKHz", gpu.memory_clock_khz},
      {"l2CacheSize", gpu.l2_cache_bytes},
      {"cudaDeviceId", 0},
      {"deviceVer", 10 * gpu.compute_capability},
      {"driverVer", 13000},
      {"deviceName", device.name},
      {"smCountOrigin", 0},
      {"oversizedSharedMemoryPerBlock", 0},
      {"memoryBusWidth", gpu.memory_bus_bits}};
  return json.dump(-1, ' ', /*ensure_ascii=*/false, nlohmann::json::error_handler_t::replace);
}

}  // namespace neap
