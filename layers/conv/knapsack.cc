#include "neap/layers/conv/knapsack.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <numeric>

namespace neap {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// A value is a cost less the slack cost of the item's bytes, so that values are simply added.
double ValueOf(const ChoiceProgram& program, const ChoiceItem& item) {
  return item.cost - program.slack_cost * static_cast<double>(item.bytes);
}

// A step from one item to a larger one on the lower convex hull of its class.
struct HullStep {
  size_t choice_class = 0;
  int64_t bytes = 0;
  double value = 0;  // < 0
  double slope() const { return value / static_cast<double>(bytes); }
};

void AppendHullSteps(const ChoiceProgram& program, size_t k, std::vector<HullStep>& steps) {
  const std::vector<ChoiceItem>& items = program.classes[k].items;
  for (size_t from = 0; from + 1 < items.size();) {
    HullStep best;
    size_t next = items.size();
    for (size_t to = from + 1; to < items.size(); ++to) {
      const HullStep step = {k, items[to].bytes - items[from].bytes,
                             ValueOf(program, items[to]) - ValueOf(program, items[from])};
      if (step.bytes == 0 || step.value >= 0) continue;
      if (next < items.size() && step.slope() > best.slope()) continue;
      best = step;
      next = to;
    }
    if (next < items.size()) steps.push_back(best);
    from = next;
  }
}

std::vector<HullStep> HullSteps(const ChoiceProgram& program) {
  std::vector<HullStep> steps;
  for (size_t k = 0; k < program.classes.size(); ++k) AppendHullSteps(program, k, steps);
  std::stable_sort(steps.begin(), steps.end(),
                   [](const HullStep& a, const HullStep& b) { return a.slope() < b.slope(); });
  return steps;
}

// The least value of the undecided members' linear relaxation, by the bytes that are left for them.
class Relaxation {
 public:
  Relaxation(const ChoiceProgram& program, const std::vector<HullStep>& steps,
             const std::vector<int>& undecided) {
    Point at;
    for (size_t k = 0; k < program.classes.size(); ++k) {
      const ChoiceItem& smallest = program.classes[k].items.front();
      at.bytes += undecided[k] * smallest.bytes;
      at.value += undecided[k] * ValueOf(program, smallest);
    }
    points_.push_back(at);
    for (const HullStep& step : steps) {
      if (undecided[step.choice_class] == 0) continue;
      at.bytes += undecided[step.choice_class] * step.bytes;
      at.value += undecided[step.choice_class] * step.value;
      points_.push_back(at);
    }
  }

  double Value(int64_t bytes) const {
    const auto above = std::upper_bound(points_.begin(), points_.end(), bytes,
                                        [](int64_t b, const Point& p) { return b < p.bytes; });
    if (above == points_.begin()) return kInfinity;
    const Point& below = *(above - 1);
    if (above == points_.end()) return below.value;
    const double part =
        static_cast<double>(bytes - below.bytes) / static_cast<double>(above->bytes - below.bytes);
    return below.value + part * (above->value - below.value);
  }

 private:
  struct Point {
    int64_t bytes = 0;
    double value = 0;
  };
  std::vector<Point> points_;
};

// A choice for the members that are decided.
struct State {
  int64_t bytes = 0;
  double value = 0;
  double bound = 0;  // least cost of any solution that contains it
  int parent = 0;    // position among the states of the member before
  int item = 0;      // of the last member
};

class Search {
 public:
  explicit Search(const ChoiceProgram& program)
      : program_(program),
        steps_(HullSteps(program)),
        order_(program.classes.size()),
        best_({.counts = program.start}),
        best_cost_(program.start_cost) {
    // The smallest choices come last, where the relaxation is then nearly exact.
    const auto range = [&](size_t k) {
      return program.classes[k].items.back().bytes - program.classes[k].items.front().bytes;
    };
    std::iota(order_.begin(), order_.end(), size_t{0});
    std::stable_sort(order_.begin(), order_.end(),
                     [&](size_t a, size_t b) { return range(a) > range(b); });
  }

