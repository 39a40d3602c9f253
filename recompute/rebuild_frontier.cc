#include "neap/recompute/rebuild_frontier.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "neap/core/program/liveness.h"
#include "neap/recompute/cost_aware.h"
#include "neap/recompute/rerun_order.h"
#include "neap/recompute/segments.h"

namespace neap {
namespace {

// The work that all moves may take together, and what is kept after all, in runs that are walked
// over; and how fine the moves are. Long networks have larger ones, and points farther apart. A
// move frees at least one part in `moves_to_nothing` of the peak's bytes, if it can; a point's peak
// is lower than the last one's by one part in `points_apart`, or more.
constexpr int64_t kMostRuns = 2'000'000, kMostRunsToKeep = 500'000;
struct Fineness {
  int64_t moves_to_nothing = 128;
  int64_t points_apart = 32;
};
Fineness FinenessFor(const Program& program) {
  const auto steps = std::max<int64_t>(1, static_cast<int64_t>(program.steps.size()));
  return {.moves_to_nothing = std::clamp<int64_t>(kMostRuns / 8 / steps, 24, 128),
          .points_apart = std::clamp<int64_t>(kMostRuns / 20 / steps, 8, 32)};
}
// The most moves that are tried one by one at a peak.
constexpr size_t kMostTries = 32;
// The most results that are tried to be kept after all, at a stop or between two.
constexpr size_t kMostKept = 8;
// The most moves that follow a pin until it pays.
constexpr int kMostMovesBehindPin = 12;

// What becomes of a step's results that backward wants. Those that are pinned are kept for good:
// where they were rebuilt was the peak.
enum class Fate : uint8_t { kKept, kPinned, kRebuiltOnce, kRebuiltEachTime };
bool IsRebuilt(Fate fate) { return fate == Fate::kRebuiltOnce || fate == Fate::kRebuiltEachTime; }

// The order of runs that fates lead to, and its bytes.
struct Shape {
  Liveness liveness;
  int64_t peak = 0;
  int peak_at = 0;      // the first position with that many bytes
  int64_t at_peak = 0;  // how many positions have that many
  double seconds = 0;

  bool IsLowerThan(const Shape& other) const {
    return std::pair(peak, at_peak) < std::pair(other.peak, other.at_peak);
  }
};

// Steps that get another fate together.
struct Move {
  std::vector<StepId> steps;
  Fate fate = Fate::kKept;
  int64_t bytes = 0;   // that it frees at the peak
  double seconds = 0;  // that its reruns add
};

class Descent {
 public:
  Descent(const Program& program, const std::vector<double>& rerun_seconds)
      : program_(program),
        seconds_(rerun_seconds),
        fineness_(FinenessFor(program)),
        segments_(NothingDropped(program)),
        fates_(program.steps.size(), Fate::kKept),
        modes_(segments_.steps.size(), RerunMode::kOnDemand) {}

  std::vector<RebuildPoint> Run() {
    shape_ = ShapeNow();
    Record();
    while (FreeAtPeak(Fate::kRebuiltOnce) || FreeAtPeak(Fate::kRebuiltEachTime) || PinAtPeak()) {
      const int64_t last = points_.back().peak_bytes;
      if (shape_.peak <= last - last / fineness_.points_apart) Record();
    }
    if (shape_.peak < points_.back().peak_bytes) Record();
    Refine();
    return Fastest(std::move(points_));
  }

