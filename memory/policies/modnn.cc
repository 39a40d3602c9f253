#include "neap/memory/policies/modnn.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <set>
#include <utility>

#include "neap/core/base/units.h"
#include "neap/memory/policies/modnn_copies.h"
#include "neap/memory/policies/modnn_lives.h"
#include "neap/memory/policies/modnn_space.h"

namespace neap {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr size_t kWorkspace = std::numeric_limits<size_t>::max() / 2;  // the id of its block

class Scheduler {
 public:
  explicit Scheduler(const ScheduleRequest& request)
      : program_(request.program),
        liveness_(request.liveness),
        lives_(request),
        states_(lives_.size()),
        owners_(lives_.size()),
        regions_(lives_.size()),
        out_(request.bytes_per_second),
        back_(request.bytes_per_second),
        capacity_bytes_(request.capacity_bytes - lives_.fixed_bytes()),
        space_(std::max<int64_t>(capacity_bytes_, 0)) {
    schedule_.workspaces.resize(liveness_.runs.size());
    schedule_.workspace_places.resize(liveness_.runs.size());
    for (size_t i = 0; i < lives_.size(); ++i) {
      if (!lives_.IsFromHost(i) || lives_.IsApart(i)) continue;
      states_[i].on_host = true;
      away_.insert({NextUse(i), i});
    }
  }

  std::optional<Schedule> Make() {
    if (capacity_bytes_ < 0) return std::nullopt;
    const int runs = static_cast<int>(liveness_.runs.size());
    for (int position = 0; position < runs; ++position) {
      if (!Step(position)) return std::nullopt;
    }
    for (size_t i = 0; i < lives_.size(); ++i) {
      if (states_[i].stay.has_value()) EndStay(i, runs);
    }
    CountUsage(program_, schedule_);
    return std::move(schedule_);
  }

 private:
  struct State {
    std::optional<size_t> stay;  // while it is in the arena
    size_t block = 0;            // of the space: the first life of its buffer
    bool on_host = false;        // the host has its current value
    bool is_used = false;        // since it was made or fetched
    int complete_at = 0;         // one past the run that made its current value; 0 if it was given
    double complete_seconds = 0;
    double on_host_seconds = 0;  // when its copy on the host is complete
    double here_seconds = 0;     // when its fetch ends
    size_t next_use = 0;         // index into its uses
    size_t next_change = 0;      // index into its changes
  };

  int64_t BytesOf(size_t i) const { return lives_.BytesOf(i); }
  int NextUse(size_t i) const { return lives_.life(i).uses[states_[i].next_use]; }
  static int64_t WorkspaceOf(const Configuration& one) {
    return RoundUp(one.workspace_bytes, kBlockBytes);
  }

  bool Step(int position) {
    if (!BeginBatch(position)) return false;
    operands_.clear();
    for (const size_t i : liveness_.UsedBy(position)) {
      if (!lives_.IsApart(i)) operands_.push_back(i);
    }
    if (!BringIn(position)) return false;
    const double seconds = ChooseConfiguration(position);
    PrefetchDuring(position, seconds);
    now_ += seconds;
    FreeWorkspace();
    for (const size_t i : operands_) NoteUse(i, position);
    for (const size_t i : operands_) AfterUse(i, position);
    return true;
  }

  // The batch is in the arena from the beginning, and images of later sub-batches may leave it.
  bool BeginBatch(int position) {
    for (; next_life_ < lives_.size() && lives_.life(next_life_).begin == position; ++next_life_) {
      const size_t i = next_life_;
      if (!IsBatch(lives_.tensor(i).role) || lives_.life(i).uses.empty()) continue;
      if (!lives_.IsFixed(i) && !Allocate(i)) return false;
      Begin(i, position);
      states_[i].is_used = true;
    }
    return true;
  }

  bool IsOperand(size_t i) const {
    return std::binary_search(operands_.begin(), operands_.end(), i);
  }

