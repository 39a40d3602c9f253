#include "neap/layers/cpu/cpu_backend.h"

#include <oneapi/dnnl/dnnl.h>

#include <thread>

#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"
#include "neap/layers/activation.h"
#include "neap/layers/batch_norm.h"
#include "neap/layers/catalog/engine_cache.h"
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

struct TableEntry {
  std::string_view type;
  Phase phase;
  cpu::CandidatesOf candidates;
};

constexpr TableEntry kTable[] = {
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

std::string StepText(const StepSignature& signature) {
  return absl::StrCat(std::string(signature.layer.type()), " ", std::string(Name(signature.phase)));
}

absl::Status CheckAccess(const StepSignature& signature) {
  for (const OperandSpec& operand : signature.operands) {
    if (operand.access != Access::kAccumulate) continue;
    if (signature.CanAccumulate(operand.operand.slot)) continue;
    return absl::UnimplementedError(absl::StrCat("the CPU has no kernel for ", StepText(signature),
                                                 " that accumulates ", ToString(operand.operand)));
  }
  return absl::OkStatus();
}

absl::Status CheckDTypes(const StepSignature& signature) {
  for (const OperandSpec& operand : signature.operands) {
    const DType dtype = operand.tensor.dtype;
    if (dtype != DType::kFp16 && dtype != DType::kBf16) continue;
    return absl::UnimplementedError(absl::StrCat("the CPU has no kernel for ", StepText(signature),
                                                 " with ", std::string(Name(dtype)), " tensors"));
  }
  return absl::OkStatus();
}

absl::StatusOr<cpu::Candidates> CandidatesFor(const StepSignature& signature) {
  RETURN_IF_ERROR(CheckDTypes(signature));
  RETURN_IF_ERROR(CheckAccess(signature));
  if (signature.phase == Phase::kUpdate) return cpu::SgdUpdate(signature);
  if (signature.phase == Phase::kAddGradients) return cpu::AddGradients(signature);
  for (const TableEntry& entry : kTable) {
    if (entry.type == signature.layer.type() && entry.phase == signature.phase) {
      return entry.candidates(signature);
    }
  }
  return absl::UnimplementedError(absl::StrCat("the CPU has no kernel for ", StepText(signature)));
}

absl::StatusOr<std::vector<Engine>> EnginesOf(const StepSignature& signature) {
  ASSIGN_OR_RETURN(const cpu::Candidates candidates, CandidatesFor(signature));
  std::vector<Engine> engines;
  for (const cpu::Candidate& candidate : candidates) engines.push_back(candidate.engine);
  return engines;
}

class CpuBackend final : public Backend {
 public:
  absl::StatusOr<std::vector<Engine>> Engines(const StepSignature& signature) override {
    return engines_.Get(signature, EnginesOf);
  }
  std::string Versions() const override {
    const dnnl_version_t* const version = dnnl_version();
    return absl::StrCat("oneDNN ", version->major, ".", version->minor, ".", version->patch, ", ",
                        std::thread::hardware_concurrency(), " threads");
  }

  absl::StatusOr<std::unique_ptr<Kernel>> MakeKernel(const StepSignature& signature,
                                                     std::string_view engine) override {
    ASSIGN_OR_RETURN(const cpu::Candidates candidates, CandidatesFor(signature));
    for (const cpu::Candidate& candidate : candidates) {
      if (candidate.engine.id != engine) continue;
      absl::StatusOr<std::unique_ptr<Kernel>> kernel = candidate.make();
      if (!kernel.ok()) return engines_.Withdraw(signature, engine, kernel.status());
      return kernel;
    }
    return absl::NotFoundError(absl::StrCat("the CPU has no engine '", std::string(engine),
                                            "' for ", StepText(signature)));
  }

 private:
  EngineCache engines_;
};

}  // namespace

std::unique_ptr<Backend> MakeCpuBackend() { return std::make_unique<CpuBackend>(); }

}  // namespace neap
