#include "neap/layers/cuda/attention/sdpa_candidates.h"

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "neap/core/base/status_macros.h"
#include "neap/layers/cuda/attention/cudnn_attention.h"

namespace neap::cuda {
namespace {

using namespace operands;

constexpr int64_t kDimsMultiple = 8;  // cuDNN reads 16 bytes of a head at a time

SdpaTensor SdpaTensorOf(const Heads& heads, int64_t positions) {
  return {.heads = heads.count,
          .positions = positions,
          .dims = heads.dims,
          .image_step = heads.image_step,
          .head_step = heads.head_step,
          .position_step = heads.position_step};
}

bool IsSuited(const StepSignature& signature, const AttentionShape& s) {
  const TensorSpec& x = signature.Spec(X());
  if (!Is16Bit(x.dtype) || s.rotary_dims != 0) return false;
  // The dimensions of a head also lie next to each other if there is one position.
  if (s.query.dim_step != 1 || s.key.dim_step != 1) return false;
  if (s.query.dims % kDimsMultiple != 0 || s.value.dims % kDimsMultiple != 0) return false;
  if (!s.bias.has_value()) return true;
  return s.bias->value.slot == Slot::kInput && s.bias->key_step == 1 &&
         !signature.Has(s.bias->gradient);
}

SdpaProblem SdpaProblemOf(const StepSignature& signature, const AttentionShape& s) {
  SdpaProblem problem = {.phase = signature.phase,
                         .dtype = signature.Spec(X()).dtype,
                         .images = s.images,
                         .query = SdpaTensorOf(s.query, s.queries),
                         .key = SdpaTensorOf(s.key, s.keys),
                         .value = SdpaTensorOf(s.value, s.keys),
                         .output = SdpaTensorOf(s.output, s.queries),
                         .causal = s.causal,
                         .scale = s.scale,
                         .lse = signature.Has(Saved(0))};
  if (!s.bias.has_value()) return problem;
  const int64_t heads = s.bias->head_step == 0 ? 1 : s.query.count;
  problem.bias = SdpaTensor{.heads = heads,
                            .positions = s.queries,
                            .dims = s.keys,
                            .image_step = s.bias->image_step,
                            .head_step = heads == 1 ? s.queries * s.keys : s.bias->head_step,
                            .position_step = s.bias->query_step};
  return problem;
}

class SdpaKernel final : public StreamKernel {
 public:
  SdpaKernel(SharedRuntime runtime, const StepSignature& signature, std::unique_ptr<SdpaPlan> plan)
      : StreamKernel(std::move(runtime), signature), plan_(std::move(plan)) {}

 protected:
  absl::Status Launch(const LaunchArgs& args) override {
    const AttentionShape s = AttentionShapeOf(args.signature);
    // The first head of a tensor, or of a gradient that has its steps.
    const auto first = [&](const Heads& heads, Operand operand) -> void* {
      auto* const bytes = args.Find<std::byte>(operand);
      if (bytes == nullptr) return nullptr;
      return bytes + heads.first * SizeOf(args.signature.Spec(operand).dtype);
    };
    return plan_->Execute({.query = first(s.query, s.query.tensor),
                           .key = first(s.key, s.key.tensor),
                           .value = first(s.value, s.value.tensor),
                           .bias = s.bias.has_value() ? args.Get<void>(s.bias->value) : nullptr,
                           .output = args.Get<void>(Y()),
                           .lse = args.Find<void>(Saved(0)),
                           .doutput = args.Find<void>(Dy()),
                           .dquery = first(s.query, s.query.gradient()),
                           .dkey = first(s.key, s.key.gradient()),
                           .dvalue = first(s.value, s.value.gradient())},
                          args.run.workspace);
  }

 private:
  std::unique_ptr<SdpaPlan> plan_;
};

// Adds the engine of the problem, if there is one.
absl::Status AddSdpa(const SdpaProblem& problem, const StepSignature& signature,
                     const SharedRuntime& runtime, Candidates& candidates) {
  const absl::StatusOr<Engine> engine = runtime->attention->Find(problem);
  if (absl::IsUnimplemented(engine.status())) return absl::OkStatus();
  RETURN_IF_ERROR(engine.status());
  const auto make = [signature, runtime,
                     problem]() -> absl::StatusOr<std::unique_ptr<StreamKernel>> {
    ASSIGN_OR_RETURN(std::unique_ptr<SdpaPlan> plan, runtime->attention->Build(problem));
    return std::make_unique<SdpaKernel>(runtime, signature, std::move(plan));
  };
  candidates.push_back(StreamCandidate(*engine, make));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Candidates> SdpaCandidates(const StepSignature& signature, const AttentionShape& s,
                                          const SharedRuntime& runtime) {
  Candidates candidates;
  if (runtime->attention == nullptr || !IsSuited(signature, s)) return candidates;
  SdpaProblem problem = SdpaProblemOf(signature, s);
  RETURN_IF_ERROR(AddSdpa(problem, signature, runtime, candidates));
  if (signature.phase == Phase::kForward) return candidates;
  problem.deterministic = true;
  RETURN_IF_ERROR(AddSdpa(problem, signature, runtime, candidates));
  return candidates;
}

}  // namespace neap::cuda
