#include "neap/layers/conv/divided_kernel.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "neap/core/status_macros.h"
#include "neap/core/units.h"
#include "neap/layers/convolution.h"
#include "neap/layers/join.h"
#include "neap/layers/operands.h"
#include "neap/layers/signature_text.h"
#include "neap/layers/transposed_convolution.h"

namespace neap {
namespace {

constexpr int64_t kAlignment = 256;  // of operands and workspaces

// Whether the operand at `position` grows with the batch. Of two signatures of one step.
bool IsSliced(const StepSignature& whole, const StepSignature& part, size_t position) {
  const Slot slot = whole.operands[position].operand.slot;
  if (slot == Slot::kParam || slot == Slot::kParamGrad) return false;
  return whole.operands[position].tensor.shape.n() == BatchOf(whole) &&
         part.operands[position].tensor.shape.n() == BatchOf(part);
}

// One part: a kernel, and by how much each of its operands lies behind the whole step's.
struct Part {
  size_t kernel = 0;
  std::vector<int64_t> offsets;  // parallel to the signature's operands
};

// The addition of one gradient of a part to the sum.
struct Addition {
  size_t operand = 0;  // position in the signature
  std::unique_ptr<Kernel> kernel;
  int64_t scratch_offset = 0;
};

class DividedKernel final : public Kernel {
 public:
  absl::Status AddPart(Backend& backend, const StepSignature& whole, const EngineUse& use,
                       int64_t first_image, int64_t workspace_bytes) {
    const StepSignature signature = WithBatch(whole, use.batch);
    const auto same = std::find(made_.begin(), made_.end(), use);
    Part part = {.kernel = static_cast<size_t>(same - made_.begin())};
    if (same == made_.end()) {
      ASSIGN_OR_RETURN(
          std::unique_ptr<Kernel> kernel,
          MakeKernelWithin(backend, signature, use.engine, workspace_bytes - scratch_bytes_));
      kernels_.push_back(std::move(kernel));
      made_.push_back(use);
    }
    const int64_t batch = BatchOf(whole);
    for (size_t i = 0; i < whole.operands.size(); ++i) {
      const int64_t bytes_per_image = whole.operands[i].tensor.size_bytes() / batch;
      part.offsets.push_back(IsSliced(whole, signature, i) ? bytes_per_image * first_image : 0);
    }
    parts_.push_back(std::move(part));
    return absl::OkStatus();
  }

  absl::Status AddAdditions(Backend& backend, const StepSignature& signature) {
    for (size_t i = 0; i < signature.operands.size(); ++i) {
      const OperandSpec& operand = signature.operands[i];
      if (operand.operand.slot != Slot::kParamGrad) continue;
      Addition addition = {.operand = i, .scratch_offset = scratch_bytes_};
      ASSIGN_OR_RETURN(addition.kernel,
                       MakeKernelWithin(backend, AdditionSignature(operand.tensor), "", 0));
      additions_.push_back(std::move(addition));
      scratch_bytes_ += RoundUp(operand.tensor.size_bytes(), kAlignment);
    }
    return absl::OkStatus();
  }

  absl::Status Run(const KernelArgs& args) override {
    for (size_t i = 0; i < parts_.size(); ++i) {
      RETURN_IF_ERROR(RunPart(parts_[i], i == 0, args));
    }
    return absl::OkStatus();
  }

 private:
  absl::Status RunPart(const Part& part, bool is_first, const KernelArgs& args) {
    std::byte* const workspace = static_cast<std::byte*>(args.workspace);
    operands_.clear();
    for (size_t i = 0; i < part.offsets.size(); ++i)
      operands_.push_back(static_cast<std::byte*>(args.operands[i]) + part.offsets[i]);
    if (!is_first) {
      for (const Addition& addition : additions_)
        operands_[addition.operand] = workspace + addition.scratch_offset;
    }
    RETURN_IF_ERROR(kernels_[part.kernel]->Run(
        {.operands = operands_,
         .workspace = workspace == nullptr ? nullptr : workspace + scratch_bytes_,
         .workspace_bytes = args.workspace_bytes - scratch_bytes_}));
    if (is_first) return absl::OkStatus();
    for (const Addition& addition : additions_) {
      void* const sum = args.operands[addition.operand];
      void* const operands[] = {sum, workspace + addition.scratch_offset, sum};
      RETURN_IF_ERROR(addition.kernel->Run({.operands = operands}));
    }
    return absl::OkStatus();
  }

