// What sums over many ranks cost, from the link of one rank: for devices and numbers of ranks that
// were not measured.
//
// Each rank sends and receives the tensors of a bucket almost twice, whatever the number of ranks,
// in a ring or in two trees that share the work; a tree needs two hops for each doubling of the
// ranks (NCCL's double binary tree: Sanders, Speck and Traff, "Two-tree algorithms for full
// bandwidth broadcast, reduction and scan", Parallel Computing 35, 2009):
//
//   seconds = 2 ceil(log2 n) * hop + 2 (n - 1) / n * bytes / bytes per second of the link
//
//   const RankLink link = {.bytes_per_second = 50e9, .hop_seconds = 5e-6};
//   description = WithCollectives(description, 64, link);
//   description.collective_latency_seconds;  // 6e-05
#pragma once

#include "neap/core/device/device.h"

namespace neap {

// Of one rank, in each of both directions at the same time.
struct RankLink {
  double bytes_per_second = 0;  // 0 stands for an infinite rate
  double hop_seconds = 0;
};

// The description with the costs of sums over `ranks`, which is at least 1.
DeviceDescription WithCollectives(DeviceDescription device, int ranks, const RankLink& link);

}  // namespace neap
