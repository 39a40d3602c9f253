#include "neap/layers/cuda/attention/sdpa_candidates.h"

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "neap/core/base/status_macros.h"
#include "neap/core/base/units.h"
#include "neap/layers/cuda/attention/cudnn_attention.h"
#include "neap/layers/cuda/device/cuda_status.h"
#include "neap/layers/cuda/kernels/attention/attention.h"

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
  if (!Is16Bit(x.dtype)) return false;
  // The dimensions of a head also lie next to each other if there is one position.
  if (s.query.dim_step != 1 || s.key.dim_step != 1) return false;
  if (s.query.dims % kDimsMultiple != 0 || s.value.dims % kDimsMultiple != 0) return false;
  if (!s.bias.has_value()) return true;
  return s.bias->value.slot == Slot::kInput && s.bias->key_step == 1 &&
         !signature.Has(s.bias->gradient);
}

// Query and key that are rotated have places of their own in the workspace, where the heads of a
// position lie next to each other: [of cuDNN)[turns)[query)[key).
struct RotatedPlaces {
  SdpaTensor query, key;
  int64_t turns = 0, query_at = 0, key_at = 0, end = 0;  // bytes
};

SdpaTensor DenseTensor(const Heads& heads, int64_t positions) {
  return {.heads = heads.count,
          .positions = positions,
          .dims = heads.dims,
          .image_step = positions * heads.count * heads.dims,
          .head_step = heads.dims,
          .position_step = heads.count * heads.dims};
}

