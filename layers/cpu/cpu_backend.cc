#include "neap/layers/cpu/cpu_backend.h"

#include <oneapi/dnnl/dnnl.h>

#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "neap/layers/activation.h"
#include "neap/layers/batch_norm.h"
#include "neap/layers/catalog/table_backend.h"
#include "neap/layers/convolution.h"
#include "neap/layers/cpu/candidates.h"
#include "neap/layers/crop.h"
#include "neap/layers/dropout.h"
#include "neap/layers/fully_connected.h"
#include "neap/layers/join.h"
#include "neap/layers/lrn.h"
#include "neap/layers/pooling.h"
#include "neap/layers/softmax_cross_entropy.h"
#include "neap/layers/transposed_convolution.h"

namespace neap {
namespace {

std::vector<KernelRow> Rows() {
  return {
      {kAnyLayer, Phase::kUpdate, cpu::SgdUpdate},
      {kAnyLayer, Phase::kAddGradients, cpu::AddGradients},
      {Convolution::kType, Phase::kForward, cpu::ConvolutionForward},
      {Convolution::kType, Phase::kBackwardData, cpu::ConvolutionBackwardData},
      {Convolution::kType, Phase::kBackwardParams, cpu::ConvolutionBackwardParams},
      {TransposedConvolution::kType, Phase::kForward, cpu::TransposedConvolutionForward},
      {TransposedConvolution::kType, Phase::kBackwardData, cpu::TransposedConvolutionBackwardData},
      {TransposedConvolution::kType, Phase::kBackwardParams,
       cpu::TransposedConvolutionBackwardParams},
      {FullyConnected::kType, Phase::kForward, cpu::FullyConnectedForward},
      {FullyConnected::kType, Phase::kBackwardData, cpu::FullyConnectedBackwardData},
      {FullyConnected::kType, Phase::kBackwardParams, cpu::FullyConnectedBackwardParams},
      {AveragePool::kType, Phase::kForward, cpu::AveragePoolForward},
      {AveragePool::kType, Phase::kBackwardData, cpu::AveragePoolBackward},
      {GlobalAveragePool::kType, Phase::kForward, cpu::AveragePoolForward},
      {GlobalAveragePool::kType, Phase::kBackwardData, cpu::AveragePoolBackward},
      {MaxPool::kType, Phase::kForward, cpu::MaxPoolForward},
      {MaxPool::kType, Phase::kBackwardData, cpu::MaxPoolBackward},
      {Relu::kType, Phase::kForward, cpu::ActivationForward},
      {Relu::kType, Phase::kBackwardData, cpu::ActivationBackward},
      {Sigmoid::kType, Phase::kForward, cpu::ActivationForward},
      {Sigmoid::kType, Phase::kBackwardData, cpu::ActivationBackward},
      {Tanh::kType, Phase::kForward, cpu::ActivationForward},
      {Tanh::kType, Phase::kBackwardData, cpu::ActivationBackward},
      {LocalResponseNorm::kType, Phase::kForward, cpu::LrnForward},
      {LocalResponseNorm::kType, Phase::kBackwardData, cpu::LrnBackward},
      {BatchNorm::kType, Phase::kForward, cpu::BatchNormForward},
      {BatchNorm::kType, Phase::kBackwardData, cpu::BatchNormBackward},
      {Dropout::kType, Phase::kForward, cpu::DropoutForward},
      {Dropout::kType, Phase::kBackwardData, cpu::DropoutBackward},
      {SoftmaxCrossEntropy::kType, Phase::kForward, cpu::SoftmaxForward},
      {SoftmaxCrossEntropy::kType, Phase::kBackwardData, cpu::SoftmaxBackward},
      {Add::kType, Phase::kForward, cpu::AddForward},
      {Add::kType, Phase::kBackwardData, cpu::AddBackward},
      {Concat::kType, Phase::kForward, cpu::ConcatForward},
      {Concat::kType, Phase::kBackwardData, cpu::ConcatBackward},
      {Crop::kType, Phase::kForward, cpu::CropForward},
      {Crop::kType, Phase::kBackwardData, cpu::CropBackward},
  };
}

std::string LibraryVersions() {
  const dnnl_version_t* const version = dnnl_version();
  return absl::StrCat("oneDNN ", version->major, ".", version->minor, ".", version->patch, ", ",
                      std::thread::hardware_concurrency(), " threads");
}

KernelTable Table() { return {.device = "the CPU", .versions = LibraryVersions(), .rows = Rows()}; }

}  // namespace

std::unique_ptr<Backend> MakeCpuBackend() { return std::make_unique<TableBackend>(Table()); }

absl::StatusOr<std::unique_ptr<Backend>> MakeCpuBackend(std::vector<CustomKernel> custom) {
  return TableBackend::Create(Table(), std::move(custom));
}

}  // namespace neap