  std::vector<EngineUse> made_;                   // what kernels_ were made for
  std::vector<std::unique_ptr<Kernel>> kernels_;  // equal parts share one
  std::vector<Part> parts_;
  std::vector<Addition> additions_;
  int64_t scratch_bytes_ = 0;
  std::vector<void*> operands_;  // of the part at hand
};

absl::Status CheckParts(const StepSignature& signature, absl::Span<const EngineUse> parts) {
  if (!IsDivisible(signature)) {
    return absl::InvalidArgumentError(absl::StrCat("a step of type ",
                                                   std::string(signature.layer.type()),
                                                   " cannot be run in parts of its batch"));
  }
  const int64_t granularity = BatchGranularity(signature);
  int64_t images = 0;
  for (const EngineUse& part : parts) {
    if (part.batch <= 0 || images % granularity != 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("a micro-batch of ", part.batch, " images at image ", images,
                       ", where parts begin at ", "multiples of ", granularity));
    }
    images += part.batch;
  }
  if (images == BatchOf(signature)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "micro-batches of ", images, " images together, where the batch has ", BatchOf(signature)));
}

}  // namespace

bool IsDivisible(const StepSignature& signature) {
  return signature.phase != Phase::kUpdate &&
         (signature.layer.As<Convolution>() != nullptr ||
          signature.layer.As<TransposedConvolution>() != nullptr);
}

int64_t DivisionScratchBytes(const StepSignature& signature) {
  int64_t bytes = 0;
  for (const OperandSpec& operand : signature.operands) {
    if (operand.operand.slot == Slot::kParamGrad)
      bytes += RoundUp(operand.tensor.size_bytes(), kAlignment);
  }
  return bytes;
}

int64_t BatchGranularity(const StepSignature& signature) {
  const StepSignature image = WithBatch(signature, 1);
  int64_t granularity = 1;
  for (size_t i = 0; i < image.operands.size(); ++i) {
    if (!IsSliced(signature, image, i)) continue;
    const int64_t bytes = image.operands[i].tensor.size_bytes();
    granularity = std::lcm(granularity, kOperandAlignment / std::gcd(kOperandAlignment, bytes));
  }
  return granularity;
}

StepSignature AdditionSignature(const TensorSpec& spec) {
  return {.layer = Add{},
          .operands = {{operands::X(0), spec, Access::kRead},
                       {operands::X(1), spec, Access::kRead},
                       {operands::Y(), spec, Access::kWrite}}};
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeKernelWithin(Backend& backend,
                                                         const StepSignature& signature,
                                                         std::string_view engine,
                                                         int64_t workspace_bytes) {
  ASSIGN_OR_RETURN(const std::vector<Engine> engines, backend.Engines(signature));
  if (engine.empty() && engines.size() > 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("the plan names no engine, and there are ", engines.size()));
  }
  const auto found = std::find_if(engines.begin(), engines.end(), [&](const Engine& listed) {
    return engine.empty() || listed.id == engine;
  });
  if (found == engines.end()) {
    return absl::NotFoundError(
        absl::StrFormat("the plan's engine '%s' is not known", std::string(engine)));
  }
  if (found->workspace_bytes > workspace_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("engine '", found->id, "' needs ", found->workspace_bytes,
                     " bytes of workspace, the plan has ", workspace_bytes));
  }
  return backend.MakeKernel(signature, found->id);
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeDividedKernel(Backend& backend,
                                                          const StepSignature& signature,
                                                          absl::Span<const EngineUse> parts,
                                                          int64_t workspace_bytes) {
  RETURN_IF_ERROR(CheckParts(signature, parts));
  auto kernel = std::make_unique<DividedKernel>();
  if (parts.size() > 1) RETURN_IF_ERROR(kernel->AddAdditions(backend, signature));
  int64_t first_image = 0;
  for (const EngineUse& part : parts) {
    RETURN_IF_ERROR(kernel->AddPart(backend, signature, part, first_image, workspace_bytes));
    first_image += part.batch;
  }
  return kernel;
}

}  // namespace neap
