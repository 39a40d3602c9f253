// What the kernels of every backend must do, on a GPU: values at corners, fused layers with the
// bits of separate ones, labels that are none, sub-batches, and the steps of the optimizer.
#include <doctest/doctest.h>

#include <cmath>
#include <memory>
#include <vector>

#include "neap/layers/softmax_cross_entropy.h"
#include "tests/gpu_test.h"
#include "tests/layers/activation_checks.h"
#include "tests/layers/addend_checks.h"
#include "tests/layers/cuda/device_arena.h"
#include "tests/layers/fusion/activated_group_norm_checks.h"
#include "tests/layers/fusion/biased_gelu_checks.h"
#include "tests/layers/fusion/residual_tail_checks.h"
#include "tests/layers/fusion_checks.h"
#include "tests/layers/image_norm_checks.h"
#include "tests/layers/loss_checks.h"
#include "tests/layers/sub_batch_checks.h"
#include "tests/layers/token_checks.h"
#include "tests/layers/update_checks.h"

namespace neap::testing {
namespace {

using namespace operands;

TEST_CASE("activations have PyTorch's values and gradients at their corners on a GPU") {
  const std::unique_ptr<CudaDevice> gpu = OpenGpuOrSkip();
  if (!gpu) return;
  DeviceArena arena(*gpu);
  for (const DType dtype : {DType::kFp32, DType::kFp16, DType::kBf16})
    CheckActivationCorners(gpu->backend(), arena.Access(), dtype);
}

TEST_CASE("activations of all numbers of 16 bits are rounded from accurate values on a GPU") {
  const std::unique_ptr<CudaDevice> gpu = OpenGpuOrSkip();
  if (!gpu) return;
  DeviceArena arena(*gpu);
  for (const DType dtype : {DType::kFp16, DType::kBf16})
    CheckActivationAccuracy(gpu->backend(), arena.Access(), dtype);
}

TEST_CASE("a batch norm of parts has the bits of a concatenation and a batch norm on a GPU") {
  const std::unique_ptr<CudaDevice> gpu = OpenGpuOrSkip();
  if (!gpu) return;
  DeviceArena arena(*gpu);
  for (const DType dtype : {DType::kFp32, DType::kFp16, DType::kBf16})
    CheckBatchNormOfParts(gpu->backend(), arena.Access(), dtype);
}

TEST_CASE("a concatenation of batch norms has the bits of separate layers on a GPU") {
  const std::unique_ptr<CudaDevice> gpu = OpenGpuOrSkip();
  if (!gpu) return;
  DeviceArena arena(*gpu);
  for (const DType dtype : {DType::kFp32, DType::kFp16, DType::kBf16})
    CheckConcatBatchNorms(gpu->backend(), arena.Access(), dtype);
}

TEST_CASE("a convolution and a kernel for its ReLU have the bits of separate layers on a GPU") {
  const std::unique_ptr<CudaDevice> gpu = OpenGpuOrSkip();
  if (!gpu) return;
  DeviceArena arena(*gpu);
  for (const DType dtype : {DType::kFp32, DType::kTf32, DType::kFp16, DType::kBf16})
    CheckConvolutionWithRelu(gpu->backend(), arena.Access(), dtype);
}

TEST_CASE("an averaged batch norm has the bits of a batch norm and a global pooling on a GPU") {
  const std::unique_ptr<CudaDevice> gpu = OpenGpuOrSkip();
  if (!gpu) return;
  DeviceArena arena(*gpu);
  for (const DType dtype : {DType::kFp32, DType::kFp16, DType::kBf16})
    CheckAveragedBatchNorm(gpu->backend(), arena.Access(), dtype);
}

TEST_CASE("a batch norm with an activation has the bits of both layers on a GPU") {
  const std::unique_ptr<CudaDevice> gpu = OpenGpuOrSkip();
  if (!gpu) return;
  DeviceArena arena(*gpu);
  for (const DType dtype : {DType::kFp32, DType::kFp16, DType::kBf16})
    CheckActivatedNorm(gpu->backend(), arena.Access(), dtype);
}

TEST_CASE("a group norm with an activation has the bits of both layers on a GPU") {
  const std::unique_ptr<CudaDevice> gpu = OpenGpuOrSkip();
  if (!gpu) return;
  DeviceArena arena(*gpu);
  for (const DType dtype : {DType::kFp32, DType::kFp16, DType::kBf16})
    CheckActivatedGroupNorm(gpu->backend(), arena.Access(), dtype);
}

TEST_CASE("a GELU with the bias before it has the bits of both layers on a GPU") {
  const std::unique_ptr<CudaDevice> gpu = OpenGpuOrSkip();
  if (!gpu) return;
  DeviceArena arena(*gpu);
  for (const DType dtype : {DType::kFp32, DType::kFp16, DType::kBf16})
    CheckBiasedGelu(gpu->backend(), arena.Access(), dtype);
}

TEST_CASE("the end of a residual branch has the bits of its layers and the sum on a GPU") {
  const std::unique_ptr<CudaDevice> gpu = OpenGpuOrSkip();
  if (!gpu) return;
  DeviceArena arena(*gpu);
  for (const DType dtype : {DType::kFp32, DType::kFp16, DType::kBf16})
    CheckResidualTail(gpu->backend(), arena.Access(), dtype);
}

TEST_CASE("a label outside the classes makes the loss NaN on the GPU too") {
  const std::unique_ptr<CudaDevice> gpu = OpenGpuOrSkip();
  if (!gpu) return;
  DeviceArena arena(*gpu);
  CheckLabelsOutsideClasses(gpu->backend(), arena.Access());
}

TEST_CASE("an image without a label adds nothing to the loss on the GPU either") {
  const std::unique_ptr<CudaDevice> gpu = OpenGpuOrSkip();
  if (!gpu) return;
  DeviceArena arena(*gpu);
  CheckImagesWithoutLabels(gpu->backend(), arena.Access());
  CheckElementsWithoutTargets(gpu->backend(), arena.Access());
  CheckCertainFocalLoss(gpu->backend(), arena.Access());
  CheckDiceOfKnownLabels(gpu->backend(), arena.Access());
}

TEST_CASE("on the GPU too, sub-batches compute together what the whole batch does") {
  const std::unique_ptr<CudaDevice> gpu = OpenGpuOrSkip();
  if (!gpu) return;
  DeviceArena arena(*gpu);
  for (const DType dtype : {DType::kFp32, DType::kBf16}) {
    CheckDropoutInSubBatches(gpu->backend(), arena.Access(), dtype);
    CheckResidualTailInSubBatches(gpu->backend(), arena.Access(), dtype);
    CheckFullyConnectedInSubBatches(gpu->backend(), arena.Access(), dtype);
    CheckNormsInSubBatches(gpu->backend(), arena.Access(), dtype);
    CheckAttentionInSubBatches(gpu->backend(), arena.Access(), dtype);
  }
  CheckLossInSubBatches(gpu->backend(), arena.Access());
}

TEST_CASE("on the GPU too, ids that do not exist have no gradient, and parts of a loss add up") {
  const std::unique_ptr<CudaDevice> gpu = OpenGpuOrSkip();
  if (!gpu) return;
  DeviceArena arena(*gpu);
  CheckIdsWithoutGradients(gpu->backend(), arena.Access());
  for (const DType dtype : {DType::kFp32, DType::kBf16})
    CheckTokenLossInParts(gpu->backend(), arena.Access(), dtype);
}

TEST_CASE("norms of each image are accurate far from zero, and NaN stays in its set, on a GPU") {
  const std::unique_ptr<CudaDevice> gpu = OpenGpuOrSkip();
  if (!gpu) return;
  DeviceArena arena(*gpu);
  CheckImageNormsFarFromZero(gpu->backend(), arena.Access());
  CheckImageNormsOfNan(gpu->backend(), arena.Access());
}

TEST_CASE("on the GPU too, layers add what others have contributed to a gradient") {
  const std::unique_ptr<CudaDevice> gpu = OpenGpuOrSkip();
  if (!gpu) return;
  DeviceArena arena(*gpu);
  for (const DType dtype : {DType::kFp32, DType::kFp16, DType::kBf16})
    CheckAddends(gpu->backend(), arena.Access(), dtype);
}

TEST_CASE("on the GPU too, the optimizer's steps take the tensors of many layers") {
  const std::unique_ptr<CudaDevice> gpu = OpenGpuOrSkip();
  if (!gpu) return;
  DeviceArena arena(*gpu);
  CheckManyUpdates(gpu->backend(), arena.Access());
  CheckManyGradients(gpu->backend(), arena.Access());
  CheckScaledUpdates(gpu->backend(), arena.Access());
  CheckGradientNorm(gpu->backend(), arena.Access());
  CheckManyStates(gpu->backend(), arena.Access());
}

TEST_CASE("beside a NaN no class is the largest on the GPU either") {
  const std::unique_ptr<CudaDevice> gpu = OpenGpuOrSkip();
  if (!gpu) return;
  DeviceArena arena(*gpu);
  const std::vector<TensorSpec> inputs = {{.shape = {3, 3, 1, 1}},
                                          {.shape = {3}, .dtype = DType::kInt32}};
  const LayerSpec spec = SoftmaxCrossEntropy{}.Specify({.inputs = inputs}).value();
  const StepSignature signature =
      SignatureOf(spec.steps[0], {.layer = SoftmaxCrossEntropy{}, .spec = spec, .inputs = inputs});
  const double nan = std::nan("");
  const absl::StatusOr<Values> y =
      RunStep(gpu->backend(), arena.Access(), signature,
              {{X(0), {nan, 2, 3, 1, 2, nan, 1, 2, 3}}, {X(1), {2, 1, 2}}});
  REQUIRE(y.ok());
  CHECK(y->at(State(0))[1] == 1);
}

}  // namespace
}  // namespace neap::testing