 private:
  Shape ShapeNow() {
    Shape shape;
    shape.liveness =
        FindLiveness(program_, OrderReruns(program_, segments_, modes_), CanBeInPlace(program_));
    const auto& [runs, lives, replaces] = shape.liveness;
    std::vector<int64_t> change(runs.size() + 1, 0);
    for (size_t i = 0; i < lives.size(); ++i) {
      const Tensor& tensor = program_.tensor(lives[i].tensor);
      if (IsPersistent(tensor.role)) continue;
      // In place, a life takes over the bytes of another one position before that one ends.
      const int begin = lives[i].begin + (replaces[i].has_value() ? 1 : 0);
      change[static_cast<size_t>(begin)] += tensor.spec.size_bytes();
      change[static_cast<size_t>(lives[i].end)] -= tensor.spec.size_bytes();
    }
    walked_ += static_cast<int64_t>(runs.size());
    int64_t now = 0;
    for (size_t i = 0; i < runs.size(); ++i) {
      now += change[i];
      if (runs[i].recompute) shape.seconds += seconds_[runs[i].step.index()];
      if (now == shape.peak) ++shape.at_peak;
      if (now <= shape.peak) continue;
      shape.peak = now;
      shape.peak_at = static_cast<int>(i);
      shape.at_peak = 1;
    }
    return shape;
  }

  Fate FateOf(StepId step) const { return fates_[step.index()]; }
  bool CanBeRebuilt(StepId step) const {
    return segments_.of_step[step.index()].has_value() && std::isfinite(seconds_[step.index()]);
  }
  void Set(StepId step, Fate fate) {
    fates_[step.index()] = fate;
    SetDropped(program_.steps[step.index()], IsRebuilt(fate), segments_);
    modes_[*segments_.of_step[step.index()]] =
        fate == Fate::kRebuiltEachTime ? RerunMode::kMemoryCentric : RerunMode::kOnDemand;
  }

  // Makes the move if the peak is lower then, or at fewer positions.
  bool Try(const Move& move) {
    if (walked_ > kMostRuns) return false;
    std::vector<Fate> before;
    for (StepId step : move.steps) {
      before.push_back(FateOf(step));
      Set(step, move.fate);
    }
    Shape shape = ShapeNow();
    if (shape.IsLowerThan(shape_)) {
      shape_ = std::move(shape);
      return true;
    }
    for (size_t i = 0; i < before.size(); ++i) Set(move.steps[i], before[i]);
    return false;
  }

  // The step, and those before it whose results no backward step reads: kept for its reruns, they
  // would take the place of its own.
  void AddWithSources(StepId first, Move& move) {
    absl::flat_hash_set<StepId> found = {first};
    move.steps = {first};
    for (size_t i = 0; i < move.steps.size(); ++i) {
      const Step& step = program_.steps[move.steps[i].index()];
      move.seconds += seconds_[step.id.index()];
      ++walked_;
      for (const Use& use : ReadsOf(step, /*rerun=*/true)) {
        if (segments_.in_backward[use.tensor.index()]) continue;
        const std::optional<StepId> source = segments_.producer[use.tensor.index()];
        if (!source.has_value() || !CanBeRebuilt(*source) || FateOf(*source) != Fate::kKept)
          continue;
        if (found.insert(*source).second) move.steps.push_back(*source);
      }
    }
  }

  // The steps whose results are live at the peak without being used there, with the bytes of these.
  std::vector<std::pair<StepId, int64_t>> IdleAtPeak() const {
    std::vector<std::pair<StepId, int64_t>> idle;
    for (const Lifetime& life : shape_.liveness.lives) {
      if (life.begin > shape_.peak_at) break;
      if (life.end <= shape_.peak_at) continue;
      const std::optional<StepId> producer = segments_.producer[life.tensor.index()];
      if (!producer.has_value() || !CanBeRebuilt(*producer)) continue;
      if (std::binary_search(life.uses.begin(), life.uses.end(), shape_.peak_at)) continue;
      idle.emplace_back(*producer, program_.tensor(life.tensor).spec.size_bytes());
    }
    std::sort(idle.begin(), idle.end());
    size_t count = 0;
    for (const auto& [step, bytes] : idle) {
      if (count > 0 && idle[count - 1].first == step) {
        idle[count - 1].second += bytes;
      } else {
        idle[count++] = {step, bytes};
      }
    }
    idle.resize(count);
    return idle;
  }

