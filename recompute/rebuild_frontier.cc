#include "neap/recompute/rebuild_frontier.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/types/span.h"
#include "neap/core/base/parallel.h"
#include "neap/core/plan/planner.h"
#include "neap/recompute/faster_retentions.h"
#include "neap/recompute/retentions.h"

namespace neap {
namespace {

// The work that all moves of a way down may take together, and all faster retentions of its stops,
// in runs that are walked over; and how fine the moves are. Long networks have larger ones, and
// points farther apart. A move frees at least one part in `moves_to_nothing` of the peak's bytes,
// if it can; a point's peak is lower than the last one's by one part in `points_apart`, or more.
constexpr int64_t kMaxRuns = 2'000'000, kMaxRunsToRefine = 8'000'000;
struct Fineness {
  int64_t moves_to_nothing = 128;
  int64_t points_apart = 32;
};
Fineness FinenessFor(const Program& program) {
  const auto steps = std::max<int64_t>(1, static_cast<int64_t>(program.steps.size()));
  return {.moves_to_nothing = std::clamp<int64_t>(kMaxRuns / 8 / steps, 24, 128),
          .points_apart = std::clamp<int64_t>(kMaxRuns / 20 / steps, 8, 32)};
}
// The most moves that are tried one by one at a peak.
constexpr size_t kMaxTries = 32;
// The most moves that follow a pin until it pays.
constexpr int kMaxMovesBehindPin = 12;
// Networks with at most so many steps that can be rerun are searched around all points, first for
// another retention of one step, then of two; each may take so many runs. Waits for copies, which
// the seconds of a point leave out, are a large part of their time, so second-best points are kept
// too.
constexpr size_t kMaxStepsToVary = 16;
constexpr int64_t kMaxRunsToVary = 500'000;

// Steps that get another retention together.
struct Move {
  std::vector<StepId> steps;
  Retention retention = Retention::kKept;
  int64_t bytes = 0;   // that it frees at the peak
  double seconds = 0;  // that its reruns or copies take
};

class Descent {
 public:
  Descent(const Program& program, const RebuildPrices& prices)
      : program_(program),
        prices_(prices),
        fineness_(FinenessFor(program)),
        retentions_(program, prices),
        points_(/*most_better=*/StepsToVary().empty() ? 0 : 1) {}

  std::vector<RebuildPoint> Run() {
    order_ = OrderNow();
    Record();
    Descend([] { return false; });
    const size_t rebuilt = points_.size();
    hides_ = false;
    Descend([&] { return SendAtPeak(); });
    const size_t all = points_.size();
    Refine(rebuilt, all);
    Vary();
    hides_ = true;
    Refine(1, rebuilt);
    Vary();
    return std::move(points_).Best();
  }

 private:
  EvaluatedOrder OrderNow() {
    EvaluatedOrder order = retentions_.Order(hides_);
    walked_ += static_cast<int64_t>(order.runs.size());
    return order;
  }

  // Records the stops of the way down; where no move that rebuilds frees bytes, `last_resort` may.
  template <typename LastResort>
  void Descend(const LastResort& last_resort) {
    while (FreeAtPeak(Retention::kRebuiltOnce) || FreeAtPeak(Retention::kRebuiltEachTime) ||
           PinAtPeak() || last_resort()) {
      const int64_t last = points_[points_.size() - 1].peak_bytes;
      if (order_.peak_bytes <= last - last / fineness_.points_apart) Record();
    }
    if (order_.peak_bytes < points_[points_.size() - 1].peak_bytes) Record();
  }

  // Makes the move if the peak is lower then, or at fewer positions.
  bool Try(const Move& move) {
    if (walked_ > kMaxRuns) return false;
    std::vector<Retention> before;
    for (StepId step : move.steps) {
      before.push_back(retentions_.Of(step));
      retentions_.Set(step, move.retention);
    }
    EvaluatedOrder order = OrderNow();
    if (order.IsLowerThan(order_)) {
      order_ = std::move(order);
      return true;
    }
    for (size_t i = 0; i < before.size(); ++i) retentions_.Set(move.steps[i], before[i]);
    return false;
  }

  // The step, and those before it whose results no backward step reads: kept for its reruns, they
  // would take the place of its own.
  void AddWithSources(StepId first, Move& move) {
    absl::flat_hash_set<StepId> found = {first};
    move.steps = {first};
    for (size_t i = 0; i < move.steps.size(); ++i) {
      const Step& step = program_.steps[move.steps[i].index()];
      move.seconds += retentions_.FirstRerunSeconds(step.id);
      ++walked_;
      for (const Use& use : ReadsOf(step, /*rerun=*/true)) {
        if (retentions_.IsInBackward(use.tensor)) continue;
        const std::optional<StepId> source = retentions_.Producer(use.tensor);
        if (!source.has_value() || !retentions_.CanBeRebuilt(*source)) continue;
        if (retentions_.Of(*source) != Retention::kKept) continue;
        if (found.insert(*source).second) move.steps.push_back(*source);
      }
    }
  }

