#include "neap/memory/engines/gain_rule.h"

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "neap/core/base/units.h"
#include "neap/core/plan/plan.h"

namespace neap {
namespace {

constexpr double kForever = std::numeric_limits<double>::infinity();

// A copy, the runs that it overlaps with, and the seconds that do not overlap.
struct Copy {
  std::vector<std::pair<int, double>> hidden;  // run, seconds; the latest run first
  double late_seconds = 0;
  // The run with which it begins, or `end` if it overlaps with none.
  int Begin(int end) const { return hidden.empty() ? end : hidden.back().first; }
};

// A copy engine: the seconds for which it is idle during each run. Copies are tried, and then kept
// by Commit() or undone exactly by Rollback().
class CopyEngine {
 public:
  explicit CopyEngine(std::vector<double> run_seconds) : idle_(std::move(run_seconds)) {}

  // Spreads a copy over runs [begin, end), from the last to the first.
  Copy Begin(int begin, int end, double seconds) {
    Copy copy = {.late_seconds = seconds};
    for (int run = end;
         run-- > std::max(begin, end - kMaxOverlappedRuns) && copy.late_seconds > 0;) {
      const double taken = std::min(idle_[static_cast<size_t>(run)], copy.late_seconds);
      if (taken <= 0) continue;
      Add(run, -taken);
      copy.late_seconds -= taken;
      copy.hidden.emplace_back(run, taken);
    }
    return copy;
  }
  void Cancel(const Copy& copy) {
    for (const auto& [run, seconds] : copy.hidden) Add(run, seconds);
  }
  void Commit() { before_.clear(); }
  void Rollback() {
    for (auto it = before_.rbegin(); it != before_.rend(); ++it)
      idle_[static_cast<size_t>(it->first)] = it->second;
    before_.clear();
  }

 private:
  void Add(int run, double seconds) {
    double& idle = idle_[static_cast<size_t>(run)];
    before_.emplace_back(run, idle);
    idle += seconds;
  }

  std::vector<double> idle_;                    // by run
  std::vector<std::pair<int, double>> before_;  // run, idle seconds: to be restored
};

class Chooser {
 public:
  Chooser(const Program& program, const EngineTable& engines, const TransferTimes& times,
          EvictionRule eviction, const LeastWorkspaces& least)
      : program_(program),
        engines_(engines),
        bytes_per_second_(times.bytes_per_second),
        liveness_(least.liveness),
        limit_bytes_(least.limit_bytes),
        workspaces_(least.workspaces),
        out_(times.run_seconds),
        back_(times.run_seconds),
        uses_(least.liveness.runs.size()),
        copied_(least.liveness.lives.size()),
        cache_(MakeTensorCache(eviction, least.liveness.lives.size())) {
    for (const Usage& usage : least.residency.usage) used_.push_back(usage.bytes);
    for (const Stay& stay : least.residency.stays) NoteUses(stay);
    PlanCopies(least.residency.stays);
  }

  std::vector<int64_t> Choose() {
    for (size_t i = 0; i < uses_.size(); ++i) {
      for (const Use& use : uses_[i]) cache_->Remove(use.life);
      ChooseAt(static_cast<int>(i));
      for (const Use& use : uses_[i]) {
        if (use.next.has_value()) cache_->In(use.life, *use.next);
      }
    }
    return std::move(workspaces_);
  }

 private:
  struct Use {
    size_t life = 0;
    std::optional<int> next = {};  // in the same stay, if the tensor may be evicted before it
  };
  struct Fetch {
    int64_t bytes = 0;
    int begin = 0;  // the position at which it gets its bytes
    Copy copy;
  };
  // A tensor that would be evicted until its next use.
  struct Victim {
    size_t life = 0;
    int next = 0;
    int64_t bytes = 0;
    Copy out, back;
  };
  struct Delay {
    Fetch* fetch = nullptr;
    Copy copy;
  };
  // The copies that make room for a workspace: the prefetches of T_pre and the offloads of T_off.
  struct Room {
    std::vector<Delay> delays;
    std::vector<Victim> victims;
    double late_seconds = 0;
  };

