#include "neap/core/plan/timeline.h"

#include <algorithm>
#include <optional>

#include "neap/core/plan/collective_cost.h"

namespace neap {
namespace {

constexpr double kMicrosecondsPerSecond = 1e6;
constexpr double kSecondsPerMillisecond = 1e-3;

// Simulates a plan's streams. `TimeOf(index, clock_us)` says when the action at `index`, which
// takes time, runs on a stream whose clock is at `clock_us`.
template <typename TimeOf>
class Player {
 public:
  Player(const Plan& plan, const TimeOf& time_of) : plan_(plan), time_of_(time_of) {}

  Timeline Play() {
    timeline_.actions.reserve(plan_.actions.size());
    for (const Action& action : plan_.actions) timeline_.actions.push_back(Do(action));
    timeline_.total_us = *std::max_element(clock_us_.begin(), clock_us_.end());
    return std::move(timeline_);
  }

 private:
  double& Clock(Stream stream) { return clock_us_[static_cast<size_t>(stream)]; }
  ActionTime Now(Stream stream) { return {.begin_us = Clock(stream), .end_us = Clock(stream)}; }

  ActionTime Do(const Action& action) {
    if (const auto* wait = std::get_if<WaitAction>(&action)) return Wait(*wait);
    const std::optional<Stream> stream = StreamOf(action);
    return stream.has_value() ? Run(*stream) : Now(Stream::kCompute);
  }

  ActionTime Run(Stream stream) {
    const ActionTime time = time_of_(timeline_.actions.size(), Clock(stream));
    Clock(stream) = time.end_us;
    timeline_.busy_us[static_cast<size_t>(stream)] += time.elapsed_us();
    return time;
  }

  ActionTime Wait(const WaitAction& wait) {
    const size_t on = static_cast<size_t>(wait.on);
    const double until_us = timeline_.actions[on].end_us;
    double& clock_us = Clock(wait.stream);
    if (until_us <= clock_us) return Now(wait.stream);
    if (wait.stream == Stream::kCompute) {
      timeline_.stalls.push_back({timeline_.actions.size(), on, clock_us, until_us});
    }
    clock_us = until_us;
    return Now(wait.stream);
  }

  const Plan& plan_;
  const TimeOf& time_of_;
  std::array<double, kStreamCount> clock_us_ = {};
  Timeline timeline_;
};

// A rate of 0 stands for an infinite one.
double Seconds(double bytes, double bytes_per_second, double latency_seconds) {
  return latency_seconds + (bytes_per_second == 0 ? 0 : bytes / bytes_per_second);
}

double CopySeconds(double bytes, double bytes_per_second, const TimelineCosts& costs) {
  return Seconds(bytes, bytes_per_second, costs.transfer_latency_seconds);
}

// How long each action takes according to `costs`. Next() must be called in issue order.
class PredictedSeconds {
 public:
  PredictedSeconds(const Plan& plan, const TimelineCosts& costs)
      : plan_(plan), costs_(costs), copy_in_(plan.tensors.size(), Pool::kHost) {}

  double Next(const Action& action) {
    if (const auto* offload = std::get_if<OffloadAction>(&action)) {
      copy_in_[offload->tensor.index()] = offload->pool;
      return Transfer(offload->tensor, costs_.d2h_bytes_per_second);
    }
    if (const auto* prefetch = std::get_if<PrefetchAction>(&action))
      return Transfer(prefetch->tensor, costs_.h2d_bytes_per_second);
    if (const auto* collective = std::get_if<CollectiveAction>(&action)) {
      return PartOfSum(plan_.steps[collective->step.index()].phase) *
             Seconds(static_cast<double>(CollectiveBytes(plan_, *collective)),
                     costs_.collective_bytes_per_second, costs_.collective_latency_seconds);
    }
    return costs_.compute_seconds[computed_++];
  }

 private:
  double Transfer(TensorId tensor, double host_bytes_per_second) const {
    const bool to_peer = copy_in_[tensor.index()] == Pool::kPeer;
    return CopySeconds(static_cast<double>(plan_.tensors[tensor.index()].bytes),
                       to_peer ? costs_.peer_bytes_per_second : host_bytes_per_second, costs_);
  }

  const Plan& plan_;
  const TimelineCosts& costs_;
  std::vector<Pool> copy_in_;  // by TensorId
  size_t computed_ = 0;        // compute actions so far
};

// The times at which a stream of transfers or collectives is busy. Its actions must be added in
// order, and spans of time asked for in the order of their beginnings.
class BusySpans {
 public:
  void Add(const ActionTime& time) { times_.push_back(time); }

  // How long it is busy within a span of time.
  double Within(double begin_us, double end_us) {
    while (ended_ < times_.size() && times_[ended_].end_us <= begin_us) ++ended_;
    double within_us = 0;
    for (size_t i = ended_; i < times_.size() && times_[i].begin_us < end_us; ++i)
      within_us += std::min(end_us, times_[i].end_us) - std::max(begin_us, times_[i].begin_us);
    return within_us;
  }

