#include "neap/layers/join.h"

#include <algorithm>

#include "neap/core/base/float16.h"
#include "neap/layers/cpu/candidates.h"
#include "neap/layers/cpu/concatenation.h"
#include "neap/layers/cpu/norm/channel_rows.h"

namespace neap::cpu {
namespace {

using namespace operands;

// Calls f for the operands of one slot in the order of their index: x_0, x_1, ... or dx_0, dx_1,
// ... The order matters if two inputs are the same tensor: then dx_0 is written and dx_1 adds to
// it.
template <typename F>
void ForEachOfSlot(const StepSignature& signature, Slot slot, F f) {
  for (int i = 0;; ++i) {
    const std::optional<size_t> position = signature.Find({slot, i});
    if (!position) return;
    f(*position);
  }
}

// y may share memory with any of the terms, because each chunk is summed in a local buffer before
// it is stored. `for_each_term(add)` calls add(term) for each term. Sums begin with -0, to which
// any term, also -0, adds as itself.
template <typename ForEachTerm>
void Sum(int64_t elements, const ForEachTerm& for_each_term, float* y) {
  constexpr int64_t kChunk = 512;
  for (int64_t begin = 0; begin < elements; begin += kChunk) {
    float sum[kChunk];
    const int64_t count = std::min(kChunk, elements - begin);
    std::fill_n(sum, count, -0.0F);
    for_each_term([&](const float* term) {
      for (int64_t i = 0; i < count; ++i) sum[i] += term[begin + i];
    });
    std::copy_n(sum, count, y + begin);
  }
}

void AddForwardLoop(const LoopArgs& args) {
  const auto for_each_input = [&](const auto& add) {
    ForEachOfSlot(args.signature, Slot::kInput, [&](size_t position) {
      add(static_cast<const float*>(args.run.operands[position]));
    });
  };
  Sum(args.signature.Spec(Y()).elements(), for_each_input, args.Get<float>(Y()));
}

// The sum of x_0 and one value for each of its images and channels.
void AddPerChannelForward(const LoopArgs& args) {
  const float* const x = args.Get<float>(X(0));
  const float* const per_channel = args.Get<float>(X(1));
  float* const y = args.Get<float>(Y());
  ForEachOfImages(ChannelRowsOf(args.signature.Spec(X(0))),
                  [=](int64_t i, int64_t of_image) { y[i] = x[i] + per_channel[of_image]; });
}

// dx_0 comes last, since it may lie over dy.
void AddPerChannelBackward(const LoopArgs& args) {
  const float* const dy = args.Get<float>(Dy());
  double* const sums = args.Workspace<double>();
  const int64_t count = args.Elements(Dx(1));
  std::fill_n(sums, count, 0.0);
  ForEachOfImages(ChannelRowsOf(args.signature.Spec(Dy())), [=](int64_t i, int64_t of_image) {
    sums[of_image] += static_cast<double>(dy[i]);
  });
  float* const dper_channel = args.Get<float>(Dx(1));
  const bool adds = args.signature.Accumulates(Dx(1));
  for (int64_t i = 0; i < count; ++i)
    dper_channel[i] = static_cast<float>(sums[i]) + (adds ? dper_channel[i] : 0.0F);
  float* const dx = args.Find<float>(Dx(0));
  if (dx == nullptr) return;
  CopyOrAdd(dy, args.Elements(Dy()), args.signature.Accumulates(Dx(0)), dx);
}

void AddGradientsLoop(const LoopArgs& args) {
  float* const sum = args.Get<float>(Dx());
  const auto for_both = [&](const auto& add) {
    add(sum);
    add(args.Get<float>(Addend()));
  };
  Sum(args.signature.Spec(Dx()).elements(), for_both, sum);
}

// Sums of 16 bits are not converted as other operands are, since an addition has no workspace.
template <typename T>
void AddHalfGradients(const LoopArgs& args) {
  T* const sum = args.Get<T>(Dx());
  const T* const addend = args.Get<T>(Addend());
  const int64_t elements = args.signature.Spec(Dx()).elements();
  for (int64_t i = 0; i < elements; ++i)
    sum[i] = T(static_cast<float>(sum[i]) + static_cast<float>(addend[i]));
}

// Writes come before sums, because two inputs may be the same tensor. Operands of gradients that
// the program does not need are missing.
void AddBackwardLoop(const LoopArgs& args) {
  const float* const dy = args.Get<float>(Dy());
  const int64_t elements = args.signature.Spec(Dy()).elements();
  for (Access access : {Access::kWrite, Access::kAccumulate}) {
    for (size_t k = 0; k < args.signature.operands.size(); ++k) {
      const OperandSpec& operand = args.signature.operands[k];
      if (operand.operand.slot != Slot::kInputGrad || operand.access != access) continue;
      CopyOrAdd(dy, elements, access == Access::kAccumulate,
                static_cast<float*>(args.run.operands[k]));
    }
  }
}

void ConcatForwardLoop(const LoopArgs& args) {
  const Concatenation whole = ConcatenationOf(args.signature.Spec(Y()));
  float* y = args.Get<float>(Y());
  ForEachOfSlot(args.signature, Slot::kInput, [&](size_t position) {
    y = CopyInto(whole, static_cast<const float*>(args.run.operands[position]),
                 args.signature.operands[position].tensor.shape.c(), y);
  });
}

void ConcatBackwardLoop(const LoopArgs& args) {
  const Concatenation whole = ConcatenationOf(args.signature.Spec(Dy()));
  const float* dy = args.Get<float>(Dy());
  ForEachOfSlot(args.signature, Slot::kInputGrad, [&](size_t position) {
    const OperandSpec& operand = args.signature.operands[position];
    dy = CopyFrom(whole, dy, operand.tensor.shape.c(), operand.access == Access::kAccumulate,
                  static_cast<float*>(args.run.operands[position]));
  });
}

}  // namespace

absl::StatusOr<Candidates> AddForward(const StepSignature& signature) {
  if (signature.Spec(X(1)).elements() != signature.Spec(Y()).elements())
    return OwnLoop(signature, AddPerChannelForward);
  return OwnLoop(signature, AddForwardLoop);
}

absl::StatusOr<Candidates> AddGradients(const StepSignature& signature) {
  switch (signature.Spec(Dx()).dtype) {
    case DType::kFp16:
      return OwnLoop(signature, AddHalfGradients<Fp16>);
    case DType::kBf16:
      return OwnLoop(signature, AddHalfGradients<Bf16>);
    default:
      return OwnLoop(signature, AddGradientsLoop);
  }
}

absl::StatusOr<Candidates> AddBackward(const StepSignature& signature) {
  const int64_t of_second = signature.Has(Dx(1)) ? signature.Spec(Dx(1)).elements() : 0;
  if (of_second != 0 && of_second != signature.Spec(Dy()).elements()) {
    return OwnLoop(signature, AddPerChannelBackward,
                   of_second * static_cast<int64_t>(sizeof(double)));
  }
  return OwnLoop(signature, AddBackwardLoop);
}

absl::StatusOr<Candidates> ConcatForward(const StepSignature& signature) {
  return OwnLoop(signature, ConcatForwardLoop);
}

absl::StatusOr<Candidates> ConcatBackward(const StepSignature& signature) {
  int64_t channels = 0;
  ForEachOfSlot(signature, Slot::kInputGrad, [&](size_t position) {
    channels += signature.operands[position].tensor.shape.c();
  });
  if (channels != signature.Spec(Dy()).shape.c()) {
    return absl::UnimplementedError(
        "the CPU's concat backward_data needs the gradients of all inputs");
  }
  return OwnLoop(signature, ConcatBackwardLoop);
}

}  // namespace neap::cpu
