// How one convolution step is run: a configuration, its mini-batch divided into parts, each run by
// an engine of its own (u-cuDNN III-A: "a list of micro-configurations").
//
// An engine's workspace grows with the images that it is given, and the fastest engines want the
// most. Run part by part, one after another in the same workspace, they fit where the whole batch
// would not:
//
//   workspace
//   |  +----------+                      undivided: the fast engine does not fit the limit,
//   |  | Winograd |                      the slow one runs
//   |--|   256    |-------- limit
//   |  |          |   +----+----+----+   in parts: each fits, and reuses the bytes of the one
//   before |  |          |   | 86 | 85 | 85 |
//   +--+----------+---+----+----+----+---> time
//
//   const Configuration divided = {.parts = {{"winograd", 86}, {"winograd", 85}, {"winograd", 85}},
//                                  .workspace_bytes = 8 * kMiB, .seconds = 0.0021};
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"

namespace neap {

// A part of the batch run by one engine.
struct EngineUse {
  std::string engine;
  int64_t batch = 0;
  // The engine itself adds the part's gradients to those that are there. Only in `backward_params`,
  // never the first part.
  bool adds = false;
  friend bool operator==(const EngineUse&, const EngineUse&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const EngineUse& use) {
    return H::combine(std::move(h), use.engine, use.batch, use.adds);
  }
};

// "eng3", or of micro-batches "3 x 64 eng3 + 32 eng7". "+=" stands before parts that add by
// themselves: in "64 eng3 += 2 x 64 eng3 + 32 eng7" only the last goes through scratch.
std::string ToString(absl::Span<const EngineUse> parts);

// What a part that is not the first takes besides, where its engine does not add: in
// `backward_params` it writes to scratch in the workspace, and a kernel adds that to the sum.
struct Addition {
  int64_t workspace_bytes = 0;
  std::optional<double> seconds = 0.0;  // none: not known, so the part can only be the first
};

// An engine on a part of `batch` images, measured or predicted.
struct TimedEngine {
  std::string engine;
  int64_t batch = 0;
  int64_t workspace_bytes = 0;
  double seconds = 0;  // >= 0, at most some hours
  bool deterministic = true;
  bool adds = false;       // as EngineUse's: not for a first part
  Addition addition = {};  // none where it adds

  EngineUse use() const { return {engine, batch, adds}; }
};

struct Configuration {
  // In order; after the first, larger ones first, but for what the granularity leaves: that is
  // last.
  std::vector<EngineUse> parts;
  int64_t workspace_bytes = 0;  // of the part that wants most, with its addition
  double seconds = 0;           // of all parts
  bool is_measured = false;     // the seconds are, of every part
  friend bool operator==(const Configuration&, const Configuration&) = default;
};

}  // namespace neap
