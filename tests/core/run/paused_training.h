// Small networks for tests of training that pauses, each with its losses: testing::GivenLosses
// makes the one that pauses of it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "neap/core/graph/graph.h"
#include "neap/core/program/feeds.h"
#include "neap/core/run/session.h"
#include "neap/core/vision/batch.h"
#include "tests/small_net.h"

namespace neap::pause_test {

inline constexpr auto kRefused = absl::StatusCode::kFailedPrecondition;
inline constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

std::string ErrorOf(const absl::Status& status);

// They refer to the batch.
Feeds FeedsOf(const Batch& batch);

using NetOptions = BlockOptions;
// BlockNet() without labels: the caller's loss compares the output with them.
Graph Given(const NetOptions& options = {});

// Trains what GivenLosses makes of `net`, and checks what each step returns.
void TrainGiven(Session& session, const Graph& net, int steps);

// A trunk with two heads, each with a loss.
Graph TwoHeads();
struct HeadsBatch {
  std::vector<float> image, size;
  std::vector<int32_t> kind = {0, 3, 2, 2};
  HeadsBatch();
  Feeds feeds() const;  // they refer to this batch
};

}  // namespace neap::pause_test
