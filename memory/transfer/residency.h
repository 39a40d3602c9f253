// Residency: which tensors are in the arena at which run of the sequence, and how each came and
// went. Everything about bytes is decided here except their addresses.
//
// A life (core/program/lifetimes.h) is cut into stays. Between two stays the value is on the host:
// it was offloaded once it was complete, and is fetched before its next use.
//
//   runs      0 conv1  1 relu1  2 conv2 ...  8 conv2'  9 relu1'  10 conv1'
//   conv1     [================)                       [==================)   two stays of one life
//                 offload ->                      <- prefetch
//
// A stay ends before the life does for one of three reasons, which a policy may combine:
//   * the tensor is eager: it is offloaded after its last forward use, whatever the budget
//     (SuperNeurons 3.3.1, vDNN),
//   * the arena is short: the tensor cache evicts it (SuperNeurons 3.3.2, Algorithm 2,
//     memory/transfer/tensor_cache.h),
//   * its home is the host, where it is between its uses (moDNN 5.1.1).
//
//   const Liveness liveness = FindLiveness(program, runs, /*in_place=*/true);
//   Residency residency = DecideResidency(program, liveness, workspaces, rules);
//   residency.usage[8].bytes;   // bytes taken at run 8, before placement
//
// *Complexity*: O((operands + evictions) x log(lives)).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "neap/core/program/liveness.h"
#include "neap/core/program/program.h"
#include "neap/memory/transfer/tensor_cache.h"
#include "neap/memory/transfer/usage.h"

namespace neap {

struct Stay {
  TensorId tensor;
  size_t life = 0;  // index into Liveness::lives
  int begin = 0;    // half-open, in positions of the sequence
  int end = 0;
  bool fetched = false;  // filled by a prefetch; otherwise written at `begin`, or given
  // The position before which its value is copied to the host: right after the run that completed
  // it, or 0 if it was given. Absent if the stay is not copied.
  std::optional<int> offload_at = {};
  std::optional<size_t> replaces = {};  // the stay whose bytes it takes over at `begin`
};

// Which tensors the cache may evict. With kOnlyCopied, those whose value the host already has, so
// that nothing more is copied to the host.
enum class Evictable : uint8_t { kNone, kOnlyCopied, kAll };

struct ResidencyRules {
  bool keep_all = false;         // nothing is freed before the end
  std::vector<bool> eager = {};  // by TensorId; no tensor if empty
  Evictable evictable = Evictable::kNone;
  EvictionRule eviction = EvictionRule::kLru;
  // Soft limit: a run's operands are always resident, even if they exceed it.
  Usage limit = kNoLimit;
};

struct Residency {
  std::vector<Stay> stays;   // in order of `begin`; of persistent tensors, those on the host only
  std::vector<Usage> usage;  // by position
};

// `workspaces`: the bytes of each run's workspace, by position.
Residency DecideResidency(const Program& program, const Liveness& liveness,
                          const std::vector<int64_t>& workspaces, const ResidencyRules& rules);

}  // namespace neap
