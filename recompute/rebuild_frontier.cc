#include "neap/recompute/rebuild_frontier.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/types/span.h"
#include "neap/core/base/parallel.h"
#include "neap/core/plan/planner.h"
#include "neap/recompute/faster_fates.h"
#include "neap/recompute/fates.h"

namespace neap {
namespace {

// The work that all moves of a way down may take together, and all faster fates of its stops, in
// runs that are walked over; and how fine the moves are. Long networks have larger ones, and points
// farther apart. A move frees at least one part in `moves_to_nothing` of the peak's bytes, if it
// can; a point's peak is lower than the last one's by one part in `points_apart`, or more.
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
// another fate of one step, then of two; each may take so many runs. Waits for copies, which the
// seconds of a point leave out, are a large part of their time, so second-best points are kept too.
constexpr size_t kMaxStepsToVary = 16;
constexpr int64_t kMaxRunsToVary = 500'000;

// Steps that get another fate together.
struct Move {
  std::vector<StepId> steps;
  Fate fate = Fate::kKept;
  int64_t bytes = 0;   // that it frees at the peak
  double seconds = 0;  // that its reruns or copies take
};

class Descent {
 public:
  Descent(const Program& program, const RebuildPrices& prices)
      : program_(program),
        prices_(prices),
        fineness_(FinenessFor(program)),
        fates_(program, prices),
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
  FatedOrder OrderNow() {
    FatedOrder order = fates_.Order(hides_);
    walked_ += static_cast<int64_t>(order.runs.size());
    return order;
  }

  // Records the stops of the way down; where no move that rebuilds frees bytes, `last_resort` may.
  template <typename LastResort>
  void Descend(const LastResort& last_resort) {
    while (FreeAtPeak(Fate::kRebuiltOnce) || FreeAtPeak(Fate::kRebuiltEachTime) || PinAtPeak() ||
           last_resort()) {
      const int64_t last = points_[points_.size() - 1].peak_bytes;
      if (order_.peak_bytes <= last - last / fineness_.points_apart) Record();
    }
    if (order_.peak_bytes < points_[points_.size() - 1].peak_bytes) Record();
  }

  // Makes the move if the peak is lower then, or at fewer positions.
  bool Try(const Move& move) {
    if (walked_ > kMaxRuns) return false;
    std::vector<Fate> before;
    for (StepId step : move.steps) {
      before.push_back(fates_.Of(step));
      fates_.Set(step, move.fate);
    }
    FatedOrder order = OrderNow();
    if (order.IsLowerThan(order_)) {
      order_ = std::move(order);
      return true;
    }
    for (size_t i = 0; i < before.size(); ++i) fates_.Set(move.steps[i], before[i]);
    return false;
  }