  bool Allocate(size_t block) {
    const std::optional<Region> region = space_.Allocate(block, BytesOf(block));
    if (!region.has_value()) return false;
    regions_[block] = *region;
    owners_[block] = block;
    states_[block].block = block;
    return true;
  }
  bool AllocateWorkspace(int position, int64_t bytes) {
    const std::optional<Region> region = space_.Allocate(kWorkspace, bytes);
    if (!region.has_value()) return false;
    has_workspace_ = true;
    schedule_.workspaces[static_cast<size_t>(position)] = bytes;
    schedule_.workspace_places[static_cast<size_t>(position)] = {
        region->offset + lives_.fixed_bytes(), region->bytes};
    return true;
  }
  // Makes room for it if that is needed.
  bool TakeWorkspace(int position, int64_t bytes) {
    schedule_.workspaces[static_cast<size_t>(position)] = 0;
    schedule_.workspace_places[static_cast<size_t>(position)] = {};
    if (bytes == 0 || AllocateWorkspace(position, bytes)) return true;
    return Offload(bytes, position) && AllocateWorkspace(position, bytes);
  }
  void FreeWorkspace() {
    if (has_workspace_) space_.Free(kWorkspace);
    has_workspace_ = false;
  }

  // Lines 3 to 8 of Algorithm 1.
  bool BringIn(int position) {
    std::vector<size_t> placed;
    if (!Place(position, placed)) {
      FreeWorkspace();
      for (const size_t i : placed) space_.Free(i);
      placed.clear();
      if (!Defragment(position) || !Place(position, placed)) return false;
    }
    for (const size_t i : operands_) {
      if (!states_[i].stay.has_value()) Begin(i, position);
    }
    for (const size_t i : operands_) now_ = std::max(now_, states_[i].here_seconds);
    return true;
  }

  // Finds memory for the operands that are not there, and for the smallest workspace.
  bool Place(int position, std::vector<size_t>& placed) {
    for (const size_t i : operands_) {
      if (states_[i].stay.has_value() || lives_.IsFixed(i) ||
          lives_.TakenOver(i, position).has_value())
        continue;
      if (!Allocate(i) && !(Offload(BytesOf(i), position) && Allocate(i))) return false;
      placed.push_back(i);
    }
    return TakeWorkspace(position, WorkspaceOf(lives_.Smallest(position)));
  }

  // 5.2.1: all data leaves, and comes back as it is needed.
  bool Defragment(int position) {
    double on_host = now_;
    for (const size_t block : space_.Blocks()) {
      const size_t i = owners_[block];
      if (schedule_.residency.stays[*states_[i].stay].begin == position) return false;
      Evict(i, position);
      on_host = std::max(on_host, states_[i].on_host_seconds);
    }
    out_.Keep();
    now_ = std::max(now_, on_host);
    return true;
  }

  // Whether a block may leave before the run, and before a run that reads what is prefetched.
  bool MayLeave(size_t block, int position, int before) const {
    if (block == kWorkspace) return false;
    const size_t i = owners_[block];
    const State& state = states_[i];
    if (!state.stay.has_value() || !state.is_used || IsOperand(i)) return false;
    return schedule_.residency.stays[*state.stay].begin < position && NextUse(i) > before;
  }

  struct Scheme {
    std::vector<size_t> blocks;
    double late_seconds = kNever;
    int64_t copied_bytes = 0;
  };
  // The scheme whose copies are late the least after now; of those that of the fewest copied bytes.
  Scheme FindScheme(int64_t bytes, int position, int before) {
    Scheme best;
    const auto may_leave = [&](size_t block) { return MayLeave(block, position, before); };
    space_.VisitSchemes(bytes, may_leave, [&](absl::Span<const size_t> blocks) {
      Scheme scheme = {.late_seconds = 0};
      for (const size_t block : blocks) {
        const size_t i = owners_[block];
        if (states_[i].on_host) {
          scheme.late_seconds = std::max(scheme.late_seconds, states_[i].on_host_seconds - now_);
          continue;
        }
        const double end = out_.Insert(states_[i].complete_seconds, BytesOf(i));
        scheme.late_seconds = std::max(scheme.late_seconds, end - now_);
        scheme.copied_bytes += BytesOf(i);
      }
      out_.Undo();
      if (std::pair(scheme.late_seconds, scheme.copied_bytes) >=
          std::pair(best.late_seconds, best.copied_bytes))
        return;
      best = std::move(scheme);
      best.blocks.assign(blocks.begin(), blocks.end());
    });
    return best;
  }