  const Lifetime& life(size_t i) const { return liveness_.lives[i]; }
  int64_t BytesOf(size_t i) const { return UsageOf(program_.tensor(life(i).tensor)).bytes; }
  double CopySeconds(int64_t bytes) const {
    return bytes_per_second_ <= 0 ? 0 : static_cast<double>(bytes) / bytes_per_second_;
  }
  int64_t FreeBytes(int position) const {
    return limit_bytes_ - used_[static_cast<size_t>(position)];
  }
  // One past the run that made the value that is resident before `position`; 0 if it was given.
  int CompleteAt(size_t i, int position) const {
    const std::vector<int>& changes = life(i).changes;
    const auto after = std::lower_bound(changes.begin(), changes.end(), position);
    return after == changes.begin() ? 0 : *(after - 1) + 1;
  }
  int NextUse(size_t i, int position) const {
    return *std::lower_bound(life(i).uses.begin(), life(i).uses.end(), position);
  }

  void NoteUses(const Stay& stay) {
    const std::vector<int>& uses = life(stay.life).uses;
    const bool is_cached = IsCached(program_.tensor(stay.tensor).role);
    auto use = std::lower_bound(uses.begin(), uses.end(), stay.begin);
    for (; use != uses.end() && *use < stay.end; ++use) {
      const auto next = use + 1;
      uses_[static_cast<size_t>(*use)].push_back({stay.life});
      if (is_cached && next != uses.end() && *next < stay.end)
        uses_[static_cast<size_t>(*use)].back().next = *next;
    }
  }

  // Enters the copies that are made without larger workspaces; fetches from the last to the first.
  void PlanCopies(const std::vector<Stay>& stays) {
    for (const Stay& stay : stays) {
      if (!stay.offload_at.has_value()) continue;
      copied_[stay.life].push_back(*stay.offload_at);
      out_.Begin(*stay.offload_at, stay.end, CopySeconds(BytesOf(stay.life)));
    }
    for (auto stay = stays.rbegin(); stay != stays.rend(); ++stay) {
      if (!stay->fetched) continue;
      const int64_t bytes = BytesOf(stay->life);
      const int use = NextUse(stay->life, stay->begin);
      fetches_[use].push_back(
          {bytes, stay->begin, back_.Begin(stay->begin, use, CopySeconds(bytes))});
    }
    out_.Commit();
    back_.Commit();
  }

  // Compares the gain (equation 10) of each configuration.
  void ChooseAt(int position) {
    const Run& run = liveness_.runs[static_cast<size_t>(position)];
    const StepConfigurations& list = engines_.Of(run);
    if (list.configurations.size() == 1) return;
    const double base_seconds = engines_.Smallest(run).seconds;
    const int64_t base_bytes = workspaces_[static_cast<size_t>(position)];
    double best_gain = 0;
    int64_t best_bytes = 0;  // beyond the least workspace
    for (auto c = list.configurations.rbegin(); c != list.configurations.rend(); ++c) {
      const int64_t bytes = RoundUp(c->workspace_bytes, kBlockBytes) - base_bytes;
      const double saved_seconds = base_seconds - c->seconds;
      if (bytes <= 0 || saved_seconds <= best_gain) continue;
      const std::optional<Room> room = MakeRoom(position, bytes, saved_seconds - best_gain);
      out_.Rollback();
      back_.Rollback();
      if (!room.has_value()) continue;
      best_gain = saved_seconds - room->late_seconds;
      best_bytes = bytes;
    }
    if (best_bytes > 0) Take(position, best_bytes);
  }

  void Take(int position, int64_t bytes) {
    std::optional<Room> room = MakeRoom(position, bytes, kForever);
    out_.Commit();
    back_.Commit();
    if (bytes > FreeBytes(position)) workspaces_[static_cast<size_t>(position)] += bytes;
    used_[static_cast<size_t>(position)] += bytes;
    for (Delay& delay : room->delays) {
      Add(delay.fetch->begin, position + 1, -delay.fetch->bytes);
      delay.fetch->begin = position + 1;
      delay.fetch->copy = std::move(delay.copy);
    }
    for (Victim& victim : room->victims) {
      cache_->Remove(victim.life);
      copied_[victim.life].push_back(CompleteAt(victim.life, position));
      const int begin = victim.back.Begin(victim.next);
      Add(position, begin, -victim.bytes);
      fetches_[victim.next].push_back({victim.bytes, begin, std::move(victim.back)});
    }
  }

