#include "neap/core/step/divided_kernel.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/base/units.h"
#include "neap/core/step/signature_text.h"

namespace neap {
namespace {

// Whether the operand at `position` grows with the batch, given two signatures of one step.
bool IsSliced(const StepSignature& whole, const StepSignature& part, size_t position) {
  const Slot slot = whole.operands[position].operand.slot;
  if (slot == Slot::kParam || slot == Slot::kParamGrad) return false;
  return whole.operands[position].tensor.shape.n() == BatchOf(whole) &&
         part.operands[position].tensor.shape.n() == BatchOf(part);
}

// One part: a kernel, and the offset of each of its operands from that of the whole step.
struct Part {
  size_t kernel = 0;
  bool by_scratch = false;       // its gradients are written to scratch space and then added
  std::vector<int64_t> offsets;  // parallel to the signature's operands
};

// The scratch space to which a part writes gradients, before they are added to the sums.
struct Scratch {
  struct Place {
    size_t operand = 0;  // position in the signature
    int64_t offset = 0;
  };
  std::vector<Place> places;
  int64_t bytes = 0;
};

Scratch LayOutScratch(const StepSignature& signature) {
  Scratch scratch;
  for (size_t i = 0; i < signature.operands.size(); ++i) {
    const OperandSpec& operand = signature.operands[i];
    if (operand.operand.slot != Slot::kParamGrad) continue;
    scratch.places.push_back({.operand = i, .offset = scratch.bytes});
    scratch.bytes += RoundUp(operand.tensor.size_bytes(), kWorkspaceAlignment);
  }
  return scratch;
}

class DividedKernel final : public Kernel {
 public:
  absl::Status AddPart(Backend& backend, const StepSignature& whole, const EngineUse& use,
                       int64_t first_image, int64_t workspace_bytes) {
    const StepSignature signature = WithBatch(whole, use.batch);
    Part part = {.by_scratch = first_image > 0 && SumsParts(whole) && !use.adds};
    if (part.by_scratch && additions_.empty()) RETURN_IF_ERROR(MakeAdditions(backend, whole));
    const std::pair made(use, part.by_scratch);
    part.kernel = static_cast<size_t>(std::find(made_.begin(), made_.end(), made) - made_.begin());
    if (part.kernel == made_.size()) {
      const StepSignature run = use.adds          ? AddingSignature(signature)
                                : part.by_scratch ? WritingSignature(signature)
                                                  : signature;
      ASSIGN_OR_RETURN(
          std::unique_ptr<Kernel> kernel,
          MakeKernelWithin(backend, run, use.engine, workspace_bytes - ScratchOf(part)));
      kernels_.push_back(std::move(kernel));
      made_.push_back(made);
    }
    const int64_t batch = BatchOf(whole);
    for (size_t i = 0; i < whole.operands.size(); ++i) {
      const int64_t bytes_per_image = whole.operands[i].tensor.size_bytes() / batch;
      part.offsets.push_back(IsSliced(whole, signature, i) ? bytes_per_image * first_image : 0);
    }
    parts_.push_back(std::move(part));
    return absl::OkStatus();
  }

  absl::Status Run(const KernelArgs& args) override {
    for (const Part& part : parts_) RETURN_IF_ERROR(RunPart(part, args));
    return absl::OkStatus();
  }

 private:
  int64_t ScratchOf(const Part& part) const { return part.by_scratch ? scratch_.bytes : 0; }

  absl::Status MakeAdditions(Backend& backend, const StepSignature& signature) {
    scratch_ = LayOutScratch(signature);
    for (const Scratch::Place& place : scratch_.places) {
      const TensorSpec& gradient = signature.operands[place.operand].tensor;
      ASSIGN_OR_RETURN(std::unique_ptr<Kernel> addition,
                       MakeKernelWithin(backend, AdditionSignature(gradient), "", 0));
      additions_.push_back(std::move(addition));
    }
    return absl::OkStatus();
  }

