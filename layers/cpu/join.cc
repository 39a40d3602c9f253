#include "neap/layers/join.h"

#include <algorithm>

#include "neap/core/base/float16.h"
#include "neap/layers/cpu/candidates.h"
#include "neap/layers/cpu/concatenation.h"

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
// it is stored. `for_each_term(add)` calls add(term) for each term.
template <typename ForEachTerm>
void Sum(int64_t elements, const ForEachTerm& for_each_term, float* y) {
  constexpr int64_t kChunk = 512;
  for (int64_t begin = 0; begin < elements; begin += kChunk) {
    float sum[kChunk] = {};
    const int64_t count = std::min(kChunk, elements - begin);
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
