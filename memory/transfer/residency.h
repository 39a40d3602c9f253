// Residency: which tensors are in the arena at which run of the sequence, and how each came and
// went. Everything about bytes is decided here except their addresses.
//
// A life (core/program/lifetimes.h) is cut into stays. Between two stays the value is on the host:
// it was offloaded once it was final, and is fetched before its next use.
//
//   runs      0 conv1  1 relu1  2 conv2 ...  8 conv2'  9 relu1'  10 conv1'
//   conv1     [================)                       [==================)   two stays of one life
//                 offload ->                      <- prefetch
//
// Three causes, which may be combined: eager tensors leave after their last forward use
// (SuperNeurons 3.3.1, vDNN); where the arena is short, those used least recently, or farthest in
// the future, leave (the tensor cache, 3.3.2, Alg. 2: the operands of a run are locked); and with
// kOnlyCopied, only what has its host copy already may leave, so that nothing moves to the host a
// second time.
//
//   const Liveness liveness = FindLiveness(program, runs, /*in_place=*/true);
//   Residency residency = DecideResidency(program, liveness, workspaces, rules);
//   residency.usage[8].bytes;   // of the arena, at run 8, before placement
//
// *Complexity*: O((operands + evictions) x log(lives)).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "neap/core/base/units.h"
#include "neap/core/program/liveness.h"
#include "neap/core/program/program.h"
#include "neap/memory/transfer/tensor_cache.h"

namespace neap {

struct Stay {
  TensorId tensor;
  size_t life = 0;  // index into Liveness::lives
  int begin = 0;    // half-open, in positions of the sequence
  int end = 0;
  bool fetched = false;  // filled by a prefetch; otherwise written at `begin`, or given
  std::optional<int> offload_after = {};  // the run after which its value leaves; -1: before all
  std::optional<size_t> replaces = {};    // the stay whose bytes it takes over at `begin`
};

// Two ways to count what is in the arena at a run.
struct Usage {
  int64_t bytes = 0;  // whole blocks, with the run's workspace, without persistent tensors
  int64_t activation_bytes = 0;  // exact, of activations, saved tensors and gradients
};

enum class MayLeave : uint8_t { kNone, kOnlyCopied, kAll };

struct ResidencyRules {
  bool keep_all = false;         // nothing is freed before the end
  std::vector<bool> eager = {};  // by TensorId; empty: none
  // By TensorId; empty: none. Persistent tensors that are on the host between iterations and in the
  // arena around their uses.
  std::vector<bool> travels = {};
  MayLeave may_leave = MayLeave::kNone;
  EvictionRule eviction = EvictionRule::kLru;
  // Kept where that is possible: what a run touches must be there whatever it takes.
  Usage limit = {kUnlimited, kUnlimited};
};

struct Residency {
  std::vector<bool> travels;  // as in the rules
  std::vector<Stay> stays;    // in order of `begin`; without persistent tensors that do not travel
  std::vector<Usage> usage;   // by position
};

// `workspaces`: the bytes each run's workspace takes, by position.
Residency DecideResidency(const Program& program, const Liveness& liveness,
                          const std::vector<int64_t>& workspaces, const ResidencyRules& rules);

// The first run that is no forward step in program order: where backward begins.
int TurningPoint(const Program& program, const ComputeSequence& runs);

// Parameters and optimizer state that are worth a transfer, by TensorId (moDNN 5.1.1).
inline constexpr int64_t kSmallestTravellerBytes = 64 * 1024;
std::vector<bool> Travellers(const Program& program);

// What a tensor adds to the usage.
Usage UsageOf(const Tensor& tensor);

}  // namespace neap
