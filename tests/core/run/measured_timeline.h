// Whether a measured timeline is possible for its plan.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <optional>
#include <variant>

#include "neap/core/plan/plan.h"
#include "neap/core/plan/timeline.h"

namespace neap {

// Nothing for actions that take no time.
inline std::optional<Stream> StreamThatRuns(const Action& action) {
  if (std::holds_alternative<ComputeAction>(action)) return Stream::kCompute;
  if (std::holds_alternative<OffloadAction>(action)) return Stream::kD2h;
  if (std::holds_alternative<PrefetchAction>(action)) return Stream::kH2d;
  if (std::holds_alternative<CollectiveAction>(action)) return Stream::kCollective;
  return std::nullopt;
}

// Every stream runs one action after the other, and none before what it has waited for, as
// far as the clock can tell.
inline void CheckPossible(const Plan& plan, const Timeline& timeline, double resolution_us) {
  REQUIRE(timeline.actions.size() == plan.actions.size());
  std::array<double, kStreamCount> free_us = {};  // by Stream
  std::array<double, kStreamCount> busy_us = {};
  for (size_t i = 0; i < plan.actions.size(); ++i) {
    CAPTURE(i);
    const ActionTime& time = timeline.actions[i];
    CHECK(time.begin_us <= time.end_us);
    if (const auto* wait = std::get_if<WaitAction>(&plan.actions[i])) {
      double& free = free_us[static_cast<size_t>(wait->stream)];
      free = std::max(free, timeline.actions[static_cast<size_t>(wait->on)].end_us);
    }
    const std::optional<Stream> stream = StreamThatRuns(plan.actions[i]);
    if (!stream.has_value()) {
      CHECK(time.elapsed_us() == 0);
      continue;
    }
    CHECK(time.end_us > 0);
    CHECK(time.begin_us >= free_us[static_cast<size_t>(*stream)] - resolution_us);
    free_us[static_cast<size_t>(*stream)] = time.end_us;
    busy_us[static_cast<size_t>(*stream)] += time.elapsed_us();
  }
  CHECK(timeline.busy_us == busy_us);
  CHECK(timeline.total_us == *std::max_element(free_us.begin(), free_us.end()));
  for (const Stall& stall : timeline.stalls) CHECK(stall.begin_us < stall.end_us);
}

}  // namespace neap
