#include "neap/core/plan/tensor_history.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace neap {
namespace {

std::vector<TensorId> Touched(const Plan& plan, const ComputeAction& compute) {
  std::vector<TensorId> touched = RunReads(plan, compute);
  for (TensorId id : RunWrites(plan, compute)) touched.push_back(id);
  return touched;
}

// Follows every tensor through the plan. A run is a compute action, counted from 0.
class Follower {
 public:
  Follower(const Plan& plan, const Timeline& timeline)
      : plan_(plan),
        timeline_(timeline),
        histories_(plan.tensors.size()),
        tracks_(plan.tensors.size()) {}

  std::vector<TensorHistory> Follow() {
    FindUses();
    for (action_ = 0; action_ < plan_.actions.size(); ++action_) {
      std::visit([this](const auto& action) { Do(action); }, plan_.actions[action_]);
    }
    for (auto& [offset, sharers] : sharers_) EndOwning(sharers.front());
    for (const Stall& stall : timeline_.stalls) Charge(stall);
    for (const PlanTensor& tensor : plan_.tensors) Finish(tensor.id);
    return std::move(histories_);
  }

 private:
  struct Track {
    int64_t first_run = 0, end_run = 0;  // uses lie in [first_run, end_run)
    int64_t owns_since = 0;
    int64_t offset = 0;
    std::optional<size_t> last_touch;  // action index
  };
  Track& TrackOf(TensorId id) { return tracks_[id.index()]; }
  TensorHistory& HistoryOf(TensorId id) { return histories_[id.index()]; }
  double Elapsed() const { return timeline_.actions[action_].elapsed_us(); }

  void FindUses() {
    int64_t run = 0;
    for (size_t i = 0; i < plan_.actions.size(); ++i) {
      const auto* compute = std::get_if<ComputeAction>(&plan_.actions[i]);
      if (compute == nullptr) continue;
      for (TensorId id : Touched(plan_, *compute)) {
        Track& track = TrackOf(id);
        if (track.end_run == 0) track.first_run = run;
        track.end_run = run + 1;
        HistoryOf(id).last_use = i;
      }
      ++run;
    }
  }

  void Do(const AllocAction& alloc) {
    std::vector<TensorId>& sharers = sharers_[alloc.region.offset];
    if (!sharers.empty() && !HistoryOf(alloc.tensor).over)
      HistoryOf(alloc.tensor).over = sharers.back();
    if (sharers.empty()) TrackOf(alloc.tensor).owns_since = run_;
    sharers.push_back(alloc.tensor);
    TrackOf(alloc.tensor).offset = alloc.region.offset;
    HistoryOf(alloc.tensor).is_freed = false;
  }
  void Do(const FreeAction& free) {
    const auto place = sharers_.find(TrackOf(free.tensor).offset);
    std::vector<TensorId>& sharers = place->second;
    const bool owned = sharers.front() == free.tensor;
    std::erase(sharers, free.tensor);
    if (owned) EndOwning(free.tensor);
    if (owned && !sharers.empty()) TrackOf(sharers.front()).owns_since = run_;
    if (sharers.empty()) sharers_.erase(place);
    HistoryOf(free.tensor).is_freed = true;
  }
  void EndOwning(TensorId id) {
    Track& track = TrackOf(id);
    if (run_ == track.owns_since) return;
    HistoryOf(id).resident.push_back({track.owns_since, run_});
  }

  void Do(const ComputeAction& compute) {
    for (TensorId id : Touched(plan_, compute)) {
      TrackOf(id).last_touch = action_;
      std::vector<Trip>& trips = HistoryOf(id).trips;
      if (trips.empty() || !trips.back().prefetch || trips.back().before) continue;
      trips.back().before = action_;
    }
    if (compute.recompute) ShareOut(compute);
    ++run_;
  }
  void ShareOut(const ComputeAction& compute) {
    const std::vector<TensorId> results = RunWrites(plan_, compute);
    double bytes = 0;
    for (TensorId id : results) bytes += static_cast<double>(plan_.tensors[id.index()].bytes);
    for (TensorId id : results) {
      HistoryOf(id).reruns.push_back(compute.step);
      const auto own = static_cast<double>(plan_.tensors[id.index()].bytes);
      HistoryOf(id).recompute_us += bytes > 0 ? Elapsed() * own / bytes : 0;
    }
  }

  void Do(const OffloadAction& offload) {
    HistoryOf(offload.tensor)
        .trips.push_back({.offload = action_, .after = TrackOf(offload.tensor).last_touch});
    HistoryOf(offload.tensor).transfer_us += Elapsed();
  }
  void Do(const PrefetchAction& prefetch) {
    std::vector<Trip>& trips = HistoryOf(prefetch.tensor).trips;
    if (trips.empty()) {  // of a tensor whose value is on the host between iterations
      trips.emplace_back();
    } else if (trips.back().prefetch) {  // the same copy again
      trips.push_back(
          {.offload = trips.back().offload, .after = TrackOf(prefetch.tensor).last_touch});
    }
    trips.back().prefetch = action_;
    HistoryOf(prefetch.tensor).transfer_us += Elapsed();
  }
  void Do(const CollectiveAction& collective) {
    for (TensorId id : plan_.steps[collective.step.index()].accumulates)
      TrackOf(id).last_touch = action_;
  }
  void Do(const WaitAction& /*charged_by_the_timeline*/) {}

