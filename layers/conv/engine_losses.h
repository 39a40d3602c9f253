// How much slower the engines of a list are than the first one, where none was measured.
//
// A library recommends its engines in an order, which says nothing of distances: the second may be
// as fast, and the only one without workspace a hundred times slower, because it does not use the
// matrix units. An engine's loss depends on the engine and the sort of step; the medians of
// measured ones are in a table (scripts/fit_cost_model.py), by the engine's number without its
// knobs. Engines of other libraries and versions are not in it: they lose a tenth for each place in
// the order, or as much as engines without matrix units lose against the others. A library's
// reference (Engine::is_reference) loses hundreds of times. An engine that knows its own loss
// (Engine::slowdown) has that one.
//
// Most steps that were measured compute much for the bytes that they move. There an engine without
// matrix units is hundreds of times slower than a first one that has them, but far less where that
// waits for memory: the time of the slow one is that of its arithmetic (MostLossOf).
//
//   ASSIGN_OR_RETURN(const std::vector<Engine> engines, catalog.Engines(signature));
//   const CostFeatures features = FeaturesOf(signature, step.flops, device);
//   const std::vector<double> slower = SlowdownsOf(engines, features.group);
//   const double first = slower.front();  // 1 in usual lists
#pragma once

#include <limits>
#include <string_view>
#include <vector>

#include "absl/types/span.h"
#include "neap/core/device/device.h"
#include "neap/core/step/kernel.h"

namespace neap {

// By position: the engine's time over that of the first deterministic engine, at least 1; 1 for the
// others, of which nothing is known. If AllLoseMuch(), it is the time over that of the first engine
// of usual lists. `group` is CostFeatures::group of the step. Engines that compute a ReLU, too, and
// others have orders of their own, and the firsts of both are taken to be equally fast. `most` is
// MostLossOf() the step.
std::vector<double> SlowdownsOf(absl::Span<const Engine> engines, std::string_view group,
                                double most = std::numeric_limits<double>::infinity());

// The most that a family without matrix units loses in a step of so many flops, for which the first
// engine, which has them, takes `seconds`: the time of the arithmetic at a thousandth of the
// device's rate in fp32 over that, or 4 if it is less. Infinity if one of them is not known.
double MostLossOf(double flops, double seconds, const DeviceDescription& device);

// Whether there are deterministic engines, and all of them are of families that take four times as
// long as usual first ones, or more: for tensors of more than 2^31 elements cuDNN may list only an
// engine that is hundreds of times as slow.
bool AllLoseMuch(absl::Span<const Engine> engines, std::string_view group);

// The engine without its knobs: "eng67" of "eng67_k2=4_k5=3". Engines of a family run the same
// sort of kernel.
std::string_view FamilyOf(std::string_view engine);

}  // namespace neap
