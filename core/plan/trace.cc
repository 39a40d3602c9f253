#include "neap/core/plan/trace.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "neap/core/plan/plan_memory.h"

namespace neap {
namespace {

using Json = nlohmann::ordered_json;

class TraceWriter {
 public:
  TraceWriter(const Plan& plan, const Timeline& timeline)
      : plan_(plan), timeline_(timeline), memory_(MemoryPerStep(plan)) {}

  std::string Write() {
    for (Stream stream : kPlanStreams) {
      if (stream != Stream::kCollective || HasCollectives()) NameTrack(stream);
    }
    for (size_t i = 0; i < plan_.actions.size(); ++i) {
      time_ = timeline_.actions[i];
      std::visit([this](const auto& action) { Do(action); }, plan_.actions[i]);
    }
    const Json trace = {{"displayTimeUnit", "ms"}, {"traceEvents", std::move(events_)}};
    return trace.dump(-1, ' ', false, Json::error_handler_t::replace);
  }

 private:
  bool HasCollectives() const {
    return std::any_of(plan_.actions.begin(), plan_.actions.end(), [](const Action& action) {
      return std::holds_alternative<CollectiveAction>(action);
    });
  }
  void NameTrack(Stream stream) {
    events_.push_back({{"name", "thread_name"},
                       {"ph", "M"},
                       {"pid", 1},
                       {"tid", static_cast<int>(stream)},
                       {"args", {{"name", Name(stream)}}}});
  }

  void Span(Stream stream, const std::string& name, Json args) {
    events_.push_back({{"name", name},
                       {"ph", "X"},
                       {"ts", time_.begin_us},
                       {"dur", time_.elapsed_us()},
                       {"pid", 1},
                       {"tid", static_cast<int>(stream)},
                       {"args", std::move(args)}});
  }

  void Do(const ComputeAction& compute) {
    const StepMemory& memory = memory_[computed_++];
    events_.push_back({{"name", "live bytes"},
                       {"ph", "C"},
                       {"ts", time_.begin_us},
                       {"pid", 1},
                       {"args",
                        {{"tensors", memory.live_bytes - memory.workspace_bytes},
                         {"workspace", memory.workspace_bytes}}}});
    Span(Stream::kCompute, RunName(plan_, compute),
         {{"step", compute.step.value + 1}, {"engine", memory.engine}});
  }

  void Do(const OffloadAction& offload) { Transfer(Stream::kD2h, "offload ", offload.tensor); }
  void Do(const PrefetchAction& prefetch) { Transfer(Stream::kH2d, "prefetch ", prefetch.tensor); }
  void Transfer(Stream stream, const std::string& what, TensorId id) {
    const PlanTensor& tensor = plan_.tensors[id.index()];
    Span(stream, what + tensor.name, {{"bytes", tensor.bytes}});
  }

  void Do(const CollectiveAction& collective) {
    Span(Stream::kCollective, StepName(plan_.steps[collective.step.index()]),
         {{"bytes", CollectiveBytes(plan_, collective)}});
  }

  void Do(const AllocAction& /*takes_no_time*/) {}
  void Do(const FreeAction& /*takes_no_time*/) {}
  void Do(const WaitAction& /*takes_no_time*/) {}

  const Plan& plan_;
  const Timeline& timeline_;
  const std::vector<StepMemory> memory_;  // by compute action
  size_t computed_ = 0;
  ActionTime time_;  // of the current action
  Json events_ = Json::array();
};

}  // namespace

std::string TimelineTrace(const Plan& plan, const Timeline& timeline) {
  return TraceWriter(plan, timeline).Write();
}

}  // namespace neap