  void Charge(const Stall& stall) {
    const double stall_us = stall.end_us - stall.begin_us;
    const Action& on = plan_.actions[stall.on];
    if (const auto* out = std::get_if<OffloadAction>(&on))
      HistoryOf(out->tensor).stall_us += stall_us;
    if (const auto* in = std::get_if<PrefetchAction>(&on))
      HistoryOf(in->tensor).stall_us += stall_us;
  }

  void Finish(TensorId id) {
    const Track& track = TrackOf(id);
    TensorHistory& history = HistoryOf(id);
    history.tensor = id;
    history.absent_steps = run_;
    history.away_steps = track.end_run - track.first_run;
    for (const Interval& own : history.resident) {
      history.absent_steps -= own.end - own.begin;
      history.away_steps -= std::max<int64_t>(
          0, std::min(own.end, track.end_run) - std::max(own.begin, track.first_run));
    }
  }

  const Plan& plan_;
  const Timeline& timeline_;
  std::vector<TensorHistory> histories_;
  std::vector<Track> tracks_;  // by TensorId
  // By offset, the tensors there: the first owns the bytes, the others share them.
  absl::flat_hash_map<int64_t, std::vector<TensorId>> sharers_;
  size_t action_ = 0;
  int64_t run_ = 0;
};

std::string NameOf(const Plan& plan, TensorId id) { return plan.tensors[id.index()].name; }

std::string StepNameAt(const Plan& plan, size_t action) {
  return RunName(plan, std::get<ComputeAction>(plan.actions[action]));
}

// Explains one copy: `count` trips, from `first` on, share its offload.
std::string ExplainCopy(const Plan& plan, const Trip& first, int count) {
  std::string text = first.offload ? "offloaded" : "on the host before the iteration";
  if (first.after) absl::StrAppend(&text, " after ", StepNameAt(plan, *first.after));
  if (!first.prefetch) return text + ", not prefetched again";
  absl::StrAppend(&text, ", back ");
  if (count > 1) absl::StrAppend(&text, count, " times, first ");
  if (!first.before) return text + "by the end";
  return absl::StrCat(text, "before ", StepNameAt(plan, *first.before));
}

std::vector<std::string> ExplainTrips(const Plan& plan, const std::vector<Trip>& trips) {
  std::vector<std::string> copies;
  for (size_t i = 0; i < trips.size();) {
    size_t end = i + 1;
    while (end < trips.size() && trips[end].offload == trips[i].offload) ++end;
    copies.push_back(ExplainCopy(plan, trips[i], static_cast<int>(end - i)));
    i = end;
  }
  return copies;
}

// How often the tensor is recomputed, by which step, and from what. Persistent sources, which are
// always available, are not mentioned.
std::string ExplainReruns(const Plan& plan, const std::vector<StepId>& reruns) {
  const PlanStep& step = plan.steps[reruns.back().index()];
  std::vector<std::string> sources;
  for (TensorId id : RunReads(plan, {.step = step.id, .recompute = true})) {
    if (!IsPersistent(plan.tensors[id.index()].role)) sources.push_back(NameOf(plan, id));
  }
  const std::string often =
      reruns.size() == 1 ? "once" : absl::StrFormat("%d times", reruns.size());
  return absl::StrCat("rebuilt ", often, " by ", StepName(step), " from ",
                      absl::StrJoin(sources, ", "));
}

std::string ExplainEnd(const Plan& plan, const TensorHistory& history) {
  if (!history.last_use) return "nothing uses it";
  if (plan.tensors[history.tensor.index()].is_external) return "in memory of the caller's";
  if (history.is_freed) {
    return absl::StrCat("freed after ", StepNameAt(plan, *history.last_use), ", its last use");
  }
  if (IsPersistent(plan.tensors[history.tensor.index()].role)) {
    return "kept: its value outlives the iteration";
  }
  return "kept to the end";
}

}  // namespace

std::vector<TensorHistory> TensorHistories(const Plan& plan, const Timeline& timeline) {
  return Follower(plan, timeline).Follow();
}

std::string Explain(const Plan& plan, const TensorHistory& history) {
  std::vector<std::string> parts;
  if (history.over) parts.push_back(absl::StrCat("in place, over ", NameOf(plan, *history.over)));
  for (std::string& copy : ExplainTrips(plan, history.trips)) parts.push_back(std::move(copy));
  if (!history.reruns.empty()) parts.push_back(ExplainReruns(plan, history.reruns));
  parts.push_back(ExplainEnd(plan, history));
  return absl::StrJoin(parts, "; ");
}

}  // namespace neap