  // Moves to this fate that free bytes at the peak, those with the least time per byte first.
  std::vector<Move> MovesAtPeak(Fate fate) {
    std::vector<Move> moves;
    for (const auto& [step, bytes] : IdleAtPeak()) {
      const Fate before = FateOf(step);
      if (before != Fate::kKept && (before != Fate::kRebuiltOnce || fate == before)) continue;
      moves.push_back({.fate = fate, .bytes = bytes});
      Move& move = moves.back();
      if (fate == Fate::kRebuiltOnce) {
        AddWithSources(step, move);
      } else {
        move.steps = {step};
        move.seconds = seconds_[step.index()];
      }
    }
    std::stable_sort(moves.begin(), moves.end(), [](const Move& a, const Move& b) {
      return a.seconds * static_cast<double>(b.bytes) < b.seconds * static_cast<double>(a.bytes);
    });
    return moves;
  }

  // Where one move frees little, several at once.
  bool FreeAtPeak(Fate fate) {
    const std::vector<Move> moves = MovesAtPeak(fate);
    const int64_t wanted = shape_.peak / fineness_.moves_to_nothing;
    size_t together = 0;
    for (int64_t bytes = 0; together < moves.size() && bytes < wanted; ++together)
      bytes += moves[together].bytes;
    for (; together > 1; together /= 2) {
      if (Try(Joined(moves, together))) return true;
    }
    return std::any_of(moves.begin(), moves.begin() + Most(moves.size()),
                       [&](const Move& move) { return Try(move); });
  }

  static Move Joined(const std::vector<Move>& moves, size_t count) {
    Move joined = {.fate = moves.front().fate};
    for (size_t i = 0; i < count; ++i)
      joined.steps.insert(joined.steps.end(), moves[i].steps.begin(), moves[i].steps.end());
    std::sort(joined.steps.begin(), joined.steps.end());
    joined.steps.erase(std::unique(joined.steps.begin(), joined.steps.end()), joined.steps.end());
    return joined;
  }
  static ptrdiff_t Most(size_t moves) {
    return static_cast<ptrdiff_t>(std::min(moves, kMostTries));
  }

  // Where rebuilt results are the peak, one of them that is kept instead cuts their chain, or what
  // the chain leads to does. If it takes too many bytes at another place, that one is freed next.
  bool PinAtPeak() {
    const std::vector<StepId> steps = PinsAtPeak();
    return std::any_of(
               steps.begin(), steps.end(),
               [&](StepId step) { return Try({.steps = {step}, .fate = Fate::kPinned}); }) ||
           std::any_of(steps.begin(), steps.end(), [&](StepId step) { return PinAndFree(step); });
  }

  // The largest results first.
  std::vector<StepId> PinsAtPeak() const {
    const auto& [runs, lives, replaces] = shape_.liveness;
    std::vector<std::pair<int64_t, StepId>> rebuilt;
    for (const Lifetime& life : lives) {
      if (life.begin > shape_.peak_at) break;
      if (life.end <= shape_.peak_at || !runs[static_cast<size_t>(life.begin)].recompute) continue;
      rebuilt.emplace_back(program_.tensor(life.tensor).spec.size_bytes(),
                           *segments_.producer[life.tensor.index()]);
    }
    std::sort(rebuilt.rbegin(), rebuilt.rend());
    std::vector<StepId> steps;
    for (const auto& [bytes, step] : rebuilt) steps.push_back(step);
    for (size_t i = static_cast<size_t>(shape_.peak_at) + 1; i < runs.size() && runs[i].recompute;
         ++i)
      steps.push_back(runs[i].step);
    steps.resize(std::min(steps.size(), kMostTries));
    return steps;
  }

