#include "neap/layers/cpu/pooling/max_pool.h"

#include "neap/layers/cpu/candidates.h"
#include "neap/layers/pooling.h"

namespace neap::cpu {
namespace {

using namespace operands;

template <typename Index>
void Forward(const LoopArgs& args) {
  const float* const x = args.Get<float>(X());
  float* const y = args.Get<float>(Y());
  Index* const index = args.Find<Index>(Saved(0));
  ForEachMaximum(
      *args.signature.layer.As<MaxPool>(), args.signature.Spec(X()), args.signature.Spec(Y()),
      [=](int64_t i, int64_t) { return x[i]; },
      [=](int64_t at, const Maximum& max) {
        y[at] = max.value;
        if (index != nullptr) index[at] = static_cast<Index>(max.index);
      });
}

template <typename Index>
void Backward(const LoopArgs& args) {
  ScatterToMaxima(*args.signature.layer.As<MaxPool>(), args.signature.Spec(Dx()),
                  args.signature.Spec(Dy()), args.Get<float>(Dy()), args.Get<Index>(Saved(0)),
                  /*relu=*/false, args.Get<float>(Dx()));
}

}  // namespace

absl::StatusOr<Candidates> MaxPoolForward(const StepSignature& signature) {
  const bool wide = signature.Has(Saved(0)) && signature.Spec(Saved(0)).dtype == DType::kInt32;
  return OwnLoop(signature, wide ? Forward<int32_t> : Forward<uint8_t>);
}

absl::StatusOr<Candidates> MaxPoolBackward(const StepSignature& signature) {
  const bool wide = signature.Spec(Saved(0)).dtype == DType::kInt32;
  return OwnLoop(signature, wide ? Backward<int32_t> : Backward<uint8_t>);
}

}  // namespace neap::cpu
