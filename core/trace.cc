#include "neap/core/trace.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <vector>

#include "neap/core/cost_model.h"

namespace neap {
namespace {

using Json = nlohmann::ordered_json;

class TraceWriter {
 public:
  TraceWriter(const Program& program, const Plan& plan, const DeviceDescription& device)
      : program_(program), plan_(plan), device_(device), memory_(MemoryPerStep(plan)) {}

  std::string Write() {
    for (Stream stream : {Stream::kCompute, Stream::kD2h, Stream::kH2d}) NameTrack(stream);
    end_us_.resize(plan_.actions.size());
    for (size_t i = 0; i < plan_.actions.size(); ++i) {
      end_us_[i] = std::visit([this](const auto& action) { return Do(action); }, plan_.actions[i]);
    }
    const Json trace = {{"displayTimeUnit", "ms"}, {"traceEvents", std::move(events_)}};
    return trace.dump(-1, ' ', false, Json::error_handler_t::replace);
  }

 private:
  double& Clock(Stream stream) { return clock_us_[static_cast<size_t>(stream)]; }

  void NameTrack(Stream stream) {
    events_.push_back({{"name", "thread_name"},
                       {"ph", "M"},
                       {"pid", 1},
                       {"tid", static_cast<int>(stream)},
                       {"args", {{"name", Name(stream)}}}});
  }

  // Returns when it ends.
  double Span(Stream stream, const std::string& name, double microseconds, Json args) {
    double& clock = Clock(stream);
    events_.push_back({{"name", name},
                       {"ph", "X"},
                       {"ts", clock},
                       {"dur", microseconds},
                       {"pid", 1},
                       {"tid", static_cast<int>(stream)},
                       {"args", std::move(args)}});
    return clock += microseconds;
  }

  double Do(const AllocAction& /*alloc*/) { return Clock(Stream::kCompute); }
  double Do(const FreeAction& /*free*/) { return Clock(Stream::kCompute); }

  double Do(const ComputeAction& compute) {
    const Step& step = program_.steps[compute.step.index()];
    const StepMemory& memory = memory_[computed_++];
    events_.push_back({{"name", "live bytes"},
                       {"ph", "C"},
                       {"ts", Clock(Stream::kCompute)},
                       {"pid", 1},
                       {"args",
                        {{"tensors", memory.live_bytes - memory.workspace_bytes},
                         {"workspace", memory.workspace_bytes}}}});
    const std::string name = program_.StepName(step) + (compute.recompute ? " again" : "");
    return Span(Stream::kCompute, name, 1e6 * PredictSeconds(program_, step, device_),
                {{"step", compute.step.value + 1}, {"engine", memory.engine}});
  }

  double Do(const OffloadAction& offload) {
    return Transfer(Stream::kD2h, "offload ", offload.tensor);
  }
  double Do(const PrefetchAction& prefetch) {
    return Transfer(Stream::kH2d, "prefetch ", prefetch.tensor);
  }
  double Transfer(Stream stream, const std::string& what, TensorId id) {
    const PlanTensor& tensor = plan_.tensors[id.index()];
    const double rate = device_.copy_bandwidth;
    const double microseconds = rate > 0 ? 1e6 * static_cast<double>(tensor.bytes) / rate : 0;
    return Span(stream, what + tensor.name, microseconds, {{"bytes", tensor.bytes}});
  }

  double Do(const WaitAction& wait) {
    double& clock = Clock(wait.stream);
    return clock = std::max(clock, end_us_[static_cast<size_t>(wait.on)]);
  }

  const Program& program_;
  const Plan& plan_;
  const DeviceDescription& device_;
  const std::vector<StepMemory> memory_;  // by compute action
  size_t computed_ = 0;
  std::array<double, kStreamCount> clock_us_ = {};
  std::vector<double> end_us_;  // by action
  Json events_ = Json::array();
};

}  // namespace

std::string PredictedTrace(const Program& program, const Plan& plan,
                           const DeviceDescription& device) {
  return TraceWriter(program, plan, device).Write();
}

}  // namespace neap
