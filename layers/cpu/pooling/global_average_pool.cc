#include "neap/layers/cpu/pooling/global_average_pool.h"

#include "neap/layers/cpu/candidates.h"

namespace neap::cpu {
namespace {

using namespace operands;

void Forward(const LoopArgs& args) {
  const float* const x = args.Get<float>(X());
  ImageMeans(args.signature.Spec(X()))
      .Average([=](int64_t i, int64_t) { return x[i]; }, args.Get<float>(Y()));
}

void Backward(const LoopArgs& args) {
  const TensorSpec& spec = args.signature.Spec(Dx());
  const ImageMeans means(spec);
  const float* const dy = args.Get<float>(Dy());
  float* const dx = args.Get<float>(Dx());
  const bool adds = args.signature.Accumulates(Dx());
  means.ForEach([=](int64_t i, int64_t, int64_t mean) {
    const float gradient = means.Gradient(dy[mean]);
    dx[i] = adds ? dx[i] + gradient : gradient;
  });
}

}  // namespace

absl::StatusOr<Candidates> GlobalAveragePoolForward(const StepSignature& signature) {
  return OwnLoop(signature, Forward);
}

absl::StatusOr<Candidates> GlobalAveragePoolBackward(const StepSignature& signature) {
  return OwnLoop(signature, Backward);
}

}  // namespace neap::cpu