 private:
  std::vector<ActionTime> times_;
  size_t ended_ = 0;  // spans that ended before the last one asked for
};

// The time at which a stream begins or ends an action.
struct Edge {
  double time_us = 0;
  Stream stream = Stream::kCompute;
};

// How much slower a step is while a collective runs.
double SlowdownBySums(double step_seconds, const TimelineCosts& costs) {
  if (step_seconds == 0) return 0;
  const double rounds = costs.collective_interference_seconds / step_seconds;
  return std::min(costs.slowdown_by_sums + rounds * rounds, 1.0);
}

// Actions of a stream do not overlap, so an edge of an idle stream is a beginning.
std::vector<Edge> EdgesInOrder(const Plan& plan, const Timeline& timeline) {
  std::vector<Edge> edges;
  for (size_t i = 0; i < plan.actions.size(); ++i) {
    const std::optional<Stream> stream = StreamOf(plan.actions[i]);
    const ActionTime& time = timeline.actions[i];
    if (!stream.has_value() || time.elapsed_us() <= 0) continue;
    edges.push_back({time.begin_us, *stream});
    edges.push_back({time.end_us, *stream});
  }
  std::stable_sort(edges.begin(), edges.end(),
                   [](const Edge& a, const Edge& b) { return a.time_us < b.time_us; });
  return edges;
}

}  // namespace

Timeline PredictTimeline(const Plan& plan, const TimelineCosts& costs) {
  PredictedSeconds predicted(plan, costs);
  BusySpans offloads, prefetches, sums;
  const auto time_of = [&](size_t index, double clock_us) {
    const Stream stream = *StreamOf(plan.actions[index]);
    const double seconds = predicted.Next(plan.actions[index]);
    ActionTime time = {.begin_us = clock_us, .end_us = clock_us + kMicrosecondsPerSecond * seconds};
    if (stream == Stream::kCompute) {
      const double by_copies =
          costs.slowdown_by_offloads * offloads.Within(time.begin_us, time.end_us) +
          costs.slowdown_by_prefetches * prefetches.Within(time.begin_us, time.end_us);
      const double by_sums =
          SlowdownBySums(seconds, costs) * sums.Within(time.begin_us, time.end_us);
      time.end_us += by_copies + by_sums;
    } else {
      (stream == Stream::kCollective ? sums
       : stream == Stream::kD2h      ? offloads
                                     : prefetches)
          .Add(time);
    }
    return time;
  };
  return Player(plan, time_of).Play();
}

double BatchFromHostSeconds(const Plan& plan, const TimelineCosts& costs) {
  double seconds = 0;
  for (const PlanTensor& tensor : plan.tensors) {
    if (!IsBatch(tensor.role)) continue;
    seconds += CopySeconds(static_cast<double>(tensor.bytes), costs.h2d_bytes_per_second, costs);
  }
  return seconds;
}

double BatchCopySeconds(const Plan& plan, const TimelineCosts& costs) {
  const double from_host = BatchFromHostSeconds(plan, costs);
  if (!plan.incoming_batch.has_value()) return from_host;
  double within_device = 0;
  for (const PlanTensor& tensor : plan.tensors) {
    if (!IsBatch(tensor.role)) continue;
    const double bytes = 2 * static_cast<double>(tensor.bytes);  // read and written
    within_device += CopySeconds(bytes, costs.device_bytes_per_second, costs);
  }
  return within_device + std::max(0.0, from_host - kSecondsPerMillisecond * plan.predicted_ms);
}

Timeline MeasuredTimeline(const Plan& plan, const std::vector<ActionTime>& ran) {
  const auto time_of = [&](size_t index, double /*clock_us*/) { return ran[index]; };
  return Player(plan, time_of).Play();
}

Overlap FindOverlap(const Plan& plan, const Timeline& timeline) {
  Overlap overlap;
  std::array<bool, kStreamCount> runs = {};  // by Stream
  double since_us = 0;
  for (const Edge& edge : EdgesInOrder(plan, timeline)) {
    const bool compute = runs[0], d2h = runs[1], h2d = runs[2], collective = runs[3];
    const double elapsed_us = edge.time_us - since_us;
    if (d2h || h2d) overlap.copying_us += elapsed_us;
    if (compute && (d2h || h2d)) overlap.hidden_us += elapsed_us;
    if (d2h && h2d) overlap.both_ways_us += elapsed_us;
    if (compute && d2h && h2d) overlap.hidden_both_ways_us += elapsed_us;
    if (collective) overlap.collective_us += elapsed_us;
    if (compute && collective) overlap.hidden_collective_us += elapsed_us;
    bool& run = runs[static_cast<size_t>(edge.stream)];
    run = !run;
    since_us = edge.time_us;
  }
  return overlap;
}

}  // namespace neap