  // The step, and those before it whose results no backward step reads: kept for its reruns, they
  // would take the place of its own.
  void AddWithSources(StepId first, Move& move) {
    absl::flat_hash_set<StepId> found = {first};
    move.steps = {first};
    for (size_t i = 0; i < move.steps.size(); ++i) {
      const Step& step = program_.steps[move.steps[i].index()];
      move.seconds += fates_.FirstRerunSeconds(step.id);
      ++walked_;
      for (const Use& use : ReadsOf(step, /*rerun=*/true)) {
        if (fates_.IsInBackward(use.tensor)) continue;
        const std::optional<StepId> source = fates_.Producer(use.tensor);
        if (!source.has_value() || !fates_.CanBeRebuilt(*source)) continue;
        if (fates_.Of(*source) != Fate::kKept) continue;
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
      const std::optional<StepId> producer = fates_.Producer(life.tensor);
      if (!producer.has_value() || !fates_.CanBeRebuilt(*producer)) continue;
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

  // Whether a step's fate may change so, to free bytes at the peak.
  static bool MayBecome(Fate before, Fate fate) {
    if (before == Fate::kKept) return true;
    if (before == Fate::kPinned) return fate == Fate::kMoved;
    return before == Fate::kRebuiltOnce && fate == Fate::kRebuiltEachTime;
  }

  // Moves to this fate that free bytes at the peak, those with the least time per byte first.
  std::vector<Move> MovesAtPeak(Fate fate) {
    std::vector<Move> moves;
    for (const auto& [step, bytes] : IdleAtPeak()) {
      if (!MayBecome(fates_.Of(step), fate)) continue;
      moves.push_back({.steps = {step}, .fate = fate, .bytes = bytes});
      Move& move = moves.back();
      if (fate == Fate::kMoved) {
        move.seconds = static_cast<double>(bytes) * prices_.copy_seconds_per_byte;
      } else if (fate == Fate::kRebuiltOnce) {
        AddWithSources(step, move);
      } else {
        move.seconds = fates_.RerunSeconds(step);
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
    Move joined = {.fate = moves.front().fate};
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
    return std::any_of(
               steps.begin(), steps.end(),
               [&](StepId step) { return Try({.steps = {step}, .fate = Fate::kPinned}); }) ||
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
                           *fates_.Producer(life.tensor));
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
    if (fates_.Of(step) == Fate::kPinned) return false;
    const FatedOrder before = order_;
    const std::vector<Fate> fates = fates_.all();
    fates_.Set(step, Fate::kPinned);
    order_ = OrderNow();
    for (int moves = 0; moves < kMaxMovesBehindPin && walked_ <= kMaxRuns; ++moves) {
      if (!FreeAtPeak(Fate::kRebuiltOnce) && !FreeAtPeak(Fate::kRebuiltEachTime)) break;
      if (order_.IsLowerThan(before)) return true;
    }
    fates_.Restore(fates);
    order_ = before;
    return false;
  }

  // Where rebuilding frees nothing more, results are moved: those that are live at the peak, or
  // those that are rebuilt there, whose chains then need not be.
  bool SendAtPeak() {
    if (!CanBeMoved()) return false;
    if (FreeAtPeak(Fate::kMoved)) return true;
    const std::vector<StepId> steps = PinsAtPeak();
    return std::any_of(steps.begin(), steps.end(), [&](StepId step) {
      return fates_.Of(step) != Fate::kMoved && Try({.steps = {step}, .fate = Fate::kMoved});
    });
  }

  void Record() { points_.Add(PointOf(order_, hides_, fates_)); }

  // The way down is short-sighted: what it dropped first may not have been necessary in the end,
  // and where several places have as many bytes, its last move may lower the peak by more than a
  // stop. At each stop and between them, what need not be dropped for so many bytes gets a faster
  // fate after all, at the lowest peaks first: there the most was dropped.
  void Refine(size_t begin, size_t end) {
    std::vector<std::pair<size_t, int64_t>> targets;  // each from the fates of a point
    for (size_t i = end; i-- > begin;) {
      const int64_t above = points_[i - 1].peak_bytes, here = points_[i].peak_bytes;
      const int64_t apart = std::max<int64_t>(above / fineness_.points_apart, 1);
      for (int64_t target = here; target < above; target += apart) targets.emplace_back(i, target);
    }
    const int64_t share = kMaxRunsToRefine / std::max<int64_t>(1, std::ssize(targets)) / 2;
    // Without moves and with them.
    std::vector<std::vector<FatedPoint>> found(2 * targets.size());
    EachInParallel(found.size(), kMaxPlanningThreads, [&] {
      return [&, faster = FasterFates(program_, fates_, hides_)](size_t i) mutable {
        const auto& [point, target] = targets[i / 2];
        const bool may_move = i % 2 == 1;
        if (may_move && !CanBeMoved()) return;
        found[i] = faster.Find(points_.FatesOf(point), target, may_move, share);
      };
    });
    for (std::vector<FatedPoint>& points : found) {
      for (FatedPoint& point : points) points_.Add(std::move(point));
    }
  }

  bool CanBeMoved() const { return std::isfinite(prices_.copy_seconds_per_byte); }

  // Those that can be rebuilt, in small networks.
  std::vector<StepId> StepsToVary() const {
    std::vector<StepId> steps;
    for (const Step& step : program_.steps) {
      if (fates_.CanBeRebuilt(step.id)) steps.push_back(step.id);
    }
    return steps.size() > kMaxStepsToVary ? std::vector<StepId>() : steps;
  }

  // In small networks a single result is a large part of the peak, and the way down has few stops.
  // Around every point, those found here included, another fate is tried of each step, and then of
  // each two, as far as the work goes.
  void Vary() {
    const std::vector<StepId> steps = StepsToVary();
    walked_ = 0;
    for (size_t i = 0; i < points_.size(); ++i) {
      fates_.Restore(points_.FatesOf(i));
      for (StepId step : steps) TryOthers({step});
    }
    walked_ = 0;
    for (size_t i = 0; i < points_.size(); ++i) {
      fates_.Restore(points_.FatesOf(i));
      for (size_t a = 0; a < steps.size(); ++a) {
        for (size_t b = a + 1; b < steps.size(); ++b) TryOthers({steps[b], steps[a]});
      }
    }
  }

  // Gives all of these steps other fates, in all ways, and records what no point is as good as. In
  // the end they have their fates again.
  void TryOthers(absl::Span<const StepId> steps) {
    if (walked_ > kMaxRunsToVary) return;
    if (steps.empty()) {
      order_ = OrderNow();
      if (points_.IsWorthwhile(order_, hides_)) Record();
      return;
    }
    const StepId step = steps.front();
    const Fate before = fates_.Of(step);
    for (Fate fate : {Fate::kKept, Fate::kMoved, Fate::kRebuiltOnce, Fate::kRebuiltEachTime}) {
      if (fate == before) continue;
      if (fate == Fate::kMoved && !CanBeMoved()) continue;
      fates_.Set(step, fate);
      TryOthers(steps.subspan(1));
    }
    fates_.Set(step, before);
  }

  const Program& program_;
  const RebuildPrices& prices_;
  const Fineness fineness_;
  int64_t walked_ = 0;
  bool hides_ = true;  // Fates::Order()
  Fates fates_;
  FatedOrder order_;  // of the fates
  RebuildPoints points_;
};

}  // namespace

std::vector<RebuildPoint> RebuildFrontier(const Program& program, const RebuildPrices& prices) {
  return Descent(program, prices).Run();
}

}  // namespace neap
