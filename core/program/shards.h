// The optimizer, sharded over the ranks of data parallelism: ZeRO's first stage (Rajbhandari et
// al., "ZeRO: memory optimizations toward training trillion parameter models", SC 2020, section
// 5.1).
//
// All ranks would keep the same momentum and, of 16-bit parameters, the same fp32 master. Instead,
// each rank keeps those of a slice of every parameter, updates this slice, and gets the others from
// the ranks that update them. The parameters themselves, which kernels read, stay whole:
//
//   rank 0  param |==========|..........|   rank 1  param |..........|==========|
//           grad  |== sum ===|          |           grad  |          |== sum ===|
//           momentum [======]                       momentum        [======]
//
//   begin of an iteration   kAllGather: all ranks get the slices of all
//   forward, backward       as without; gradients are the rank's own
//   behind backward         kReduceScatter: each rank gets the sum of its slice of the gradient
//   end                     kUpdate of the slice; the others are those of before then
//
// Parameters are gathered in buckets of the size of those of gradients, at most kBucketBytes, in
// the order in which forward needs them: a bucket while forward computes with the one before. The
// first one is as small as the last one of gradients. Between two iterations, a rank's parameters
// are therefore of the last step in its own slices only.
//
// A large parameter is divided evenly, in multiples of kShardAlignment, and the last rank has the
// remainder too. A small one, of which slices would not fill blocks of the arena, belongs as a
// whole to the rank that has the fewest elements so far. The division follows from the order of the
// parameters and the number of ranks alone.
//
//   ShardDivision division(/*ranks=*/2);
//   division.Next(600);  // {0, 288}, {288, 312}
//   division.Next(100);  // {0, 100}, {0, 0}
//   division.Next(64);   // {0, 0}, {0, 64}
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "neap/core/base/region.h"
#include "neap/core/base/tensor.h"
#include "neap/core/graph/graph.h"
#include "neap/core/program/program.h"

namespace neap {

// Slices begin at multiples, so that kernels find them aligned in every type.
inline constexpr int64_t kShardAlignment = 16;
// A parameter with fewer elements for each rank is not divided: a block of fp32.
inline constexpr int64_t kMinShard = kBlockBytes / 4;

class ShardDivision {
 public:
  explicit ShardDivision(int ranks) : owned_(static_cast<size_t>(ranks)) {}
  // The slices of the next parameter, which has so many elements, by rank. They follow each other.
  std::vector<Slice> Next(int64_t elements);

 private:
  std::vector<int64_t> owned_;  // elements so far, by rank
};

// The shard of the rank; all of the optimizer if it is not sharded.
OptimizerShard ShardOf(const RankShare& share, bool shard_optimizer);

// Errors: INVALID_ARGUMENT for what a sharded optimizer does not do, or ranks that are not those of
// the batch.
absl::Status CheckShard(const ProgramOptions& options, const GraphOptions& net);

// Adds the steps that gather the parameters, if there are several ranks. Private to BuildProgram().
void GatherParameters(Program& program);

}  // namespace neap
