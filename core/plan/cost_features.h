// The knowledge of the cost model about a kernel: its kind, a lower bound on its time, and the
// numbers from which the model predicts by how much the kernel exceeds that bound.
//
// A kernel cannot take less time than its arithmetic at the device's rate, nor than its bytes at
// the device's bandwidth (the roofline). On a GPU real kernels take 1.1 to 5 times as long, and by
// how much depends on few properties: few channels leave matrix units idle, few pixels leave
// multiprocessors idle, and a small tensor stays in the cache. Such factors multiply, so the model
// is linear in the logarithms (core/plan/cost_model.h). For a CPU only nominal rates are known,
// which kernels may exceed.
//
// Only the signature, the arithmetic and the device's rates are used, not the layer's definition:
// extents of operands, types, the layer's type and the name of its activation. A user's own layer
// therefore has features, too, and is predicted as a pass over memory.
//
//   const CostFeatures features = FeaturesOf(signature, step.flops, device.description());
//   features.kind;           // "convolution dense forward 16-bit nhwc"
//   features.bound_seconds;  // of the roofline
//   const double channels = features.values[CostFeatures::kInputChannels];  // 6, if there are 64
#pragma once

#include <array>
#include <string>

#include "neap/core/device/device.h"
#include "neap/core/step/step_signature.h"

namespace neap {

struct CostFeatures {
  // The logarithms are to base 2. scripts/fit_cost_model.py knows the features by their numbers.
  enum Index : int {
    kOne,
    kBalance,        // log of arithmetic time over memory time, within -6 and 6
    kImbalance,      // its absolute value
    kInputChannels,  // log of the input's channels in a group, and of the output's
    kOutputChannels,
    kPixels,             // log of the output's pixels in all images, at most 20
    kMoreInputChannels,  // by how much these exceed 6, 6 and 16
    kMoreOutputChannels,
    kMorePixels,
    kTaps,              // log of the window's pixels
    kStride,            // log of input pixels per output pixel, halved
    kAsymmetric,        // 1 if the window is not a square
    kMaxChannels,       // the larger of kInputChannels and kOutputChannels
    kFewInputChannels,  // 1 if there are fewer than 16 or 32 of them: less than a tile
    kFewOutputChannels,
    kRaggedInputChannels,  // 1 unless 64 divides the channels
    kRaggedOutputChannels,
    kBytes,      // log of the bytes read and written, within 16 and 29
    kManyBytes,  // by how much that exceeds 25, about the size of a cache, and 28
    kVeryManyBytes,
    kWork,  // log of the floating-point operations for each element of the output
    kCount,
  };
  // The type, phase, element type and layout. Kinds of which little was measured resemble others of
  // their group, and groups those of their family: "dense forward 16-bit nhwc" and "dense forward"
  // for convolutions and products of matrices, "max_pool forward" and "pass" for all else.
  std::string kind, group, family;
  double bound_seconds = 0;
  // No kernel takes less time: a pass over memory takes the time of the bytes that do not fit the
  // cache. A launch may cost nothing, and a convolution may skip bytes of its input.
  double least_seconds = 0;
  std::array<double, kCount> values = {};
};

// The time that a launch adds to the roofline.
inline constexpr double kLaunchSeconds = 2e-6;

// `flops` is that of the step for the signature's batch (core/step/layer_spec.h).
CostFeatures FeaturesOf(const StepSignature& signature, double flops,
                        const DeviceDescription& device);

}  // namespace neap
