#include "neap/layers/lrn.h"

#include <cmath>

#include "neap/layers/cpu/candidates.h"

namespace neap::cpu {
namespace {

using namespace operands;

// Pixels are processed in blocks of all channels x kLanes pixels, copied to the workspace. In the
// block the layout does not matter, neighbouring channels are in cache, and dx may overwrite dy in
// memory while the block still has dy.
constexpr int64_t kLanes = 16;

struct Block {
  int64_t first;  // offset of channel 0 of the first pixel
  int64_t pixels;
  int64_t channel_stride, pixel_stride;
};

// Calls f for all blocks of a tensor of `spec`.
template <typename F>
void ForEachBlock(const TensorSpec& spec, F f) {
  const bool channels_last = spec.layout == Layout::kChannelsLast;
  const int64_t channels = spec.shape.c();
  const int64_t pixels = spec.shape.positions();
  for (int64_t n = 0; n < spec.shape.n(); ++n) {
    for (int64_t p = 0; p < pixels; p += kLanes) {
      f(Block{.first = n * channels * pixels + p * (channels_last ? channels : 1),
              .pixels = std::min(kLanes, pixels - p),
              .channel_stride = channels_last ? 1 : pixels,
              .pixel_stride = channels_last ? channels : 1});
    }
  }
}

void Load(const float* from, const Block& block, int64_t channels, float* to) {
  for (int64_t c = 0; c < channels; ++c) {
    for (int64_t p = 0; p < kLanes; ++p) {
      const int64_t at = block.first + c * block.channel_stride + p * block.pixel_stride;
      to[c * kLanes + p] = p < block.pixels ? from[at] : 0.0F;
    }
  }
}

void Store(const float* from, const Block& block, int64_t channels, float* to) {
  for (int64_t c = 0; c < channels; ++c) {
    for (int64_t p = 0; p < block.pixels; ++p) {
      to[block.first + c * block.channel_stride + p * block.pixel_stride] = from[c * kLanes + p];
    }
  }
}

// base^-exponent; AlexNet's exponent 0.75 uses square roots, which vectorise.
float NegativePower(float base, float exponent) {
  if (exponent != 0.75F) return std::pow(base, -exponent);
  const float root = std::sqrt(base);
  return 1.0F / (root * std::sqrt(root));
}

// out[c] = sum of values[j] over the channels j within `size / 2` of c.
void SumNeighbours(const float* values, int64_t channels, int64_t c, int64_t size, float* out) {
  const int64_t begin = std::max<int64_t>(0, c - size / 2);
  const int64_t end = std::min(channels, c + size / 2 + 1);
  for (int64_t p = 0; p < kLanes; ++p) out[p] = 0;
  for (int64_t j = begin; j < end; ++j) {
    for (int64_t p = 0; p < kLanes; ++p) out[p] += values[j * kLanes + p];
  }
}

// s_c = k + alpha / size * (sum of squares); `squares` is x^2.
void Scale(const LocalResponseNorm& layer, const float* squares, int64_t channels, int64_t c,
           float* s) {
  SumNeighbours(squares, channels, c, layer.size, s);
  const float factor = layer.alpha / static_cast<float>(layer.size);
  for (int64_t p = 0; p < kLanes; ++p) s[p] = layer.k + factor * s[p];
}

void Square(const float* x, int64_t count, float* squares) {
  for (int64_t i = 0; i < count; ++i) squares[i] = x[i] * x[i];
}

void Forward(const LoopArgs& args) {
  const LocalResponseNorm& layer = *args.signature.layer.As<LocalResponseNorm>();
  const TensorSpec& spec = args.signature.Spec(X());
  const int64_t channels = spec.shape.c();
  const float* const from = args.Get<float>(X());
  float* const to = args.Get<float>(Y());
  float* const x = args.Workspace<float>();
  float* const squares = x + channels * kLanes;
  ForEachBlock(spec, [&](const Block& block) {
    Load(from, block, channels, x);
    Square(x, channels * kLanes, squares);
    for (int64_t c = 0; c < channels; ++c) {
      float s[kLanes];
      Scale(layer, squares, channels, c, s);
      for (int64_t p = 0; p < kLanes; ++p) x[c * kLanes + p] *= NegativePower(s[p], layer.beta);
    }
    Store(x, block, channels, to);
  });
}

// dx_c = dy_c s_c^-beta - 2 alpha beta / size x_c sum_j (dy_j x_j s_j^(-beta - 1)), over the j in
// c's window. On return dy holds dx.
void BackwardBlock(const LocalResponseNorm& layer, int64_t channels, const float* x, float* dy,
                   float* squares, float* terms) {
  Square(x, channels * kLanes, squares);
  for (int64_t c = 0; c < channels; ++c) {
    float s[kLanes];
    Scale(layer, squares, channels, c, s);
    for (int64_t p = 0; p < kLanes; ++p) {
      const int64_t at = c * kLanes + p;
      dy[at] *= NegativePower(s[p], layer.beta);
      terms[at] = dy[at] * x[at] / s[p];
    }
  }
  const float factor = 2 * layer.alpha * layer.beta / static_cast<float>(layer.size);
  for (int64_t c = 0; c < channels; ++c) {
    float sum[kLanes];
    SumNeighbours(terms, channels, c, layer.size, sum);
    for (int64_t p = 0; p < kLanes; ++p) dy[c * kLanes + p] -= factor * x[c * kLanes + p] * sum[p];
  }
}

void Backward(const LoopArgs& args) {
  const LocalResponseNorm& layer = *args.signature.layer.As<LocalResponseNorm>();
  const TensorSpec& spec = args.signature.Spec(X());
  const int64_t channels = spec.shape.c();
  const int64_t block_elements = channels * kLanes;
  float* const x = args.Workspace<float>();
  float* const dy = x + block_elements;
  float* const squares = dy + block_elements;
  float* const terms = squares + block_elements;
  ForEachBlock(spec, [&](const Block& block) {
    Load(args.Get<float>(X()), block, channels, x);
    Load(args.Get<float>(Dy()), block, channels, dy);
    BackwardBlock(layer, channels, x, dy, squares, terms);
    Store(dy, block, channels, args.Get<float>(Dx()));
  });
}

int64_t BlockBytes(const StepSignature& signature) {
  return signature.Spec(X()).shape.c() * kLanes * static_cast<int64_t>(sizeof(float));
}

}  // namespace

absl::StatusOr<Candidates> LrnForward(const StepSignature& signature) {
  return OwnLoop(signature, Forward, 2 * BlockBytes(signature));
}

absl::StatusOr<Candidates> LrnBackward(const StepSignature& signature) {
  return OwnLoop(signature, Backward, 4 * BlockBytes(signature));
}

}  // namespace neap::cpu