  // Makes room by the best scheme, and waits for its copies. False if there is none.
  bool Offload(int64_t bytes, int position) {
    const Scheme scheme = FindScheme(bytes, position, position);
    for (const size_t block : scheme.blocks) Evict(owners_[block], position);
    if (!scheme.blocks.empty()) now_ += scheme.late_seconds;
    out_.Keep();
    return !scheme.blocks.empty();
  }

  void Evict(size_t i, int position) {
    State& state = states_[i];
    if (!state.on_host) {
      schedule_.residency.stays[*state.stay].offload_at = state.complete_at;
      state.on_host_seconds = out_.Insert(state.complete_seconds, BytesOf(i));
      state.on_host = true;
    }
    space_.Free(state.block);
    EndStay(i, position);
    away_.insert({NextUse(i), i});
  }

  void Begin(size_t i, int position) {
    State& state = states_[i];
    Stay stay = {
        .tensor = lives_.life(i).tensor, .life = i, .begin = position, .fetched = state.on_host};
    const std::optional<size_t> from = lives_.TakenOver(i, position);
    if (from.has_value()) {
      stay.replaces = states_[*from].stay;
      state.block = states_[*from].block;
      owners_[state.block] = i;
    }
    if (stay.fetched) {
      state.here_seconds =
          back_.Insert(std::max({now_, state.on_host_seconds, back_.end()}), BytesOf(i));
      back_.Keep();
      away_.erase({NextUse(i), i});
    }
    state.stay = schedule_.residency.stays.size();
    state.is_used = false;
    schedule_.residency.stays.push_back(stay);
    const int64_t offset = lives_.IsFixed(i) ? lives_.FixedOffset(i)
                                             : lives_.fixed_bytes() + regions_[state.block].offset;
    schedule_.places.push_back({offset, BytesOf(i)});
  }

  void EndStay(size_t i, int position) {
    schedule_.residency.stays[*states_[i].stay].end = position;
    states_[i].stay.reset();
  }

  // Lines 9 to 14: the seconds of the configuration with the largest gain.
  double ChooseConfiguration(int position) {
    const absl::Span<const Configuration> list = lives_.Configurations(position);
    const Configuration& base = lives_.Smallest(position);
    FreeWorkspace();
    const Configuration* best = &base;
    double best_gain = 0;
    for (const Configuration& one : list) {
      if (one.seconds >= base.seconds) continue;
      const double gain = base.seconds - one.seconds - OffloadSeconds(WorkspaceOf(one), position) -
                          DelaySeconds(one, position);
      if (gain > best_gain) {
        best_gain = gain;
        best = &one;
      }
    }
    if (TakeWorkspace(position, WorkspaceOf(*best))) return best->seconds;
    TakeWorkspace(position, WorkspaceOf(base));  // whose bytes it had before
    return base.seconds;
  }

  // T_off of equation 10; infinite if there is no room.
  double OffloadSeconds(int64_t bytes, int position) {
    if (bytes <= space_.LargestFreeBytes()) return 0;
    return FindScheme(bytes, position, position).late_seconds;
  }