  bool PinAndFree(StepId step) {
    if (FateOf(step) == Fate::kPinned) return false;
    const Shape before = shape_;
    const std::vector<Fate> fates = fates_;
    Set(step, Fate::kPinned);
    shape_ = ShapeNow();
    for (int moves = 0; moves < kMostMovesBehindPin && walked_ <= kMostRuns; ++moves) {
      if (!FreeAtPeak(Fate::kRebuiltOnce) && !FreeAtPeak(Fate::kRebuiltEachTime)) break;
      if (shape_.IsLowerThan(before)) return true;
    }
    Restore(fates);
    shape_ = before;
    return false;
  }
  void Restore(const std::vector<Fate>& fates) {
    for (const Step& step : program_.steps) {
      if (FateOf(step.id) != fates[step.id.index()]) Set(step.id, fates[step.id.index()]);
    }
  }

  void Record() {
    points_.push_back({shape_.liveness.runs, shape_.peak, shape_.seconds});
    fates_of_point_.push_back(fates_);
  }

  // The way down is short-sighted: what it dropped first may not have been necessary in the end,
  // and where several places have as many bytes, its last move may lower the peak by more than a
  // stop. At each stop and between them, what need not be dropped for so many bytes is kept after
  // all, at the lowest peaks first: there the most was dropped.
  void Refine() {
    walked_ = 0;
    for (size_t i = points_.size() - 1; i > 0; --i) {
      const int64_t above = points_[i - 1].peak_bytes, here = points_[i].peak_bytes;
      const int64_t apart = std::max<int64_t>(above / fineness_.points_apart, 1);
      for (int64_t target = here; target < above; target += apart) {
        if (walked_ > kMostRunsToKeep) return;
        Restore(fates_of_point_[i]);
        KeepWithin(target);
      }
    }
  }

  // Keeps what can be kept without a peak above `target`, what takes the longest to rebuild first.
  void KeepWithin(int64_t target) {
    shape_ = ShapeNow();
    std::vector<StepId> rebuilt;
    for (const Step& step : program_.steps) {
      if (IsRebuilt(FateOf(step.id))) rebuilt.push_back(step.id);
    }
    std::stable_sort(rebuilt.begin(), rebuilt.end(),
                     [&](StepId a, StepId b) { return seconds_[a.index()] > seconds_[b.index()]; });
    rebuilt.resize(std::min(rebuilt.size(), kMostKept));
    bool found = false;
    for (StepId step : rebuilt) {
      if (walked_ > kMostRunsToKeep) break;
      const Fate before = FateOf(step);
      Set(step, Fate::kKept);
      Shape shape = ShapeNow();
      if (shape.peak <= target && shape.seconds < shape_.seconds) {
        shape_ = std::move(shape);
        found = true;
      } else {
        Set(step, before);
      }
    }
    if (found) Record();
  }

  // The points of which none has both a lower peak and less to rebuild.
  static std::vector<RebuildPoint> Fastest(std::vector<RebuildPoint> points) {
    std::stable_sort(points.begin(), points.end(),
                     [](const RebuildPoint& a, const RebuildPoint& b) {
                       return std::pair(a.peak_bytes, a.rerun_seconds) <
                              std::pair(b.peak_bytes, b.rerun_seconds);
                     });
    std::vector<RebuildPoint> fastest;
    for (RebuildPoint& point : points) {
      if (fastest.empty() || point.rerun_seconds < fastest.back().rerun_seconds)
        fastest.push_back(std::move(point));
    }
    std::reverse(fastest.begin(), fastest.end());
    return fastest;
  }

  const Program& program_;
  const std::vector<double>& seconds_;
  const Fineness fineness_;
  int64_t walked_ = 0;
  Segments segments_;
  std::vector<Fate> fates_;       // by StepId
  std::vector<RerunMode> modes_;  // by segment: a segment is one step
  Shape shape_;
  std::vector<RebuildPoint> points_;
  std::vector<std::vector<Fate>> fates_of_point_;
};

}  // namespace

std::vector<RebuildPoint> RebuildFrontier(const Program& program,
                                          const std::vector<double>& rerun_seconds) {
  return Descent(program, rerun_seconds).Run();
}

}  // namespace neap