  // A narrow search quickly finds a solution with which a wider one leaves out more.
  ChoiceSolution Run() {
    constexpr int64_t kFirstStates = 64, kGrowth = 8;
    for (int64_t width = std::min(kFirstStates, program_.max_states); width > 0;) {
      Pass(static_cast<size_t>(width));
      best_.cost_bound = std::max(best_.cost_bound, std::min(proven_, best_cost_));
      if (best_cost_ - best_.cost_bound <= program_.tolerance || width == program_.max_states)
        break;
      width = std::min(width * kGrowth, program_.max_states);
    }
    return best_;
  }

 private:
  void Pass(size_t width) {
    proven_ = kInfinity;
    history_.assign(1, std::vector<State>(1));
    std::vector<int> undecided;
    for (const ChoiceClass& one : program_.classes) undecided.push_back(one.members);
    for (const size_t k : order_) {
      while (undecided[k] > 0) {
        --undecided[k];
        history_.push_back(Extend(k, Relaxation(program_, steps_, undecided)));
        RemoveDominated(history_.back());
        Limit(history_.back(), width);
      }
    }
    TakeBest();
  }

  std::vector<State> Extend(size_t k, const Relaxation& rest) {
    const double full = program_.slack_cost * static_cast<double>(program_.capacity_bytes);
    const std::vector<ChoiceItem>& items = program_.classes[k].items;
    const std::vector<State>& before = history_.back();
    std::vector<State> states;
    for (size_t s = 0; s < before.size(); ++s) {
      for (size_t c = 0; c < items.size(); ++c) {
        State state = {.bytes = before[s].bytes + items[c].bytes,
                       .value = before[s].value + ValueOf(program_, items[c]),
                       .parent = static_cast<int>(s),
                       .item = static_cast<int>(c)};
        state.bound = full + state.value + rest.Value(program_.capacity_bytes - state.bytes);
        if (state.bound < best_cost_ - program_.tolerance) {
          states.push_back(state);
        } else {
          proven_ = std::min(proven_, state.bound);
        }
      }
    }
    return states;
  }

  static void RemoveDominated(std::vector<State>& states) {
    std::sort(states.begin(), states.end(), [](const State& a, const State& b) {
      return a.bytes != b.bytes ? a.bytes < b.bytes : a.value < b.value;
    });
    double least = kInfinity;
    std::erase_if(states, [&least](const State& state) {
      if (state.value >= least) return true;
      least = state.value;
      return false;
    });
  }

  void Limit(std::vector<State>& states, size_t width) {
    if (states.size() <= width) return;
    std::stable_sort(states.begin(), states.end(),
                     [](const State& a, const State& b) { return a.bound < b.bound; });
    proven_ = std::min(proven_, states[width].bound);
    states.resize(width);
  }

  // The bound of a state without undecided members is its cost.
  void TakeBest() {
    const std::vector<State>& last = history_.back();
    const auto least = std::min_element(
        last.begin(), last.end(), [](const State& a, const State& b) { return a.bound < b.bound; });
    if (history_.size() == 1 || least == last.end()) return;
    best_cost_ = least->bound;
    for (std::vector<int>& counts : best_.counts) std::fill(counts.begin(), counts.end(), 0);
    const State* state = &*least;
    size_t member = history_.size() - 1;
    for (auto k = order_.rbegin(); k != order_.rend(); ++k) {
      for (int m = 0; m < program_.classes[*k].members; ++m) {
        ++best_.counts[*k][static_cast<size_t>(state->item)];
        state = &history_[--member][static_cast<size_t>(state->parent)];
      }
    }
  }

  const ChoiceProgram& program_;
  const std::vector<HullStep> steps_;
  std::vector<size_t> order_;  // of the classes
  ChoiceSolution best_;
  double best_cost_;
  double proven_ = kInfinity;  // least bound of all states that this pass has left out
  std::vector<std::vector<State>> history_;
};

}  // namespace

ChoiceSolution Solve(const ChoiceProgram& program) { return Search(program).Run(); }

}  // namespace neap
