// A convolution with a folded batch norm: loops over pixels, with sums in float64.
#include "neap/layers/fusion/folded_convolution.h"

#include <algorithm>

#include "neap/layers/cpu/candidates.h"
#include "neap/layers/cpu/converted.h"
#include "neap/layers/cpu/norm/batch_norm_loops.h"
#include "neap/layers/cpu/norm/channel_rows.h"
#include "neap/layers/cpu/norm/relu_mask.h"

namespace neap::cpu {
namespace {

using namespace operands;

// The sizes of the matrices of a step: x is {pixels, in}, dz and y are {pixels, out}, the weight is
// {out, in}.
struct Sizes {
  int64_t pixels, in, out;
};
Sizes SizesOf(const StepSignature& signature) {
  const TensorSpec& x = signature.Spec(X(0));
  return {x.elements() / x.shape.c(), x.shape.c(), signature.Spec(Param(0)).shape.n()};
}

double Dot(const float* a, const float* b, int64_t count) {
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return sum;
}

// Writes the mean of x and its covariance, the sum over pixels of (x - mean) (x - mean)^T / pixels.
void Moments(const Sizes& s, const float* x, double* sums, float* mean, float* cov) {
  const double count = static_cast<double>(s.pixels);
  std::fill_n(sums, s.in, 0.0);
  for (int64_t i = 0; i < s.pixels * s.in; ++i) sums[i % s.in] += static_cast<double>(x[i]);
  for (int64_t c = 0; c < s.in; ++c) mean[c] = static_cast<float>(sums[c] / count);
  for (int64_t c = 0; c < s.in; ++c) {
    std::fill_n(sums, s.in, 0.0);
    for (int64_t p = 0; p < s.pixels; ++p) {
      const float* const row = x + p * s.in;
      const double centred = static_cast<double>(row[c] - mean[c]);
      for (int64_t d = 0; d < s.in; ++d) sums[d] += centred * static_cast<double>(row[d] - mean[d]);
    }
    for (int64_t d = 0; d < s.in; ++d) cov[c * s.in + d] = static_cast<float>(sums[d] / count);
  }
}

// w^T cov w.
double Variance(const float* w, const float* cov, int64_t in) {
  double variance = 0;
  for (int64_t c = 0; c < in; ++c) variance += static_cast<double>(w[c]) * Dot(w, cov + c * in, in);
  return std::max(variance, 0.0);
}

// The weight and the bias that the normalisation has become part of, in the type of x.
struct Folded {
  float* weight;
  float* bias;
};
int64_t FoldedFloats(const Sizes& s) { return s.out * s.in + s.out; }

// F.
void FoldWeight(const LoopArgs& args, const Sizes& s, const float* invstd, float* folded) {
  const float* const weight = args.Get<float>(Param(0));
  const float* const gamma = args.Get<float>(Param(1));
  RoundAs(args.signature.Spec(X(0)).dtype, [&](auto round) {
    for (int64_t i = 0; i < s.out * s.in; ++i)
      folded[i] = round(gamma[i / s.in] * invstd[i / s.in] * weight[i]);
  });
}

// The bias for which the normalised mean is beta, where `mean` is that of the convolution's result
// by the folded weight.
template <typename Mean>
void FoldBias(const LoopArgs& args, const Sizes& s, Mean mean, float* bias) {
  const float* const beta = args.Get<float>(Param(2));
  RoundAs(args.signature.Spec(X(0)).dtype, [&](auto round) {
    for (int64_t k = 0; k < s.out; ++k)
      bias[k] = round(static_cast<float>(static_cast<double>(beta[k]) - mean(k)));
  });
}

// Forward and its rerun both call this function, so they give the same bits.
[[gnu::noinline]] void Apply(const LoopArgs& args, const Sizes& s, const Folded& folded) {
  const float* const x = args.Get<float>(X(0));
  const float* const addend = args.Find<float>(X(1));
  float* const y = args.Get<float>(Y());
  const bool relu = args.signature.layer.As<FoldedConvolution>()->relu;
  for (int64_t p = 0; p < s.pixels; ++p) {
    for (int64_t k = 0; k < s.out; ++k) {
      double sum =
          static_cast<double>(folded.bias[k]) + Dot(x + p * s.in, folded.weight + k * s.in, s.in);
      if (addend != nullptr) sum += static_cast<double>(addend[p * s.out + k]);
      const float value = static_cast<float>(sum);
      y[p * s.out + k] = relu ? ReluOf(value) : value;
    }
  }
  const TensorSpec& spec = args.signature.Spec(Y());
  uint8_t* const mask = args.Find<uint8_t>(Saved(3));
  if (mask == nullptr) return;
  RoundAs(spec.dtype, [&](auto round) {  // values that round to 0 pass no gradient
    for (int64_t i = 0; i < spec.elements(); ++i) y[i] = round(y[i]);
  });
  WriteMask(spec, y, mask);
}

void Statistics(const LoopArgs& args, const Sizes& s, double* sums) {
  float* const mean = args.Get<float>(Saved(0));
  float* const invstd = args.Get<float>(Saved(1));
  float* const cov = args.Get<float>(Saved(2));
  Moments(s, args.Get<float>(X(0)), sums, mean, cov);
  const BatchNorm& norm = args.signature.layer.As<FoldedConvolution>()->norm;
  const double count = static_cast<double>(s.pixels), unbiased = count / std::max(count - 1, 1.0);
  float* const running_mean = args.Get<float>(State(0));
  float* const running_var = args.Get<float>(State(1));
  for (int64_t k = 0; k < s.out; ++k) {
    const float* const w = args.Get<float>(Param(0)) + k * s.in;
    const double variance = Variance(w, cov, s.in);
    invstd[k] = InverseDeviation(variance, norm.epsilon);
    const auto blend = [&](float& running, double batch) {
      running = (1 - norm.momentum) * running + norm.momentum * static_cast<float>(batch);
    };
    blend(running_mean[k], Dot(w, mean, s.in));
    blend(running_var[k], variance * unbiased);
  }
}

void Forward(const LoopArgs& args) {
  const Sizes s = SizesOf(args.signature);
  const Folded folded = {args.Workspace<float>(), args.Workspace<float>() + s.out * s.in};
  if (args.signature.mode == Mode::kInference) {
    const float epsilon = args.signature.layer.As<FoldedConvolution>()->norm.epsilon;
    float* const invstd = folded.bias + s.out;
    for (int64_t k = 0; k < s.out; ++k)
      invstd[k] = InverseDeviation(static_cast<double>(args.Get<float>(State(1))[k]), epsilon);
    FoldWeight(args, s, invstd, folded.weight);
    const float* const gamma = args.Get<float>(Param(1));
    const float* const mean = args.Get<float>(State(0));
    FoldBias(
        args, s, [=](int64_t k) { return static_cast<double>(gamma[k] * invstd[k]) * mean[k]; },
        folded.bias);
    return Apply(args, s, folded);
  }
  // The sums are no longer needed when the weight is folded.
  if (!args.signature.rerun) Statistics(args, s, args.Workspace<double>());
  const float* const mean = args.Get<float>(Saved(0));
  FoldWeight(args, s, args.Get<float>(Saved(1)), folded.weight);
  FoldBias(
      args, s, [=](int64_t k) { return Dot(folded.weight + k * s.in, mean, s.in); }, folded.bias);
  Apply(args, s, folded);
}

void BackwardActivation(const LoopArgs& args) {
  const TensorSpec& spec = args.signature.Spec(Dz());
  const int64_t per_byte = MaskElements(spec.dtype);
  const uint8_t* const mask = args.Get<uint8_t>(Saved(3));
  const float* const dy = args.Get<float>(Dy());
  const float* const other = args.Find<float>(Dy(1));
  float* const dz = args.Get<float>(Dz());
  RoundAs(spec.dtype, [&](auto round) {
    for (int64_t i = 0; i < spec.elements(); ++i) {
      const float sum = other == nullptr ? dy[i] : round(dy[i] + other[i]);
      dz[i] = PassesRelu(mask, per_byte, i) ? sum : 0;
    }
  });
  SumChannels(
      ChannelRowsOf(spec), [=](int64_t i) { return dz[i]; }, args.Workspace<double>(),
      args.Get<float>(ParamGrad(2)));
}

// The gradient of the normalised values.
const float* GradientOf(const LoopArgs& args) {
  return args.Get<float>(args.signature.Has(Dz()) ? Dz() : Dy());
}

void BackwardParams(const LoopArgs& args) {
  const Sizes s = SizesOf(args.signature);
  const float* const x = args.Get<float>(X(0));
  const float* const dz = GradientOf(args);
  const float* const gamma = args.Get<float>(Param(1));
  const float* const mean = args.Get<float>(Saved(0));
  const float* const invstd = args.Get<float>(Saved(1));
  const float* const cov = args.Get<float>(Saved(2));
  float* const dbeta = args.Get<float>(ParamGrad(2));
  if (args.signature.Has(Dy())) {
    SumChannels(
        ChannelRowsOf(args.signature.Spec(Dy())), [=](int64_t i) { return dz[i]; },
        args.Workspace<double>(), dbeta);
  }
  double* const centred = args.Workspace<double>();  // H_k - dbeta_k mean
  for (int64_t k = 0; k < s.out; ++k) {
    const float* const w = args.Get<float>(Param(0)) + k * s.in;
    float* const dw = args.Get<float>(ParamGrad(0)) + k * s.in;
    std::fill_n(centred, s.in, 0.0);
    for (int64_t p = 0; p < s.pixels; ++p) {
      const double d = static_cast<double>(dz[p * s.out + k]);
      for (int64_t c = 0; c < s.in; ++c) centred[c] += d * static_cast<double>(x[p * s.in + c]);
    }
    double sum = 0;
    for (int64_t c = 0; c < s.in; ++c) {
      centred[c] -= static_cast<double>(dbeta[k]) * static_cast<double>(mean[c]);
      sum += static_cast<double>(w[c]) * centred[c];
    }
    const double deviation = static_cast<double>(invstd[k]), dgamma = deviation * sum;
    args.Get<float>(ParamGrad(1))[k] = static_cast<float>(dgamma);
    for (int64_t c = 0; c < s.in; ++c) {
      const double of_norm = dgamma * deviation * Dot(w, cov + c * s.in, s.in);
      dw[c] =
          static_cast<float>(static_cast<double>(gamma[k]) * deviation * (centred[c] - of_norm));
    }
  }
}

// Writes -M, M = W^T diag(D) W.
void Projection(const LoopArgs& args, const Sizes& s, float* projection) {
  const float* const weight = args.Get<float>(Param(0));
  const float* const gamma = args.Get<float>(Param(1));
  const float* const invstd = args.Get<float>(Saved(1));
  const float* const dgamma = args.Get<float>(ParamGrad(1));
  RoundAs(args.signature.Spec(X(0)).dtype, [&](auto round) {
    for (int64_t i = 0; i < s.in * s.in; ++i) {
      double sum = 0;
      for (int64_t k = 0; k < s.out; ++k) {
        const float* const w = weight + k * s.in;
        const float d = gamma[k] * invstd[k] * invstd[k] * dgamma[k] / static_cast<float>(s.pixels);
        sum += static_cast<double>(d * w[i / s.in]) * static_cast<double>(w[i % s.in]);
      }
      projection[i] = round(static_cast<float>(-sum));
    }
  });
}

void BackwardData(const LoopArgs& args) {
  const Sizes s = SizesOf(args.signature);
  const float* const x = args.Get<float>(X(0));
  const float* const dz = GradientOf(args);
  const float* const mean = args.Get<float>(Saved(0));
  const float* const dbeta = args.Get<float>(ParamGrad(2));
  double* const shift = args.Workspace<double>();
  double* const sums = shift + s.in;
  float* const folded = reinterpret_cast<float*>(sums + s.in);
  float* const projection = folded + s.out * s.in;
  FoldWeight(args, s, args.Get<float>(Saved(1)), folded);
  Projection(args, s, projection);
  for (int64_t c = 0; c < s.in; ++c) {
    shift[c] = -Dot(projection + c * s.in, mean, s.in);
    for (int64_t k = 0; k < s.out; ++k)
      shift[c] -= static_cast<double>(folded[k * s.in + c]) * static_cast<double>(dbeta[k]) /
                  static_cast<double>(s.pixels);
  }
  for (int64_t p = 0; p < s.pixels; ++p) {
    for (int64_t c = 0; c < s.in; ++c)
      sums[c] = shift[c] + Dot(x + p * s.in, projection + c * s.in, s.in);
    for (int64_t k = 0; k < s.out; ++k) {
      const double d = static_cast<double>(dz[p * s.out + k]);
      for (int64_t c = 0; c < s.in; ++c) sums[c] += d * static_cast<double>(folded[k * s.in + c]);
    }
    for (int64_t c = 0; c < s.in; ++c)
      args.Get<float>(Dx(0))[p * s.in + c] = static_cast<float>(sums[c]);
  }
}

int64_t Bytes(int64_t doubles, int64_t floats) {
  return doubles * static_cast<int64_t>(sizeof(double)) +
         floats * static_cast<int64_t>(sizeof(float));
}

}  // namespace

absl::StatusOr<Candidates> FoldedConvolutionForward(const StepSignature& signature) {
  const Sizes s = SizesOf(signature);
  return OwnLoop(signature, Forward, Bytes(s.in, FoldedFloats(s) + s.out));
}

absl::StatusOr<Candidates> FoldedConvolutionBackwardActivation(const StepSignature& signature) {
  return OwnLoop(signature, BackwardActivation, Bytes(signature.Spec(Dz()).shape.c(), 0));
}

absl::StatusOr<Candidates> FoldedConvolutionBackwardParams(const StepSignature& signature) {
  const Sizes s = SizesOf(signature);
  return OwnLoop(signature, BackwardParams, Bytes(std::max(s.in, s.out), 0));
}

absl::StatusOr<Candidates> FoldedConvolutionBackwardData(const StepSignature& signature) {
  const Sizes s = SizesOf(signature);
  return OwnLoop(signature, BackwardData, Bytes(2 * s.in, (s.out + s.in) * s.in));
}

}  // namespace neap::cpu
