// Attention: the candidates of cuDNN, and launches of neap's kernels from signatures.
#include "neap/layers/attention/attention.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/base/units.h"
#include "neap/layers/attention/attention_shape.h"
#include "neap/layers/cuda/attention/sdpa_candidates.h"
#include "neap/layers/cuda/candidates.h"
#include "neap/layers/cuda/kernels/attention/attention.h"

namespace neap::cuda {
namespace {

using namespace operands;

kernels::HeadsArray HeadsArrayOf(const LaunchArgs& a, const Heads& heads, Operand gradient) {
  const kernels::Array values = a.Array(heads.tensor), of_gradient = a.FindArray(gradient);
  return {.values = kernels::After(values, heads.first),
          .gradient =
              of_gradient.data == nullptr ? of_gradient : kernels::After(of_gradient, heads.first),
          .steps = {.image = heads.image_step,
                    .head = heads.head_step,
                    .position = heads.position_step,
                    .dim = heads.dim_step,
                    .set = heads.set_step}};
}

// The workspace is [turns)[scratch memory of backward).
int64_t TurnsBytes(const AttentionShape& s) {
  const int64_t bytes = kernels::RotaryBytes(s.queries, s.keys, static_cast<int>(s.rotary_dims));
  return RoundUp(bytes, kWorkspaceAlignment);
}

kernels::AttentionProblem AttentionProblemOf(const LaunchArgs& a, const AttentionShape& s) {
  kernels::AttentionProblem problem = {.images = s.images,
                                       .sets = s.query.sets,
                                       .heads = static_cast<int>(s.query.count),
                                       .kv_heads = static_cast<int>(s.key.count),
                                       .queries = static_cast<int>(s.queries),
                                       .keys = static_cast<int>(s.keys),
                                       .dims = static_cast<int>(s.query.dims),
                                       .value_dims = static_cast<int>(s.value.dims),
                                       .causal = s.causal,
                                       .scale = s.scale,
                                       .query = HeadsArrayOf(a, s.query, s.query.gradient()),
                                       .key = HeadsArrayOf(a, s.key, s.key.gradient()),
                                       .value = HeadsArrayOf(a, s.value, s.value.gradient()),
                                       .output = HeadsArrayOf(a, s.output, Dy()),
                                       .lse = a.Find<float>(Saved(0)),
                                       .rotary_dims = static_cast<int>(s.rotary_dims),
                                       .turns = static_cast<float2*>(a.run.workspace)};
  if (!s.bias.has_value()) return problem;
  problem.bias = a.Array(s.bias->value);
  problem.bias_gradient = a.FindArray(s.bias->gradient);
  problem.bias_steps = {.image = s.bias->image_step,
                        .head = s.bias->head_step,
                        .query = s.bias->query_step,
                        .key = s.bias->key_step,
                        .set = s.bias->set_step};
  problem.has_windows = s.bias->windows.has_value();
  problem.windows = s.bias->windows.value_or(WindowPlaces());
  problem.adds_to_bias_gradient = a.signature.Accumulates(s.bias->gradient);
  return problem;
}

cudaError_t AttentionLaunch(const LaunchArgs& a) {
  const AttentionShape s = AttentionShapeOf(a.signature);
  const kernels::AttentionProblem problem = AttentionProblemOf(a, s);
  const cudaError_t turned = kernels::RotaryTurns(s.queries, s.keys, problem.rotary_dims,
                                                  s.rotary_base, problem.turns, a.stream);
  if (turned != cudaSuccess) return turned;
  if (a.signature.phase == Phase::kForward) return kernels::AttentionForward(problem, a.stream);
  void* const scratch = static_cast<std::byte*>(a.run.workspace) + TurnsBytes(s);
  const cudaError_t error = kernels::AttentionBackward(problem, scratch, a.stream);
  if (error != cudaSuccess || problem.bias_gradient.data == nullptr) return error;
  return kernels::AttentionBiasGradient(problem, scratch, a.stream);
}

// Neap's kernels multiply in fp32 on CUDA cores, and reach a third of what these have: estimates
// for an H200, whose tensor cores have fifteen times as many operations in 16 bits.
double SlowdownOnCudaCores(DType dtype) {
  if (Is16Bit(dtype)) return 40;
  return dtype == DType::kTf32 ? 20 : 3;
}

// The kernels' blocks, of which there are no more than pairs of tiles, have 32-bit numbers.
absl::Status CheckAttentionFits(const StepSignature& signature, const AttentionShape& s) {
  constexpr int64_t kMinTile = 8;
  const int64_t rows = SaturatingProduct(s.images, s.query.count);
  RETURN_IF_ERROR(CheckFits32(signature, SaturatingProduct(rows, std::max(s.queries, s.keys))));
  if (!s.bias.has_value() || !signature.Has(s.bias->gradient)) return absl::OkStatus();
  const int64_t pairs = (s.queries / kMinTile + 1) * (s.keys / kMinTile + 1);
  return CheckFits32(signature, SaturatingProduct(rows, pairs));
}

}  // namespace

absl::StatusOr<Candidates> AttentionCandidates(const StepSignature& signature,
                                               const SharedRuntime& runtime) {
  RETURN_IF_ERROR(CheckFp32(signature, {Slot::kParam}));
  const AttentionShape s = AttentionShapeOf(signature);
  RETURN_IF_ERROR(CheckAttentionFits(signature, s));
  const int64_t dims = std::max(s.query.dims, s.value.dims);
  if (dims > kernels::kMaxHeadDims) {
    return absl::UnimplementedError(absl::StrCat("the CUDA attention has heads of at most ",
                                                 kernels::kMaxHeadDims, " dimensions, not ", dims));
  }
  int64_t workspace_bytes = TurnsBytes(s);
  if (signature.phase != Phase::kForward) {
    workspace_bytes += kernels::AttentionScratchBytes(s.images, s.query.count, s.queries);
    if (s.bias.has_value() && s.bias->image_step == 0) {
      workspace_bytes += kernels::AttentionBiasScratchBytes(
          s.images, s.query.count, s.queries, s.keys, dims, s.bias->windows.has_value());
    }
  }
  ASSIGN_OR_RETURN(Candidates candidates, SdpaCandidates(signature, s, runtime));
  Candidates own = OwnKernel(signature, runtime, AttentionLaunch, workspace_bytes);
  own.front().engine.slowdown = SlowdownOnCudaCores(signature.Spec(X()).dtype);
  std::move(own.begin(), own.end(), std::back_inserter(candidates));
  return candidates;
}

}  // namespace neap::cuda
