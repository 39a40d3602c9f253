// The time of sums over ranks: as measured (`neap devices --measure-collectives`), or, for devices
// and numbers of ranks that were not, from the link of one rank.
//
// Each rank sends and receives the tensors of a bucket almost twice, whatever the number of ranks,
// in a ring or in two trees that share the work; a tree needs two hops for each doubling of the
// ranks (NCCL's double binary tree: Sanders, Speck and Traff, "Two-tree algorithms for full
// bandwidth broadcast, reduction and scan", Parallel Computing 35, 2009):
//
//   seconds = 2 ceil(log2 n) * hop + 2 (n - 1) / n * bytes / bytes per second of the link
//
// A reduce-scatter or an all-gather, of which an all-reduce is made, costs half as much.
//
//   const RankLink link = {.bytes_per_second = 50e9, .hop_seconds = 5e-6};
//   description = WithCollectives(description, 64, link);
//   description.collective_latency_seconds;  // 6e-05
//   description = WithMeasuredSums(description, {{4096, 2e-5}, {67108864, 3e-4}});
#pragma once

#include <cstdint>
#include <vector>

#include "neap/core/device/device.h"
#include "neap/core/step/layer_spec.h"

namespace neap {

// The link of one rank, in each of both directions at the same time.
struct RankLink {
  double bytes_per_second = 0;  // 0 stands for an infinite rate
  double hop_seconds = 0;
};

// The description with the costs of sums over `ranks`, which is at least 1.
DeviceDescription WithCollectives(DeviceDescription device, int ranks, const RankLink& link);

// The part of the cost of a sum over ranks that a collective of this phase has.
constexpr double PartOfSum(Phase phase) { return phase == Phase::kAllReduce ? 1 : 0.5; }

// A sum over ranks of so many bytes of tensors.
struct TimedSum {
  int64_t bytes = 0;
  double seconds = 0;
};

// The description with the costs that measured sums have: the smallest is mostly latency, the
// largest mostly bandwidth. Unchanged if there are none.
DeviceDescription WithMeasuredSums(DeviceDescription device, const std::vector<TimedSum>& sums);

}  // namespace neap
