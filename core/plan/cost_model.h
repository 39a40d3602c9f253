// The time of a kernel that was not measured.
//
// The model multiplies a lower bound, the roofline, by an efficiency that depends on the kind of
// the kernel and on its features (core/plan/cost_features.h):
//
//   seconds = bound * exp(sum_i coefficient[kind][i] * feature[i])
//
// The exponent is limited to what was measured of its kind. A kind of which only small tensors were
// measured, in the cache, is faster than the memory; so a pass over memory takes at least the time
// of the bytes beyond the cache.
//
// GPUs have one table of coefficients (core/plan/cost_coefficients.inc) and CPUs another
// (cpu_cost_coefficients.inc). They are fitted to measured times of the library's first engine, by
// scripts/fit_cost_model.py, which also shows the error for networks that are left out of the fit.
// They hold for devices of the same sort at other rates, because they are relative to these. A
// CPU's rates are nominal (layers/cpu/cpu_description.h), and kernels may exceed them; its
// coefficients hold for CPUs that are described by the same rule. Kinds without coefficients of
// their own have those of their group or family. A GPU whose description has rates and no more
// (DeviceDescription::gpu) has the roofline, because these are taken to be rates that kernels
// reach.
//
//   const double seconds = PredictSeconds(signature, step.flops, device.description());
#pragma once

#include <string>

#include "neap/core/device/device.h"
#include "neap/core/plan/cost_features.h"
#include "neap/core/plan/timeline.h"
#include "neap/core/program/program.h"

namespace neap {

// Seconds for one run of a kernel; 0 for a collective. `flops` is that of the step for the
// signature's batch.
double PredictSeconds(const StepSignature& signature, double flops,
                      const DeviceDescription& device);

// Seconds for one run of the step, with the time of adding gradients to sums where the kernel
// does not. With `rerun`, the time of a recomputation, which touches fewer bytes
// (ReadsOf, WritesOf).
double PredictSeconds(const Program& program, const Step& step, const DeviceDescription& device,
                      bool rerun = false);

// Seconds for adding a gradient to a sum, both of this spec.
double PredictAdditionSeconds(const TensorSpec& spec, const DeviceDescription& device);

// The model by which times of the device are predicted: "fitted to NVIDIA H200", "fitted to AMD
// EPYC", "roofline".
std::string CostModelOf(const DeviceDescription& device);

// The costs of transfers only, at the device's bandwidths: of its memory, to host and peer.
TimelineCosts TransferCosts(const DeviceDescription& device);

}  // namespace neap