  // T_pre: how late the next run that needs fetches would be, if those that do not fit beside the
  // workspace began after this run.
  double DelaySeconds(const Configuration& one, int position) const {
    if (away_.empty()) return 0;
    const int next = away_.begin()->first;
    int64_t left = space_.FreeBytes() - WorkspaceOf(one);
    double delayed = 0;
    for (auto each = away_.begin(); each != away_.end() && each->first == next; ++each) {
      left -= BytesOf(each->second);
      if (left < 0) delayed += back_.SecondsOf(BytesOf(each->second));
    }
    if (delayed == 0) return 0;
    return std::max(0.0, one.seconds + delayed - lives_.SecondsUntil(position, next));
  }

  // Lines 15 to 27. `seconds` is the time of this run.
  void PrefetchDuring(int position, double seconds) {
    while (!away_.empty()) {
      const int later = away_.begin()->first;
      if (later == position || lives_.ExpectedBytes(later) > capacity_bytes_) return;
      std::vector<size_t> missing;
      double copies = 0;
      for (auto each = away_.begin(); each != away_.end() && each->first == later; ++each) {
        missing.push_back(each->second);
        copies += back_.SecondsOf(BytesOf(each->second));
      }
      // Equation 9: whether they would be late if they began after this run.
      const double begin = std::max(now_ + seconds, back_.end());
      if (begin + copies <= now_ + lives_.SecondsUntil(position, later)) return;
      for (const size_t i : missing) {
        if (!Allocate(i) && !(OffloadFor(i, position, later) && Allocate(i))) return;
        Begin(i, position);
      }
    }
  }

  // Makes room for a fetch. Nothing waits for the copies but the fetch.
  bool OffloadFor(size_t i, int position, int later) {
    const Scheme scheme = FindScheme(BytesOf(i), position, later);
    for (const size_t block : scheme.blocks) Evict(owners_[block], position);
    if (!scheme.blocks.empty() && scheme.late_seconds > 0)
      states_[i].on_host_seconds = std::max(states_[i].on_host_seconds, now_ + scheme.late_seconds);
    out_.Keep();
    return !scheme.blocks.empty();
  }

  void NoteUse(size_t i, int position) {
    State& state = states_[i];
    state.is_used = state.is_used || lives_.life(i).begin < position || lives_.IsFromHost(i);
    const std::vector<int>& changes = lives_.life(i).changes;
    if (state.next_change < changes.size() && changes[state.next_change] == position) {
      state.complete_at = position + 1;
      state.complete_seconds = now_;
      state.on_host = false;
      ++state.next_change;
    }
    ++state.next_use;
  }

  // Lines 29 to 31.
  void AfterUse(size_t i, int position) {
    State& state = states_[i];
    if (state.next_use < lives_.life(i).uses.size()) return;
    if (lives_.IsFromHost(i)) {
      if (!state.on_host) {
        schedule_.residency.stays[*state.stay].offload_at = state.complete_at;
        out_.Insert(state.complete_seconds, BytesOf(i));
        out_.Keep();
      }
    } else if (lives_.IsResult(i)) {
      return;
    }
    const bool is_taken_over = !lives_.IsFixed(i) && owners_[state.block] != i;
    if (!lives_.IsFixed(i) && !is_taken_over) space_.Free(state.block);
    EndStay(i, position + 1);
  }

  const Program& program_;
  const Liveness& liveness_;
  const ModnnLives lives_;
  std::vector<State> states_;    // by life
  std::vector<size_t> owners_;   // by block: the life that has it now
  std::vector<Region> regions_;  // by block, in the space
  ModnnCopies out_, back_;
  int64_t capacity_bytes_;  // of the space
  ModnnSpace space_;
  Schedule schedule_;
  std::set<std::pair<int, size_t>> away_;  // next use, life: on the host and not in the arena
  std::vector<size_t> operands_;           // of the current run, ascending
  size_t next_life_ = 0;
  bool has_workspace_ = false;
  double now_ = 0;
};

}  // namespace

std::optional<Schedule> ModnnSchedule(const ScheduleRequest& request) {
  return Scheduler(request).Make();
}

}  // namespace neap