// `bytes` are those of cuDNN.
RotatedPlaces RotatedPlacesOf(const AttentionShape& s, DType dtype, int64_t bytes) {
  RotatedPlaces places = {.query = DenseTensor(s.query, s.queries),
                          .key = DenseTensor(s.key, s.keys)};
  const auto after = [](int64_t at, int64_t size) {
    return RoundUp(at + size, kWorkspaceAlignment);
  };
  places.turns = after(bytes, 0);
  places.query_at =
      after(places.turns, kernels::RotaryBytes(s.queries, s.keys, static_cast<int>(s.rotary_dims)));
  places.key_at = after(places.query_at, s.images * places.query.image_step * SizeOf(dtype));
  places.end = after(places.key_at, s.images * places.key.image_step * SizeOf(dtype));
  return places;
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
  if (s.rotary_dims != 0) {
    problem.query_gradient = std::exchange(problem.query, DenseTensor(s.query, s.queries));
    problem.key_gradient = std::exchange(problem.key, DenseTensor(s.key, s.keys));
  }
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

kernels::HeadSteps StepsOf(const SdpaTensor& t) {
  return {.image = t.image_step, .head = t.head_step, .position = t.position_step, .dim = 1};
}

class SdpaKernel final : public StreamKernel {
 public:
  // `bytes` are cuDNN's of the workspace.
  SdpaKernel(SharedRuntime runtime, const StepSignature& signature, std::unique_ptr<SdpaPlan> plan,
             int64_t bytes)
      : StreamKernel(std::move(runtime), signature), plan_(std::move(plan)), bytes_(bytes) {}

 protected:
  absl::Status Launch(const LaunchArgs& args) override {
    const AttentionShape s = AttentionShapeOf(args.signature);
    // The first head of a tensor, or of a gradient that has its steps.
    const auto first = [&](const Heads& heads, Operand operand) -> void* {
      auto* const bytes = args.Find<std::byte>(operand);
      if (bytes == nullptr) return nullptr;
      return bytes + heads.first * SizeOf(args.signature.Spec(operand).dtype);
    };
    SdpaPointers pointers = {.query = first(s.query, s.query.tensor),
                             .key = first(s.key, s.key.tensor),
                             .value = first(s.value, s.value.tensor),
                             .bias = s.bias.has_value() ? args.Get<void>(s.bias->value) : nullptr,
                             .output = args.Get<void>(Y()),
                             .lse = args.Find<void>(Saved(0)),
                             .doutput = args.Find<void>(Dy()),
                             .dquery = first(s.query, s.query.gradient()),
                             .dkey = first(s.key, s.key.gradient()),
                             .dvalue = first(s.value, s.value.gradient())};
    if (s.rotary_dims == 0) return plan_->Execute(pointers, args.run.workspace);
    return ExecuteRotated(args, s, pointers);
  }

 private:
  // Rotates query and key, and the gradients of what cuDNN has read back in place.
  absl::Status ExecuteRotated(const LaunchArgs& args, const AttentionShape& s,
                              SdpaPointers pointers) {
    const TensorSpec& x = args.signature.Spec(X());
    const RotatedPlaces places = RotatedPlacesOf(s, x.dtype, bytes_);
    auto* const workspace = static_cast<std::byte*>(args.run.workspace);
    auto* const turns = reinterpret_cast<float2*>(workspace + places.turns);
    const auto rotary_dims = static_cast<int>(s.rotary_dims);
    RETURN_IF_ERROR(CudaStatus(
        kernels::RotaryTurns(s.queries, s.keys, rotary_dims, s.rotary_base, turns, args.stream),
        "angles of rotary positions"));
    const auto rotate = [&](const Heads& heads, const SdpaTensor& to, void* from_data,
                            void* to_data, bool back) {
      const kernels::HeadSteps own = StepsOf(SdpaTensorOf(heads, to.positions));
      return CudaStatus(kernels::RotateHeads({.images = s.images,
                                              .heads = static_cast<int>(heads.count),
                                              .positions = static_cast<int>(to.positions),
                                              .dims = static_cast<int>(heads.dims),
                                              .rotary_dims = rotary_dims,
                                              .turns = turns,
                                              .back = back,
                                              .from = {from_data, ElementOf(x.dtype)},
                                              .to = {to_data, ElementOf(x.dtype)},
                                              .from_steps = own,
                                              .to_steps = back ? own : StepsOf(to)},
                                             args.stream),
                        "rotary positions");
    };
    void* const query = std::exchange(pointers.query, workspace + places.query_at);
    void* const key = std::exchange(pointers.key, workspace + places.key_at);
    RETURN_IF_ERROR(rotate(s.query, places.query, query, pointers.query, false));
    RETURN_IF_ERROR(rotate(s.key, places.key, key, pointers.key, false));
    RETURN_IF_ERROR(plan_->Execute(pointers, workspace));
    if (args.signature.phase == Phase::kForward) return absl::OkStatus();
    RETURN_IF_ERROR(rotate(s.query, places.query, pointers.dquery, pointers.dquery, true));
    return rotate(s.key, places.key, pointers.dkey, pointers.dkey, true);
  }

  std::unique_ptr<SdpaPlan> plan_;
  const int64_t bytes_;
};

// Adds the engine of the problem, if there is one.
absl::Status AddSdpa(const SdpaProblem& problem, const StepSignature& signature,
                     const AttentionShape& s, const SharedRuntime& runtime,
                     Candidates& candidates) {
  absl::StatusOr<Engine> engine = runtime->attention->Find(problem);
  if (absl::IsUnimplemented(engine.status())) return absl::OkStatus();
  RETURN_IF_ERROR(engine.status());
  const int64_t bytes = engine->workspace_bytes;
  if (s.rotary_dims != 0) engine->workspace_bytes = RotatedPlacesOf(s, problem.dtype, bytes).end;
  const auto make = [signature, runtime, problem,
                     bytes]() -> absl::StatusOr<std::unique_ptr<StreamKernel>> {
    ASSIGN_OR_RETURN(std::unique_ptr<SdpaPlan> plan, runtime->attention->Build(problem));
    return std::make_unique<SdpaKernel>(runtime, signature, std::move(plan), bytes);
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
  RETURN_IF_ERROR(AddSdpa(problem, signature, s, runtime, candidates));
  if (signature.phase == Phase::kForward) return candidates;
  problem.deterministic = true;
  RETURN_IF_ERROR(AddSdpa(problem, signature, s, runtime, candidates));
  return candidates;
}

}  // namespace neap::cuda
