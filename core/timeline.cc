#include "neap/core/timeline.h"

#include <algorithm>

namespace neap {
namespace {

constexpr double kMicrosecondsPerSecond = 1e6;

class Player {
 public:
  Player(const Plan& plan, const TimelineCosts& costs) : plan_(plan), costs_(costs) {}

  Timeline Play() {
    timeline_.actions.reserve(plan_.actions.size());
    for (const Action& action : plan_.actions) {
      timeline_.actions.push_back(std::visit([this](const auto& a) { return Do(a); }, action));
    }
    timeline_.total_us = *std::max_element(clock_us_.begin(), clock_us_.end());
    return std::move(timeline_);
  }

 private:
  double& Clock(Stream stream) { return clock_us_[static_cast<size_t>(stream)]; }
  ActionTime Now(Stream stream) { return {.begin_us = Clock(stream), .end_us = Clock(stream)}; }

  ActionTime Run(Stream stream, double seconds) {
    ActionTime time = Now(stream);
    time.end_us += kMicrosecondsPerSecond * seconds;
    Clock(stream) = time.end_us;
    timeline_.busy_us[static_cast<size_t>(stream)] += time.elapsed_us();
    return time;
  }
  ActionTime Transfer(Stream stream, TensorId tensor, double bytes_per_second) {
    double seconds = costs_.transfer_latency_seconds;
    if (bytes_per_second > 0) {
      seconds += static_cast<double>(plan_.tensors[tensor.index()].bytes) / bytes_per_second;
    }
    return Run(stream, seconds);
  }

  ActionTime Do(const AllocAction& /*alloc*/) { return Now(Stream::kCompute); }
  ActionTime Do(const FreeAction& /*free*/) { return Now(Stream::kCompute); }
  ActionTime Do(const ComputeAction& compute) {
    const std::vector<double>& seconds =
        compute.recompute ? costs_.rerun_seconds : costs_.step_seconds;
    return Run(Stream::kCompute, seconds[compute.step.index()]);
  }
  ActionTime Do(const OffloadAction& offload) {
    return Transfer(Stream::kD2h, offload.tensor, costs_.d2h_bytes_per_second);
  }
  ActionTime Do(const PrefetchAction& prefetch) {
    return Transfer(Stream::kH2d, prefetch.tensor, costs_.h2d_bytes_per_second);
  }
  ActionTime Do(const WaitAction& wait) {
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
  const TimelineCosts& costs_;
  std::array<double, kStreamCount> clock_us_ = {};
  Timeline timeline_;
};

}  // namespace

Timeline PredictTimeline(const Plan& plan, const TimelineCosts& costs) {
  return Player(plan, costs).Play();
}

}  // namespace neap
