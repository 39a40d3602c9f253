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
#include <vector>

#include "neap/core/step/engine_use.h"

namespace neap {

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