  // The steps whose results are live at the peak without being used there, with the bytes of these.
  std::vector<std::pair<StepId, int64_t>> IdleAtPeak() const {
    std::vector<std::pair<StepId, int64_t>> idle;
    for (const Lifetime& life : Lifetimes(program_, order_.runs)) {
      if (life.begin > order_.peak_at) break;
      if (life.end <= order_.peak_at) continue;
      const std::optional<StepId> producer = retentions_.Producer(life.tensor);
      if (!producer.has_value() || !retentions_.CanBeRebuilt(*producer)) continue;
      if (std::binary_search(life.uses.begin(), life.uses.end(), order_.peak_at)) continue;
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

  // Whether a step's retention may change so, to free bytes at the peak.
  static bool MayBecome(Retention before, Retention retention) {
    if (before == Retention::kKept) return true;
    if (before == Retention::kPinned) return retention == Retention::kMoved;
    return before == Retention::kRebuiltOnce && retention == Retention::kRebuiltEachTime;
  }

  // Moves to this retention that free bytes at the peak, those with the least time per byte first.
  std::vector<Move> MovesAtPeak(Retention retention) {
    std::vector<Move> moves;
    for (const auto& [step, bytes] : IdleAtPeak()) {
      if (!MayBecome(retentions_.Of(step), retention)) continue;
      moves.push_back({.steps = {step}, .retention = retention, .bytes = bytes});
      Move& move = moves.back();
      if (retention == Retention::kMoved) {
        move.seconds = static_cast<double>(bytes) * prices_.copy_seconds_per_byte;
      } else if (retention == Retention::kRebuiltOnce) {
        AddWithSources(step, move);
      } else {
        move.seconds = retentions_.RerunSeconds(step);
      }
    }
    std::stable_sort(moves.begin(), moves.end(), [](const Move& a, const Move& b) {
      return a.seconds * static_cast<double>(b.bytes) < b.seconds * static_cast<double>(a.bytes);
    });
    return moves;
  }

  // Where one move frees little, several at once.
  bool FreeAtPeak(Retention retention) {
    const std::vector<Move> moves = MovesAtPeak(retention);
    const int64_t wanted = order_.peak_bytes / fineness_.moves_to_nothing;
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
    Move joined = {.retention = moves.front().retention};
    for (size_t i = 0; i < count; ++i)
      joined.steps.insert(joined.steps.end(), moves[i].steps.begin(), moves[i].steps.end());
    std::sort(joined.steps.begin(), joined.steps.end());
    joined.steps.erase(std::unique(joined.steps.begin(), joined.steps.end()), joined.steps.end());
    return joined;
  }
  static ptrdiff_t Most(size_t moves) { return static_cast<ptrdiff_t>(std::min(moves, kMaxTries)); }

  // Where rebuilt results are the peak, one of them that is kept instead cuts their chain, or what
  // the chain leads to does. If it takes too many bytes at another place, that one is freed next.
  bool PinAtPeak() {
    const std::vector<StepId> steps = PinsAtPeak();
    return std::any_of(steps.begin(), steps.end(),
                       [&](StepId step) {
                         return Try({.steps = {step}, .retention = Retention::kPinned});
                       }) ||
           std::any_of(steps.begin(), steps.end(), [&](StepId step) { return PinAndFree(step); });
  }

  // The largest results first.
  std::vector<StepId> PinsAtPeak() const {
    const ComputeSequence& runs = order_.runs;
    std::vector<std::pair<int64_t, StepId>> rebuilt;
    for (const Lifetime& life : Lifetimes(program_, runs)) {
      if (life.begin > order_.peak_at) break;
      if (life.end <= order_.peak_at || !runs[static_cast<size_t>(life.begin)].recompute) continue;
      rebuilt.emplace_back(program_.tensor(life.tensor).spec.size_bytes(),
                           *retentions_.Producer(life.tensor));
    }
    std::sort(rebuilt.rbegin(), rebuilt.rend());
    std::vector<StepId> steps;
    absl::flat_hash_set<StepId> found;
    const auto add = [&](StepId step) {
      if (steps.size() < kMaxTries && found.insert(step).second) steps.push_back(step);
    };
    for (const auto& [bytes, step] : rebuilt) add(step);
    for (size_t i = static_cast<size_t>(order_.peak_at) + 1; i < runs.size() && runs[i].recompute;
         ++i)
      add(runs[i].step);
    return steps;
  }

  bool PinAndFree(StepId step) {
    if (retentions_.Of(step) == Retention::kPinned) return false;
    const EvaluatedOrder before = order_;
    const std::vector<Retention> retentions = retentions_.all();
    retentions_.Set(step, Retention::kPinned);
    order_ = OrderNow();
    for (int moves = 0; moves < kMaxMovesBehindPin && walked_ <= kMaxRuns; ++moves) {
      if (!FreeAtPeak(Retention::kRebuiltOnce) && !FreeAtPeak(Retention::kRebuiltEachTime)) break;
      if (order_.IsLowerThan(before)) return true;
    }
    retentions_.Restore(retentions);
    order_ = before;
    return false;
  }

  // Where rebuilding frees nothing more, results are moved: those that are live at the peak, or
  // those that are rebuilt there, whose chains then need not be.
  bool SendAtPeak() {
    if (!CanBeMoved()) return false;
    if (FreeAtPeak(Retention::kMoved)) return true;
    const std::vector<StepId> steps = PinsAtPeak();
    return std::any_of(steps.begin(), steps.end(), [&](StepId step) {
      return retentions_.Of(step) != Retention::kMoved &&
             Try({.steps = {step}, .retention = Retention::kMoved});
    });
  }

  void Record() { points_.Add(PointOf(order_, hides_, retentions_)); }

  // The way down is short-sighted: what it dropped first may not have been necessary in the end,
  // and where several places have as many bytes, its last move may lower the peak by more than a
  // stop. At each stop and between them, what need not be dropped for so many bytes gets a faster
  // retention after all, at the lowest peaks first: there the most was dropped.
  void Refine(size_t begin, size_t end) {
    std::vector<std::pair<size_t, int64_t>> targets;  // each from the retentions of a point
    for (size_t i = end; i-- > begin;) {
      const int64_t above = points_[i - 1].peak_bytes, here = points_[i].peak_bytes;
      const int64_t apart = std::max<int64_t>(above / fineness_.points_apart, 1);
      for (int64_t target = here; target < above; target += apart) targets.emplace_back(i, target);
    }
    const int64_t share = kMaxRunsToRefine / std::max<int64_t>(1, std::ssize(targets)) / 2;
    // Without moves and with them.
    std::vector<std::vector<RetentionPoint>> found(2 * targets.size());
    EachInParallel(found.size(), kMaxPlanningThreads, [&] {
      return [&, faster = FasterRetentions(program_, retentions_, hides_)](size_t i) mutable {
        const auto& [point, target] = targets[i / 2];
        const bool may_move = i % 2 == 1;
        if (may_move && !CanBeMoved()) return;
        found[i] = faster.Find(points_.RetentionsOf(point), target, may_move, share);
      };
    });
    for (std::vector<RetentionPoint>& points : found) {
      for (RetentionPoint& point : points) points_.Add(std::move(point));
    }
  }

  bool CanBeMoved() const { return std::isfinite(prices_.copy_seconds_per_byte); }

  // The steps that can be rebuilt, in small networks.
  std::vector<StepId> StepsToVary() const {
    std::vector<StepId> steps;
    for (const Step& step : program_.steps) {
      if (retentions_.CanBeRebuilt(step.id)) steps.push_back(step.id);
    }
    return steps.size() > kMaxStepsToVary ? std::vector<StepId>() : steps;
  }

  // In small networks a single result is a large part of the peak, and the way down has few stops.
  // Around every point, those found here included, another retention is tried of each step, and
  // then of each two, as far as the work goes.
  void Vary() {
    const std::vector<StepId> steps = StepsToVary();
    walked_ = 0;
    for (size_t i = 0; i < points_.size(); ++i) {
      retentions_.Restore(points_.RetentionsOf(i));
      for (StepId step : steps) TryOthers({step});
    }
    walked_ = 0;
    for (size_t i = 0; i < points_.size(); ++i) {
      retentions_.Restore(points_.RetentionsOf(i));
      for (size_t a = 0; a < steps.size(); ++a) {
        for (size_t b = a + 1; b < steps.size(); ++b) TryOthers({steps[b], steps[a]});
      }
    }
  }

  // Gives all of these steps other retentions, in all ways, and records what no point is as good
  // as. In the end they have their retentions again.
  void TryOthers(absl::Span<const StepId> steps) {
    if (walked_ > kMaxRunsToVary) return;
    if (steps.empty()) {
      order_ = OrderNow();
      if (points_.IsWorthwhile(order_, hides_)) Record();
      return;
    }
    const StepId step = steps.front();
    const Retention before = retentions_.Of(step);
    for (Retention retention : {Retention::kKept, Retention::kMoved, Retention::kRebuiltOnce,
                                Retention::kRebuiltEachTime}) {
      if (retention == before) continue;
      if (retention == Retention::kMoved && !CanBeMoved()) continue;
      retentions_.Set(step, retention);
      TryOthers(steps.subspan(1));
    }
    retentions_.Set(step, before);
  }

  const Program& program_;
  const RebuildPrices& prices_;
  const Fineness fineness_;
  int64_t walked_ = 0;
  bool hides_ = true;  // Retentions::Order()
  Retentions retentions_;
  EvaluatedOrder order_;  // of the retentions
  RebuildPoints points_;
};

}  // namespace

std::vector<RebuildPoint> RebuildFrontier(const Program& program, const RebuildPrices& prices) {
  return Descent(program, prices).Run();
}

}  // namespace neap
