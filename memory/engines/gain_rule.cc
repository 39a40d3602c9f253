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

// A copy behind runs that hide it, and what is left of it.
struct Copy {
  std::vector<std::pair<int, double>> hidden;  // run, seconds; the latest run first
  double late_seconds = 0;
  // The run with which it begins; `end` if none hides any of it.
  int Begin(int end) const { return hidden.empty() ? end : hidden.back().first; }
};

// One copy engine: for how long it has nothing to do, by run. Copies are tried until Commit, or
// Rollback, after which it is exactly as before.
class CopyEngine {
 public:
  explicit CopyEngine(std::vector<double> run_seconds) : idle_(std::move(run_seconds)) {}

  // During runs [begin, end), the latest first.
  Copy Begin(int begin, int end, double seconds) {
    Copy copy = {.late_seconds = seconds};
    for (int run = end;
         run-- > std::max(begin, end - kMostOverlappedRuns) && copy.late_seconds > 0;) {
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
  std::vector<std::pair<int, double>> before_;  // run, idle seconds: what was changed since
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
        order_(MakeEvictionOrder(eviction, least.liveness.lives.size())) {
    for (const Usage& usage : least.residency.usage) used_.push_back(usage.bytes);
    for (const Stay& stay : least.residency.stays) NoteUses(stay);
    PlanCopies(least.residency.stays);
  }

  std::vector<int64_t> Choose() {
    for (size_t i = 0; i < uses_.size(); ++i) {
      for (const Use& use : uses_[i]) order_->Remove(use.life);
      ChooseAt(static_cast<int>(i));
      for (const Use& use : uses_[i]) {
        if (use.next.has_value()) order_->Touch(use.life, *use.next);
      }
    }
    return std::move(workspaces_);
  }

 private:
  struct Use {
    size_t life = 0;
    std::optional<int> next = {};  // within the stay, if it may leave before
  };
  struct Fetch {
    int64_t bytes = 0;
    int begin = 0;  // it has its bytes since
    Copy copy;
  };
  // Who would leave, until its next use.
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
  // What makes room for a workspace: T_pre's and T_off's copies.
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
  // The run that made the value that is there before `position`; -1: it was given.
  int LastChange(size_t i, int position) const {
    const std::vector<int>& changes = life(i).changes;
    const auto after = std::lower_bound(changes.begin(), changes.end(), position);
    return after == changes.begin() ? -1 : *(after - 1);
  }
  int NextUse(size_t i, int position) const {
    return *std::lower_bound(life(i).uses.begin(), life(i).uses.end(), position);
  }

  void NoteUses(const Stay& stay) {
    const std::vector<int>& uses = life(stay.life).uses;
    const Role role = program_.tensor(stay.tensor).role;
    const bool may_leave = CountsAsActivation(role) || role == Role::kInput || IsPersistent(role);
    auto use = std::lower_bound(uses.begin(), uses.end(), stay.begin);
    for (; use != uses.end() && *use < stay.end; ++use) {
      const auto next = use + 1;
      uses_[static_cast<size_t>(*use)].push_back({stay.life});
      if (may_leave && next != uses.end() && *next < stay.end)
        uses_[static_cast<size_t>(*use)].back().next = *next;
    }
  }

  // Those that are made without larger workspaces; fetches from the last to the first.
  void PlanCopies(const std::vector<Stay>& stays) {
    for (const Stay& stay : stays) {
      if (!stay.offload_after.has_value()) continue;
      copied_[stay.life].push_back(*stay.offload_after);
      out_.Begin(*stay.offload_after + 1, stay.end, CopySeconds(BytesOf(stay.life)));
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

  // Equation 10, for each configuration.
  void ChooseAt(int position) {
    const Run& run = liveness_.runs[static_cast<size_t>(position)];
    const StepConfigurations& list = engines_.Of(run);
    if (!list.configurations.front().is_measured || list.configurations.size() == 1) return;
    const double base_seconds = engines_.Smallest(run).seconds;
    const int64_t base_bytes = workspaces_[static_cast<size_t>(position)];
    double best_gain = 0;
    int64_t best_bytes = 0;  // besides the base's
    for (auto c = list.configurations.rbegin(); c != list.configurations.rend(); ++c) {
      const int64_t bytes = RoundUp(c->workspace_bytes, kBlockBytes) - base_bytes;
      const double saved_seconds = base_seconds - c->seconds;
      if (!c->is_measured || bytes <= 0 || saved_seconds <= best_gain) continue;
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
      order_->Remove(victim.life);
      copied_[victim.life].push_back(LastChange(victim.life, position));
      const int begin = victim.back.Begin(victim.next);
      Add(position, begin, -victim.bytes);
      fetches_[victim.next].push_back({victim.bytes, begin, std::move(victim.back)});
    }
  }

  // To the bytes used by runs [begin, end).
  void Add(int begin, int end, int64_t bytes) {
    for (int i = begin; i < end; ++i) used_[static_cast<size_t>(i)] += bytes;
  }

  // For `bytes` more at `position`; nothing if all that may leave is too little, or copies would be
  // late by as much as that is worth.
  std::optional<Room> MakeRoom(int position, int64_t bytes, double worth_seconds) {
    int64_t short_of = bytes - FreeBytes(position);
    Room room;
    DelayFetches(position, short_of, room);
    std::vector<size_t> leaving;
    order_->VisitInOrder([&](size_t i) {
      if (short_of <= 0) return false;
      leaving.push_back(i);
      short_of -= BytesOf(i);
      return true;
    });
    if (short_of > 0) return std::nullopt;
    for (size_t i : leaving) {
      if (room.late_seconds >= worth_seconds) return std::nullopt;
      room.victims.push_back(SendAway(i, position));
      const Victim& victim = room.victims.back();
      room.late_seconds += victim.out.late_seconds + victim.back.late_seconds;
    }
    if (room.late_seconds >= worth_seconds) return std::nullopt;
    return room;
  }

  // The copies that it takes.
  Victim SendAway(size_t i, int position) {
    Victim victim = {.life = i, .next = NextUse(i, position), .bytes = BytesOf(i)};
    const double seconds = CopySeconds(victim.bytes);
    const int made = LastChange(i, position);
    const std::vector<int>& copied = copied_[i];
    const bool is_on_host = std::find(copied.begin(), copied.end(), made) != copied.end() ||
                            (made < 0 && IsPersistent(program_.tensor(life(i).tensor).role));
    if (!is_on_host) victim.out = out_.Begin(made + 1, position, seconds);
    victim.back = back_.Begin(position + 1, victim.next, seconds);
    return victim;
  }

  // T_pre: those of the next fetches that have begun by `position` begin after it, as many as it
  // takes. So many seconds are late then.
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
  std::vector<std::vector<int>> copied_;       // by life: those of its changes that the host has
  std::map<int, std::vector<Fetch>> fetches_;  // by the run that wants them
  std::unique_ptr<EvictionOrder> order_;       // of lives
};

}  // namespace

std::vector<int64_t> WorkspacesByGain(const Program& program, const EngineTable& engines,
                                      const TransferTimes& times, EvictionRule eviction,
                                      const LeastWorkspaces& least) {
  return Chooser(program, engines, times, eviction, least).Choose();
}

}  // namespace neap
