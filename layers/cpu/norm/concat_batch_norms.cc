// Batch norms that write their parts of a concatenation.
#include "neap/layers/fusion/concat_batch_norms.h"

#include <algorithm>
#include <vector>

#include "neap/layers/cpu/norm/batch_norm_loops.h"

namespace neap::cpu {
namespace {

using namespace operands;

// The batch norm of an input, which has one.
Norm NormOf(const StepSignature& signature, int input, const ConcatInput& place) {
  const bool forward = signature.phase == Phase::kForward;
  const TensorSpec& concat = signature.Spec(forward ? Y() : Dy());
  const ChannelPart part = {ChannelRowsOf(signature.Spec(X(input))), place.first, concat.shape.c()};
  return {place.part->norm, input, 2 * input, part};
}
// The channels of an input.
ChannelPart PartOf(const StepSignature& signature, const ConcatInput& place) {
  const bool forward = signature.phase == Phase::kForward;
  const TensorSpec& concat = signature.Spec(forward ? Y() : Dy());
  ChannelRows rows = ChannelRowsOf(concat);
  rows.channels = place.channels;
  return {rows, place.first, concat.shape.c()};
}

// Forward and its rerun both call this function, so they give the same bits.
[[gnu::noinline]] void Apply(const LoopArgs& args, const Norm& norm, const Normalisation& of,
                             bool relu) {
  const float* const x = args.Get<float>(X(norm.input));
  float* const y = args.Get<float>(Y());
  RoundAs(args.signature.Spec(Y()).dtype, [&](auto round) {
    ForEachElement(norm.part, [=](int64_t i, int64_t c, int64_t whole) {
      const float value = round(of(x[i], c));
      y[whole] = relu ? ReluOf(value) : value;
    });
  });
}

Normalisation Summarised(const LoopArgs& args, const Norm& norm) {
  return args.signature.mode == Mode::kInference
             ? RunningNormalisation(args, norm, args.Workspace<float>())
             : BatchNormalisation(args, norm);
}

void Forward(const LoopArgs& args) {
  const ConcatBatchNorms& layer = *args.signature.layer.As<ConcatBatchNorms>();
  const std::vector<ConcatInput> inputs = ConcatInputs(layer, args.signature);
  for (int i = 0; i < static_cast<int>(inputs.size()); ++i) {
    const ConcatInput& place = inputs[static_cast<size_t>(i)];
    if (place.part != nullptr) {
      const Norm norm = NormOf(args.signature, i, place);
      Apply(args, norm, Summarised(args, norm), place.part->relu);
      continue;
    }
    const float* const x = args.Get<float>(X(i));
    float* const y = args.Get<float>(Y());
    ForEachElement(PartOf(args.signature, place),
                   [=](int64_t at, int64_t, int64_t whole) { y[whole] = x[at]; });
  }
}

void BackwardOf(const LoopArgs& args, const Norm& norm, bool relu) {
  const float* const x = args.Get<float>(X(norm.input));
  const float* const dy = args.Get<float>(Dy());
  float* const dx = args.Get<float>(Dx(norm.input));
  if (!relu) {
    BackwardFrom(
        args, norm, [dy](int64_t, int64_t, int64_t whole) { return dy[whole]; }, dx);
    return;
  }
  const Normalisation normalised = NormalisationOf(args, norm);
  RoundAs(args.signature.Spec(Dy()).dtype, [&](auto round) {
    const auto dz = [=](int64_t i, int64_t c, int64_t whole) {
      return round(normalised(x[i], c)) <= 0 ? 0 : dy[whole];
    };
    BackwardFrom(args, norm, dz, dx);
  });
}

void Backward(const LoopArgs& args) {
  const ConcatBatchNorms& layer = *args.signature.layer.As<ConcatBatchNorms>();
  const std::vector<ConcatInput> inputs = ConcatInputs(layer, args.signature);
  for (int i = 0; i < static_cast<int>(inputs.size()); ++i) {
    const ConcatInput& place = inputs[static_cast<size_t>(i)];
    if (place.part != nullptr) {
      BackwardOf(args, NormOf(args.signature, i, place), place.part->relu);
      continue;
    }
    const float* const dy = args.Get<float>(Dy());
    float* const dx = args.Get<float>(Dx(i));
    const bool adds = args.signature.Accumulates(Dx(i));
    ForEachElement(PartOf(args.signature, place), [=](int64_t at, int64_t, int64_t whole) {
      dx[at] = adds ? dx[at] + dy[whole] : dy[whole];
    });
  }
}

// The workspace that a batch norm of the largest part alone needs.
int64_t WorkspaceBytes(const StepSignature& signature) {
  const ConcatBatchNorms& layer = *signature.layer.As<ConcatBatchNorms>();
  int64_t channels = 0;
  for (const ConcatInput& input : ConcatInputs(layer, signature))
    channels = std::max(channels, input.channels);
  return NormWorkspaceBytes(channels).backward;  // the most of its steps
}

}  // namespace

absl::StatusOr<Candidates> ConcatBatchNormsForward(const StepSignature& signature) {
  return OwnLoop(signature, Forward, WorkspaceBytes(signature));
}

absl::StatusOr<Candidates> ConcatBatchNormsBackward(const StepSignature& signature) {
  return OwnLoop(signature, Backward, WorkspaceBytes(signature));
}

}  // namespace neap::cpu
