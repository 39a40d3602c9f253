// Group norm and instance norm, alone or with an activation, and layer norm where the channels of a
// position are neighbours.
#include "neap/layers/cpu/norm/image_norms.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <type_traits>
#include <variant>

#include "neap/layers/cpu/activation_functions.h"
#include "neap/layers/cpu/converted.h"
#include "neap/layers/fusion/activated_group_norm.h"
#include "neap/layers/norm/group_norm.h"
#include "neap/layers/norm/layer_norm.h"

namespace neap::cpu {
namespace {

using namespace operands;

// The sets of values of an image that are normalised together: of a group norm a group's channels
// at all positions, of a layer norm all channels at one.
struct NormSets {
  int64_t images, sets;                 // sets of an image
  int64_t channels, positions;          // of a set
  int64_t channel_step, position_step;  // elements from one to the next
  int64_t set_step, image_step;
  int64_t set_channels;  // from the first channel of a set to that of the next
  float epsilon;

  int64_t count() const { return channels * positions; }
};

NormSets NormSetsOf(const StepSignature& signature) {
  const TensorSpec& x = signature.Spec(X());
  const int64_t channels = x.shape.c(), positions = x.shape.positions();
  const bool last = x.layout == Layout::kChannelsLast;
  NormSets sets = {.images = x.shape.n(),
                   .channel_step = last ? 1 : positions,
                   .position_step = last ? channels : 1,
                   .image_step = channels * positions};
  if (const auto* const layer = signature.layer.As<LayerNorm>()) {
    sets.sets = positions;
    sets.channels = channels;
    sets.positions = 1;
    sets.set_step = sets.position_step;
    sets.set_channels = 0;
    sets.epsilon = layer->epsilon;
    return sets;
  }
  const GroupNorm group = GroupNormOf(WithoutActivation(signature.layer), channels);
  sets.sets = group.groups;
  sets.channels = channels / group.groups;
  sets.positions = positions;
  sets.set_step = sets.channels * sets.channel_step;
  sets.set_channels = sets.channels;
  sets.epsilon = group.epsilon;
  return sets;
}

// Calls visit(set, begin, channel) for every set, in the order of its statistics. `begin` is its
// first element, and `channel` its first channel.
template <typename Visit>
void ForEachSet(const NormSets& sets, Visit visit) {
  for (int64_t n = 0; n < sets.images; ++n) {
    for (int64_t s = 0; s < sets.sets; ++s)
      visit(n * sets.sets + s, n * sets.image_step + s * sets.set_step, s * sets.set_channels);
  }
}

// Calls visit(i, c) for every element of a set, whose channel in the set is c.
template <typename Visit>
void ForEachOfSet(const NormSets& sets, int64_t begin, Visit visit) {
  if (sets.channel_step == 1) {
    for (int64_t p = 0; p < sets.positions; ++p) {
      const int64_t first = begin + p * sets.position_step;
      for (int64_t c = 0; c < sets.channels; ++c) visit(first + c, c);
    }
    return;
  }
  for (int64_t c = 0; c < sets.channels; ++c) {  // positions are consecutive
    const int64_t first = begin + c * sets.channel_step;
    for (int64_t p = 0; p < sets.positions; ++p) visit(first + p, c);
  }
}

// sums[c] = the sum of value(i, c) over channel c of a set.
template <typename Value>
void SumChannelsOfSet(const NormSets& sets, int64_t begin, double* sums, Value value) {
  constexpr int64_t kLanes = 8;  // independent sums
  if (sets.channel_step == 1) {
    std::fill_n(sums, sets.channels, 0.0);
    ForEachOfSet(sets, begin, [&](int64_t i, int64_t c) { sums[c] += value(i, c); });
    return;
  }
  for (int64_t c = 0; c < sets.channels; ++c) {
    const int64_t first = begin + c * sets.channel_step;
    double lanes[kLanes] = {};
    int64_t p = 0;
    for (; p + kLanes <= sets.positions; p += kLanes) {
      for (int64_t k = 0; k < kLanes; ++k) lanes[k] += value(first + p + k, c);
    }
    for (; p < sets.positions; ++p) lanes[0] += value(first + p, c);
    sums[c] = std::accumulate(lanes, lanes + kLanes, 0.0);
  }
}

struct SetStatistics {
  float mean, invstd;
};

// Two passes, because subtracting the mean first avoids cancellation.
SetStatistics StatisticsOf(const NormSets& sets, int64_t begin, const float* x, double* sums) {
  const auto count = static_cast<double>(sets.count());
  const auto mean_of = [&](auto value) {
    SumChannelsOfSet(sets, begin, sums, value);
    return std::accumulate(sums, sums + sets.channels, 0.0) / count;
  };
  const double mean = mean_of([x](int64_t i, int64_t) { return static_cast<double>(x[i]); });
  const double variance = mean_of([x, mean](int64_t i, int64_t) {
    const double centred = static_cast<double>(x[i]) - mean;
    return centred * centred;
  });
  const double invstd = 1.0 / std::sqrt(variance + static_cast<double>(sets.epsilon));
  return {static_cast<float>(mean), static_cast<float>(invstd)};
}

// Stores store(i, value) in y[i] for every element of a set, whose normalised value it gets.
// Forward, its rerun and backward of a norm with an activation all call this function, so they get
// the same bits. `gamma` and `beta` are those of the set, or null.
template <typename Store>
[[gnu::noinline]] void NormaliseSet(const NormSets& sets, int64_t begin, SetStatistics of,
                                    const float* gamma, const float* beta, const float* x, float* y,
                                    Store store) {
  if (gamma == nullptr) {
    ForEachOfSet(sets, begin,
                 [=](int64_t i, int64_t) { y[i] = store(i, (x[i] - of.mean) * of.invstd); });
  } else if (beta == nullptr) {
    ForEachOfSet(sets, begin, [=](int64_t i, int64_t c) {
      y[i] = store(i, (x[i] - of.mean) * (of.invstd * gamma[c]));
    });
  } else {
    ForEachOfSet(sets, begin, [=](int64_t i, int64_t c) {
      y[i] = store(i, (x[i] - of.mean) * (of.invstd * gamma[c]) + beta[c]);
    });
  }
}

// The value of a set's first channel, of values of all channels or null.
const float* FromChannel(const float* values, int64_t channel) {
  return values == nullptr ? nullptr : values + channel;
}

ReluFunction FunctionOfNorm(const Relu& layer, DType dtype) { return {layer, dtype}; }
LeakyReluFunction FunctionOfNorm(const LeakyRelu& layer, DType dtype) { return {layer, dtype}; }
SiluFunction FunctionOfNorm(const Silu& layer, DType dtype) { return {layer, dtype}; }
GeluFunction FunctionOfNorm(const Gelu& layer, DType dtype) { return {layer, dtype}; }

// Calls use(round, function) if there is an activation behind the norm. What the norm would store
// is rounded to the tensors' type, and so is its gradient.
template <typename Use>
bool WithActivationOf(const StepSignature& signature, const Use& use) {
  const auto* const activated = signature.layer.As<ActivatedGroupNorm>();
  if (activated == nullptr || !activated->activation_layer().has_value()) return false;
  const DType dtype = signature.Spec(X()).dtype;
  RoundAs(dtype, [&](auto round) {
    std::visit(
        [&]<typename Activation>(const Activation& layer) {
          if constexpr (!std::is_same_v<Activation, std::monostate>)
            use(round, FunctionOfNorm(layer, dtype));
        },
        activated->activation);
  });
  return true;
}

void ImageNormForward(const LoopArgs& args) {
  const NormSets sets = NormSetsOf(args.signature);
  const float* const x = args.Get<float>(X());
  const float* const gamma = args.Find<float>(Param(0));
  const float* const beta = args.Find<float>(Param(1));
  float* const mean = args.Find<float>(Saved(0));
  float* const invstd = args.Find<float>(Saved(1));
  float* const y = args.Get<float>(Y());
  ForEachSet(sets, [&](int64_t set, int64_t begin, int64_t channel) {
    const SetStatistics of = args.signature.rerun
                                 ? SetStatistics{mean[set], invstd[set]}
                                 : StatisticsOf(sets, begin, x, args.Workspace<double>());
    if (mean != nullptr && !args.signature.rerun) {
      mean[set] = of.mean;
      invstd[set] = of.invstd;
    }
    const auto normalise = [&](auto store) {
      NormaliseSet(sets, begin, of, FromChannel(gamma, channel), FromChannel(beta, channel), x, y,
                   store);
    };
    const bool is_activated = WithActivationOf(args.signature, [&](auto round, auto function) {
      normalise([=](int64_t, float value) { return function.Value(round(value)); });
    });
    if (!is_activated) normalise([](int64_t, float value) { return value; });
  });
}

// The gradient of the norm's result: dy, or that in front of the activation, which dx then holds.
const float* NormGradient(const LoopArgs& args, const NormSets& sets) {
  const float* const dy = args.Get<float>(Dy());
  const float* const x = args.Get<float>(X());
  const float* const gamma = args.Find<float>(Param(0));
  const float* const beta = args.Find<float>(Param(1));
  const float* const mean = args.Get<float>(Saved(0));
  const float* const invstd = args.Get<float>(Saved(1));
  float* const dz = args.Get<float>(Dx());
  const bool is_activated = WithActivationOf(args.signature, [&](auto round, auto function) {
    ForEachSet(sets, [&](int64_t set, int64_t begin, int64_t channel) {
      NormaliseSet(sets, begin, {mean[set], invstd[set]}, FromChannel(gamma, channel),
                   FromChannel(beta, channel), x, dz, [=](int64_t i, float value) {
                     return round(function.Gradient(round(value), dy[i]));
                   });
    });
  });
  return is_activated ? dz : dy;
}

// dbeta = sum dy and dgamma = sum dy * xhat per channel, where xhat is the normalised x; dx =
// invstd (gamma dy - a - xhat b), where a and b are the means of gamma dy and of gamma dy xhat over
// a set.
void ImageNormBackward(const LoopArgs& args) {
  const NormSets sets = NormSetsOf(args.signature);
  const float* const x = args.Get<float>(X());
  const float* const dy = NormGradient(args, sets);
  const float* const gamma = args.Find<float>(Param(0));
  const float* const mean = args.Get<float>(Saved(0));
  const float* const invstd = args.Get<float>(Saved(1));
  float* const dx = args.Get<float>(Dx());
  const int64_t all = args.signature.Spec(X()).shape.c();
  double* const dbeta = args.Workspace<double>();
  double* const dgamma = dbeta + all;
  double* const sum_dy = dgamma + all;
  double* const sum_dy_xhat = sum_dy + sets.channels;
  std::fill_n(dbeta, 2 * all, 0.0);
  ForEachSet(sets, [&](int64_t set, int64_t begin, int64_t channel) {
    const auto xhat = [x, of_mean = mean[set], of_invstd = invstd[set]](int64_t i) {
      return (x[i] - of_mean) * of_invstd;
    };
    SumChannelsOfSet(sets, begin, sum_dy,
                     [=](int64_t i, int64_t) { return static_cast<double>(dy[i]); });
    SumChannelsOfSet(sets, begin, sum_dy_xhat,
                     [=](int64_t i, int64_t) { return static_cast<double>(dy[i] * xhat(i)); });
    double a = 0, b = 0;
    for (int64_t c = 0; c < sets.channels; ++c) {
      const double factor = gamma == nullptr ? 1 : static_cast<double>(gamma[channel + c]);
      a += factor * sum_dy[c];
      b += factor * sum_dy_xhat[c];
      dbeta[channel + c] += sum_dy[c];
      dgamma[channel + c] += sum_dy_xhat[c];
    }
    const auto count = static_cast<double>(sets.count());
    const auto mean_dy = static_cast<float>(a / count),
               mean_dy_xhat = static_cast<float>(b / count);
    const float* const gammas = FromChannel(gamma, channel);
    ForEachOfSet(sets, begin, [=, of_invstd = invstd[set]](int64_t i, int64_t c) {
      const float d = gammas == nullptr ? dy[i] : gammas[c] * dy[i];
      dx[i] = of_invstd * (d - mean_dy - xhat(i) * mean_dy_xhat);
    });
  });
  StoreSums(args, ParamGrad(0), dgamma);
  StoreSums(args, ParamGrad(1), dbeta);
  std::fill_n(dbeta, all, 0.0);
  StoreSums(args, kAbsorbedBiasGrad, dbeta);
  AddAddend(args);
}

}  // namespace

absl::StatusOr<Candidates> ImageNormSteps(const StepSignature& signature) {
  constexpr int64_t kDouble = sizeof(double);
  const NormSets sets = NormSetsOf(signature);
  const int64_t of_set = sets.channels, all = signature.Spec(X()).shape.c();
  const bool is_layer_norm = signature.layer.As<LayerNorm>() != nullptr;
  if (is_layer_norm && sets.channel_step != 1) {
    return signature.phase == Phase::kForward
               ? OwnLoop(signature, LayerNormPlanesForward)
               : OwnLoop(signature, LayerNormPlanesBackward, 2 * kDouble * all);
  }
  if (signature.phase != Phase::kForward)
    return OwnLoop(signature, ImageNormBackward, 2 * kDouble * (all + of_set));
  return OwnLoop(signature, ImageNormForward, signature.rerun ? 0 : kDouble * of_set);
}

}  // namespace neap::cpu
