#include "neap/layers/multiply.h"

#include <algorithm>

#include "neap/layers/cpu/candidates.h"
#include "neap/layers/cpu/channel_rows.h"

namespace neap::cpu {
namespace {

using namespace operands;

// The images of a, of b and of their product as rows. With a factor per channel, a row has one
// factor in NCHW, and the factors of an image's rows are the same in NHWC.
struct Factors {
  ChannelRows rows;
  bool per_channel;
};

Factors FactorsOf(const StepSignature& signature) {
  const TensorSpec& a = signature.Spec(X(0));
  return {ChannelRowsOf(a), a.shape != signature.Spec(X(1)).shape};
}

void Forward(const LoopArgs& args) {
  const auto [rows, per_channel] = FactorsOf(args.signature);
  const float* const a = args.Get<float>(X(0));
  const float* const b = args.Get<float>(X(1));
  float* const y = args.Get<float>(Y());
  const int64_t image = rows.channels * rows.pixels;
  if (!per_channel) {
    for (int64_t i = 0; i < rows.images * image; ++i) y[i] = a[i] * b[i];
  } else if (rows.channels_last) {
    for (int64_t r = 0; r < rows.count(); ++r) {
      const int64_t begin = r * rows.channels;
      const float* const factors = b + r / rows.pixels * rows.channels;
      for (int64_t c = 0; c < rows.channels; ++c) y[begin + c] = a[begin + c] * factors[c];
    }
  } else {
    for (int64_t r = 0; r < rows.images * rows.channels; ++r) {
      const float factor = b[r];
      for (int64_t i = r * rows.pixels; i < (r + 1) * rows.pixels; ++i) y[i] = a[i] * factor;
    }
  }
}

// A gradient, to which a product is added if it already holds a partial sum.
struct Gradient {
  Gradient(const LoopArgs& args, Operand operand)
      : values(args.Get<float>(operand)), adds(args.signature.Accumulates(operand)) {}
  void Put(int64_t i, float value) const { values[i] = adds ? values[i] + value : value; }
  float* values;
  bool adds;
};

void BackwardElementwise(const LoopArgs& args) {
  const float* const a = args.Get<float>(X(0));
  const float* const b = args.Get<float>(X(1));
  const float* const dy = args.Get<float>(Dy());
  const Gradient da(args, Dx(0)), db(args, Dx(1));
  const int64_t elements = args.signature.Spec(Dy()).elements();
  for (int64_t i = 0; i < elements; ++i) {
    const float factor = a[i], gradient = dy[i];  // da may lie over either of them
    da.Put(i, gradient * b[i]);
    db.Put(i, gradient * factor);
  }
}

// Of one factor per channel. `sums` has room for the channels of an image.
void BackwardPerChannel(const LoopArgs& args, const ChannelRows& rows, float* sums) {
  const float* const a = args.Get<float>(X(0));
  const float* const b = args.Get<float>(X(1));
  const float* const dy = args.Get<float>(Dy());
  const Gradient da(args, Dx(0)), db(args, Dx(1));
  const int64_t image = rows.channels * rows.pixels;
  for (int64_t n = 0; n < rows.images; ++n) {
    const float* const factors = b + n * rows.channels;
    std::fill_n(sums, rows.channels, 0.0F);
    const ChannelRows one = {1, rows.channels, rows.pixels, rows.channels_last};
    ForEachElement(one, [=](int64_t offset, int64_t c) {
      const int64_t i = n * image + offset;
      const float gradient = dy[i];
      sums[c] += gradient * a[i];
      da.Put(i, gradient * factors[c]);
    });
    for (int64_t c = 0; c < rows.channels; ++c) db.Put(n * rows.channels + c, sums[c]);
  }
}

void Backward(const LoopArgs& args) {
  const auto [rows, per_channel] = FactorsOf(args.signature);
  if (!per_channel) return BackwardElementwise(args);
  BackwardPerChannel(args, rows, args.Workspace<float>());
}

}  // namespace

absl::StatusOr<Candidates> MultiplyForward(const StepSignature& signature) {
  return OwnLoop(signature, Forward);
}

absl::StatusOr<Candidates> MultiplyBackward(const StepSignature& signature) {
  const int64_t channels = signature.Spec(X(0)).shape.c();
  return OwnLoop(signature, Backward, channels * static_cast<int64_t>(sizeof(float)));
}

}  // namespace neap::cpu
