#include "neap/layers/channel_shuffle.h"

#include <algorithm>

#include "neap/layers/cpu/candidates.h"

namespace neap::cpu {
namespace {

using namespace operands;

void Transpose(const ChannelMatrix& m, const float* from, float* to) {
  const int64_t channels = m.rows * m.columns;
  for (int64_t part = 0; part < m.outer; ++part) {
    for (int64_t column = 0; column < m.columns; ++column) {
      for (int64_t row = 0; row < m.rows; ++row) {
        const int64_t channel = part * channels + row * m.columns + column;
        to = std::copy_n(from + channel * m.run, m.run, to);
      }
    }
  }
}

void Shuffle(const LoopArgs& args) {
  const bool backward = args.signature.phase == Phase::kBackwardData;
  const Operand from = backward ? Dy() : X();
  Transpose(
      MatrixOf(*args.signature.layer.As<ChannelShuffle>(), args.signature.Spec(from), backward),
      args.Get<float>(from), args.Get<float>(backward ? Dx() : Y()));
}

}  // namespace

absl::StatusOr<Candidates> ChannelShuffleSteps(const StepSignature& signature) {
  return OwnLoop(signature, Shuffle);
}

}  // namespace neap::cpu
