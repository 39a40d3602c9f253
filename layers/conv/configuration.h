// The configuration of one convolution step: how its mini-batch is divided into parts, and which
// engine runs each part (u-cuDNN III-A: "a list of micro-configurations").
//
// An engine's workspace grows with the number of images, and the fastest engines need the most. Run
// part by part, one after another in the same workspace, they fit although the whole batch does
// not:
//
//   workspace
//   |  +----------+                       undivided: the fast engine exceeds the limit,
//   |  | Winograd |                       so the slow one would have to run
//   |--|   256    |---------------- limit
//   |  |          |   +----+----+----+    in parts: each part fits, and reuses the bytes
//   |  |          |   | 86 | 85 | 85 |    of the part before
//   +--+----------+---+----+----+----+---> time
//
//   const Configuration divided = {.parts = {{"winograd", 86}, {"winograd", 85}, {"winograd", 85}},
//                                  .workspace_bytes = 8 * kMiB, .seconds = 0.0021};
#pragma once

#include <cstdint>
#include <vector>

#include "neap/core/plan/timeline.h"
#include "neap/core/step/engine_use.h"

namespace neap {

struct Configuration {
  // In order. After the first part come larger parts before smaller ones; a part that is not a
  // multiple of the granularity is last.
  std::vector<EngineUse> parts;
  int64_t workspace_bytes = 0;             // the largest of the parts', including Addition
  double seconds = 0;                      // sum over the parts
  TimeSource source = TimeSource::kModel;  // of the part that is known least
  friend bool operator==(const Configuration&, const Configuration&) = default;
};

}  // namespace neap
