// The engines of an H200 that is not present, and the signatures for which tests list them.
#pragma once

#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <vector>

#include "neap/layers/cuda/cuda_backend.h"
#include "neap/layers/devices/device_description.h"
#include "tests/gpu_test.h"
#include "tests/layers/harness.h"

namespace neap::testing {

// Null in a build without CUDA, with a message.
inline std::unique_ptr<EngineCatalog> CatalogOrSkip(const EngineOptions& options = {}) {
  const absl::StatusOr<std::string> h200 = CudnnDeviceProperties(DescribedDevice("h200").value());
  if (absl::IsUnimplemented(h200.status())) {
    SkipCase(std::string(h200.status().message()));
    return nullptr;
  }
  REQUIRE(h200.ok());
  absl::StatusOr<std::unique_ptr<EngineCatalog>> catalog = MakeCudnnCatalog(*h200, {}, options);
  REQUIRE_MESSAGE(catalog.ok(), std::string(catalog.status().message()));
  return *std::move(catalog);
}

inline std::vector<StepSignature> Signatures(const Layer& layer, const TensorSpec& x) {
  const LayerSpec spec = layer.Specify({.inputs = {x}}).value();
  std::vector<StepSignature> signatures;
  for (const StepSpec& step : spec.steps) {
    signatures.push_back(SignatureOf(step, {.layer = layer, .spec = spec, .inputs = {x}}));
  }
  return signatures;
}

// Of a network of 16-bit tensors: gradients of parameters are fp32.
inline std::vector<StepSignature> Signatures16(const Layer& layer, const TensorSpec& x) {
  std::vector<StepSignature> signatures = Signatures(layer, x);
  for (StepSignature& signature : signatures) {
    for (OperandSpec& operand : signature.operands) {
      if (operand.operand.slot == Slot::kParamGrad) operand.tensor.dtype = DType::kFp32;
    }
  }
  return signatures;
}

}  // namespace neap::testing
