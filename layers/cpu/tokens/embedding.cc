#include "neap/layers/tokens/embedding.h"

#include <algorithm>
#include <limits>

#include "neap/core/base/float16.h"
#include "neap/layers/cpu/candidates.h"
#include "neap/layers/cpu/tokens/token_vectors.h"

namespace neap::cpu {
namespace {

using namespace operands;

template <typename T>
void EmbeddingForward(const LoopArgs& args) {
  const Embedding& layer = *args.signature.layer.As<Embedding>();
  const TokenVectors vectors(args.signature.Spec(Y()));
  const int32_t* const ids = args.Get<int32_t>(X());
  const T* const weight = args.Get<T>(Param(0));
  T* const y = args.Get<T>(Y());
  const T none = T(std::numeric_limits<float>::quiet_NaN());
  for (int64_t i = 0; i < vectors.count; ++i) {
    T* const to = y + vectors.First(i);
    const bool known = ids[i] >= 0 && ids[i] < layer.vocabulary;
    const T* const row = known ? weight + ids[i] * vectors.channels : nullptr;
    for (int64_t c = 0; c < vectors.channels; ++c) to[c * vectors.apart] = known ? row[c] : none;
  }
}

template <typename T>
void EmbeddingBackward(const LoopArgs& args) {
  const Embedding& layer = *args.signature.layer.As<Embedding>();
  const TokenVectors vectors(args.signature.Spec(Dy()));
  const int32_t* const ids = args.Get<int32_t>(X());
  const T* const dy = args.Get<T>(Dy());
  float* const dweight = args.Get<float>(ParamGrad(0));
  if (!args.signature.Accumulates(ParamGrad(0)))
    std::fill_n(dweight, args.Elements(ParamGrad(0)), 0.0F);
  for (int64_t i = 0; i < vectors.count; ++i) {
    if (ids[i] < 0 || ids[i] >= layer.vocabulary || layer.padding == ids[i]) continue;
    const T* const from = dy + vectors.First(i);
    float* const row = dweight + ids[i] * vectors.channels;
    for (int64_t c = 0; c < vectors.channels; ++c)
      row[c] += static_cast<float>(from[c * vectors.apart]);
  }
}

template <typename T>
Candidates StepsOf(const StepSignature& signature) {
  const bool forward = signature.phase == Phase::kForward;
  return OwnLoop(signature, forward ? EmbeddingForward<T> : EmbeddingBackward<T>);
}

}  // namespace

absl::StatusOr<Candidates> EmbeddingSteps(const StepSignature& signature) {
  const bool forward = signature.phase == Phase::kForward;
  switch (signature.Spec(forward ? Y() : Dy()).dtype) {
    case DType::kFp16:
      return StepsOf<Fp16>(signature);
    case DType::kBf16:
      return StepsOf<Bf16>(signature);
    default:
      return StepsOf<float>(signature);
  }
}

}  // namespace neap::cpu