  absl::Status RunPart(const Part& part, const KernelArgs& args) {
    std::byte* const workspace = static_cast<std::byte*>(args.workspace);
    const int64_t scratch_bytes = ScratchOf(part);
    operands_.clear();
    for (size_t i = 0; i < part.offsets.size(); ++i)
      operands_.push_back(static_cast<std::byte*>(args.operands[i]) + part.offsets[i]);
    if (part.by_scratch) {
      for (const Scratch::Place& place : scratch_.places)
        operands_[place.operand] = workspace + place.offset;
    }
    RETURN_IF_ERROR(kernels_[part.kernel]->Run(
        {.operands = operands_,
         .workspace = workspace == nullptr ? nullptr : workspace + scratch_bytes,
         .workspace_bytes = args.workspace_bytes - scratch_bytes}));
    if (!part.by_scratch) return absl::OkStatus();
    for (size_t i = 0; i < additions_.size(); ++i) {
      const Scratch::Place& place = scratch_.places[i];
      void* const operands[] = {args.operands[place.operand], workspace + place.offset};
      RETURN_IF_ERROR(additions_[i]->Run({.operands = operands}));
    }
    return absl::OkStatus();
  }

  std::vector<std::pair<EngineUse, bool>> made_;  // parallel to kernels_: engine and by_scratch
  std::vector<std::unique_ptr<Kernel>> kernels_;  // equal parts share one
  std::vector<Part> parts_;
  Scratch scratch_;                                 // empty if no part needs it
  std::vector<std::unique_ptr<Kernel>> additions_;  // parallel to scratch_.places
  std::vector<void*> operands_;                     // of the current part
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
                       ", but parts begin at multiples of ", granularity));
    }
    if (part.adds && (images == 0 || !SumsParts(signature)))
      return absl::InvalidArgumentError("a micro-batch adds, but there is nothing to add to");
    images += part.batch;
  }
  if (images == BatchOf(signature)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "micro-batches of ", images, " images in total, but the batch has ", BatchOf(signature)));
}

// The engine of a step for which a plan names none.
absl::StatusOr<Engine> OnlyEngine(Backend& backend, const StepSignature& signature) {
  ASSIGN_OR_RETURN(const std::vector<Engine> engines, backend.Engines(signature));
  if (engines.empty()) return absl::NotFoundError("there is no engine");
  if (engines.size() == 1) return engines.front();
  return absl::InvalidArgumentError(
      absl::StrCat("the plan names no engine, and there are ", engines.size()));
}

}  // namespace

absl::StatusOr<std::vector<Engine>> AddingEngines(const StepSignature& part,
                                                  EngineCatalog& catalog) {
  absl::StatusOr<std::vector<Engine>> engines = catalog.Engines(AddingSignature(part));
  if (absl::IsUnimplemented(engines.status())) return std::vector<Engine>{};
  return engines;
}

int64_t DivisionScratchBytes(const StepSignature& signature) {
  return LayOutScratch(signature).bytes;
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

absl::StatusOr<std::unique_ptr<Kernel>> MakeKernelWithin(Backend& backend,
                                                         const StepSignature& signature,
                                                         std::string_view engine,
                                                         int64_t workspace_bytes) {
  const absl::StatusOr<Engine> found =
      engine.empty() ? OnlyEngine(backend, signature) : backend.Find(signature, engine);
  if (absl::IsNotFound(found.status())) {
    return absl::NotFoundError(
        absl::StrFormat("the plan's engine '%s' is not known", std::string(engine)));
  }
  RETURN_IF_ERROR(found.status());
  if (found->workspace_bytes > workspace_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("engine '", found->id, "' needs ", found->workspace_bytes,
                     " bytes of workspace, but the plan has ", workspace_bytes));
  }
  return backend.MakeKernel(signature, found->id);
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeDividedKernel(Backend& backend,
                                                          const StepSignature& signature,
                                                          absl::Span<const EngineUse> parts,
                                                          int64_t workspace_bytes) {
  RETURN_IF_ERROR(CheckParts(signature, parts));
  auto kernel = std::make_unique<DividedKernel>();
  int64_t first_image = 0;
  for (const EngineUse& part : parts) {
    RETURN_IF_ERROR(kernel->AddPart(backend, signature, part, first_image, workspace_bytes));
    first_image += part.batch;
  }
  return kernel;
}

}  // namespace neap