  // Adds to the bytes used by runs [begin, end).
  void Add(int begin, int end, int64_t bytes) {
    for (int i = begin; i < end; ++i) used_[static_cast<size_t>(i)] += bytes;
  }

  // Makes room for `bytes` more at `position`. Absent if evicting all cached tensors is not enough,
  // or if copies would be late by `worth_seconds` or more.
  std::optional<Room> MakeRoom(int position, int64_t bytes, double worth_seconds) {
    int64_t short_of = bytes - FreeBytes(position);
    Room room;
    DelayFetches(position, short_of, room);
    const std::vector<size_t> victims = cache_->Out(
        {.bytes = short_of}, [&](size_t i) { return Usage{.bytes = BytesOf(i)}; },
        /*is_locked=*/[](size_t) { return false; });
    for (size_t i : victims) short_of -= BytesOf(i);
    if (short_of > 0) return std::nullopt;
    for (size_t i : victims) {
      if (room.late_seconds >= worth_seconds) return std::nullopt;
      room.victims.push_back(Evict(i, position));
      const Victim& victim = room.victims.back();
      room.late_seconds += victim.out.late_seconds + victim.back.late_seconds;
    }
    if (room.late_seconds >= worth_seconds) return std::nullopt;
    return room;
  }

  // Tries the copies to the host and back.
  Victim Evict(size_t i, int position) {
    Victim victim = {.life = i, .next = NextUse(i, position), .bytes = BytesOf(i)};
    const double seconds = CopySeconds(victim.bytes);
    const int complete_at = CompleteAt(i, position);
    const std::vector<int>& copied = copied_[i];
    const bool was_on_host = complete_at == 0 && IsPersistent(program_.tensor(life(i).tensor).role);
    const bool is_on_host =
        was_on_host || std::find(copied.begin(), copied.end(), complete_at) != copied.end();
    if (!is_on_host) victim.out = out_.Begin(complete_at, position, seconds);
    victim.back = back_.Begin(position + 1, victim.next, seconds);
    return victim;
  }

  // T_pre: delays fetches for the next run that has any until after `position`, as many of those
  // that have begun by then as it takes.
  void DelayFetches(int position, int64_t& short_of, Room& room) {
    const auto next = fetches_.upper_bound(position);
    if (next == fetches_.end()) return;
    for (Fetch& fetch : next->second) {
      if (short_of <= 0) return;
      if (fetch.begin > position) continue;
      short_of -= fetch.bytes;
      back_.Cancel(fetch.copy);
      room.delays.push_back(
          {&fetch, back_.Begin(position + 1, next->first, CopySeconds(fetch.bytes))});
      room.late_seconds += room.delays.back().copy.late_seconds - fetch.copy.late_seconds;
    }
  }

  const Program& program_;
  const EngineTable& engines_;
  double bytes_per_second_;
  const Liveness& liveness_;
  int64_t limit_bytes_;
  std::vector<int64_t> workspaces_;  // by position
  std::vector<int64_t> used_;        // by position, with workspaces
  CopyEngine out_, back_;
  std::vector<std::vector<Use>> uses_;         // by position
  std::vector<std::vector<int>> copied_;       // by life: CompleteAt() of the values the host has
  std::map<int, std::vector<Fetch>> fetches_;  // by the position of the run that reads them
  std::unique_ptr<TensorCache> cache_;         // of lives
};

}  // namespace

std::vector<int64_t> WorkspacesByGain(const Program& program, const EngineTable& engines,
                                      const TransferTimes& times, EvictionRule eviction,
                                      const LeastWorkspaces& least) {
  return Chooser(program, engines, times, eviction, least).Choose();
}

}  // namespace neap
