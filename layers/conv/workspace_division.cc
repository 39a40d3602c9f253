#include "neap/layers/conv/workspace_division.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/base/units.h"
#include "neap/layers/conv/knapsack.h"

namespace neap {
namespace {

using Front = std::vector<Configuration>;

// Kernels with equal fronts, which are common because networks repeat layers.
struct KernelClass {
  const Front* front = nullptr;
  std::vector<size_t> kernels;
  double count() const { return static_cast<double>(kernels.size()); }
};

// A division of all kernels: the number of kernels of each class that take each configuration.
struct Counted {
  ChoiceCounts counts;
  int64_t unused_bytes = 0;
};

absl::Status CheckFronts(absl::Span<const Front> fronts, int64_t total_bytes) {
  int64_t smallest_bytes = 0;
  for (size_t k = 0; k < fronts.size(); ++k) {
    if (fronts[k].empty())
      return absl::InvalidArgumentError(absl::StrFormat("kernel %d has no configuration", k));
    smallest_bytes += fronts[k].front().workspace_bytes;
    for (size_t c = 1; c < fronts[k].size(); ++c) {
      const Configuration& less = fronts[k][c - 1];
      const Configuration& more = fronts[k][c];
      if (less.workspace_bytes < more.workspace_bytes && less.seconds > more.seconds) continue;
      return absl::InvalidArgumentError(absl::StrFormat(
          "kernel %d: configurations %d and %d do not rise in workspace and fall in time", k, c - 1,
          c));
    }
  }
  if (smallest_bytes <= total_bytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrFormat(
      "a total workspace of %d bytes (%s) is too small for %d convolutions: they need at least %d "
      "bytes (%s)",
      total_bytes, FormatBytes(total_bytes), fronts.size(), smallest_bytes,
      FormatBytes(smallest_bytes)));
}

std::vector<KernelClass> GroupEqualFronts(absl::Span<const Front> fronts) {
  std::map<std::vector<std::pair<int64_t, double>>, size_t> known;
  std::vector<KernelClass> classes;
  for (size_t k = 0; k < fronts.size(); ++k) {
    std::vector<std::pair<int64_t, double>> key;
    for (const Configuration& c : fronts[k]) key.emplace_back(c.workspace_bytes, c.seconds);
    const auto [at, is_new] = known.emplace(std::move(key), classes.size());
    if (is_new) classes.push_back({.front = &fronts[k]});
    classes[at->second].kernels.push_back(k);
  }
  return classes;
}

// A step from one configuration to the next larger one on its front's lower convex hull.
struct FrontStep {
  size_t kernel_class = 0;
  size_t from = 0;
  size_t to = 0;
  int64_t bytes = 0;
  double seconds_per_byte = 0;  // gained
};

// Appends the steps of one front's hull, whose gains per byte decrease.
void AppendFrontSteps(const Front& front, size_t kernel_class, std::vector<FrontStep>& steps) {
  for (size_t from = 0; from + 1 < front.size();) {
    FrontStep best;
    for (size_t to = from + 1; to < front.size(); ++to) {
      const int64_t bytes = front[to].workspace_bytes - front[from].workspace_bytes;
      const double gain = (front[from].seconds - front[to].seconds) / static_cast<double>(bytes);
      if (gain >= best.seconds_per_byte) best = {kernel_class, from, to, bytes, gain};
    }
    steps.push_back(best);
    from = best.to;
  }
}

std::vector<FrontStep> FrontSteps(const std::vector<KernelClass>& classes) {
  std::vector<FrontStep> steps;
  for (size_t k = 0; k < classes.size(); ++k) AppendFrontSteps(*classes[k].front, k, steps);
  std::stable_sort(steps.begin(), steps.end(), [](const FrontStep& a, const FrontStep& b) {
    return a.seconds_per_byte > b.seconds_per_byte;
  });
  return steps;
}

Counted SmallestDivision(const std::vector<KernelClass>& classes, int64_t total_bytes) {
  Counted division = {.unused_bytes = total_bytes};
  for (const KernelClass& one : classes) {
    const auto members = static_cast<int>(one.kernels.size());
    division.counts.emplace_back(one.front->size(), 0).front() = members;
    division.unused_bytes -= members * one.front->front().workspace_bytes;
  }
  return division;
}

// Moves as many members as fit. Returns false if some did not fit.
bool Move(Counted& division, const FrontStep& step) {
  std::vector<int>& counts = division.counts[step.kernel_class];
  const int64_t fit = division.unused_bytes / step.bytes;
  const auto moved = static_cast<int>(std::min<int64_t>(counts[step.from], fit));
  const bool all = moved == counts[step.from];
  counts[step.from] -= moved;
  counts[step.to] += moved;
  division.unused_bytes -= moved * step.bytes;
  return all;
}

// Spends the unused bytes on single kernels, also on configurations that are not on a hull.
void SpendUnused(const std::vector<KernelClass>& classes, Counted& division) {
  for (size_t k = 0; k < classes.size(); ++k) {
    const Front& front = *classes[k].front;
    for (size_t to = front.size(); to-- > 1;) {
      for (size_t from = 0; from < to; ++from) {
        Move(division, {.kernel_class = k,
                        .from = from,
                        .to = to,
                        .bytes = front[to].workspace_bytes - front[from].workspace_bytes});
      }
    }
  }
}

double Seconds(const std::vector<KernelClass>& classes, const ChoiceCounts& counts) {
  double seconds = 0;
  for (size_t k = 0; k < classes.size(); ++k) {
    for (size_t c = 0; c < counts[k].size(); ++c)
      seconds += counts[k][c] * (*classes[k].front)[c].seconds;
  }
  return seconds;
}

// The linear relaxation: takes the hulls' steps in order of gain per byte until one does not fit
// completely. The gain of that step is the price of a byte. The sum of every kernel's least priced
// time, minus the price of the total, is a lower bound on the time of any division.
struct RelaxedDivision {
  double seconds_per_byte = 0;  // 0: everything fits, so bytes have no price
  double seconds_bound = 0;
  Counted rounded;  // the steps that fit
};

double PricedSeconds(const Configuration& configuration, double seconds_per_byte) {
  return configuration.seconds +
         seconds_per_byte * static_cast<double>(configuration.workspace_bytes);
}
double LeastPricedSeconds(const Front& front, double seconds_per_byte) {
  double least = std::numeric_limits<double>::infinity();
  for (const Configuration& c : front) least = std::min(least, PricedSeconds(c, seconds_per_byte));
  return least;
}

RelaxedDivision Relax(const std::vector<KernelClass>& classes, int64_t total_bytes) {
  RelaxedDivision result = {.rounded = SmallestDivision(classes, total_bytes)};
  for (const FrontStep& step : FrontSteps(classes)) {
    if (!Move(result.rounded, step) && result.seconds_per_byte == 0)
      result.seconds_per_byte = step.seconds_per_byte;
  }
  SpendUnused(classes, result.rounded);
  if (result.seconds_per_byte == 0) {
    result.seconds_bound = Seconds(classes, result.rounded.counts);
    return result;
  }
  result.seconds_bound = -result.seconds_per_byte * static_cast<double>(total_bytes);
  for (const KernelClass& one : classes)
    result.seconds_bound += one.count() * LeastPricedSeconds(*one.front, result.seconds_per_byte);
  return result;
}

// The program that the relaxation leaves open. A configuration's cost is its priced time above its
// kernel's least, relative to the gap: a configuration that costs more than 1 cannot be part of a
// division that is faster than the rounded one.
struct OpenProgram {
  ChoiceProgram program;
  std::vector<std::vector<size_t>> kept;  // by class: the configurations that are items, if any
};

OpenProgram Open(const std::vector<KernelClass>& classes, const RelaxedDivision& relaxation,
                 double gap_seconds, int64_t total_bytes) {
  constexpr double kRounding = 1e-9;
  OpenProgram open = {.program = {.capacity_bytes = total_bytes,
                                  .slack_cost = relaxation.seconds_per_byte / gap_seconds,
                                  .start_cost = 1}};
  for (size_t k = 0; k < classes.size(); ++k) {
    const Front& front = *classes[k].front;
    const double least = LeastPricedSeconds(front, relaxation.seconds_per_byte);
    ChoiceClass items = {.members = static_cast<int>(classes[k].kernels.size())};
    std::vector<int> start;
    open.kept.emplace_back();
    for (size_t c = 0; c < front.size(); ++c) {
      const double cost =
          (PricedSeconds(front[c], relaxation.seconds_per_byte) - least) / gap_seconds;
      const int taken = relaxation.rounded.counts[k][c];
      if (cost > 1 + kRounding && taken == 0) continue;
      items.items.push_back({front[c].workspace_bytes, cost});
      start.push_back(taken);
      open.kept.back().push_back(c);
    }
    if (items.items.size() == 1) {
      open.program.capacity_bytes -= items.members * items.items.front().bytes;
      open.kept.back().clear();
      continue;
    }
    open.program.classes.push_back(std::move(items));
    open.program.start.push_back(std::move(start));
  }
  return open;
}

// Copies the solved counts of the open classes back to their places.
void Close(const OpenProgram& open, const ChoiceCounts& solved, ChoiceCounts& counts) {
  size_t next = 0;
  for (size_t k = 0; k < counts.size(); ++k) {
    if (open.kept[k].empty()) continue;
    for (size_t i = 0; i < open.kept[k].size(); ++i) counts[k][open.kept[k][i]] = solved[next][i];
    ++next;
  }
}

std::vector<size_t> ChoiceByKernel(const std::vector<KernelClass>& classes,
                                   const ChoiceCounts& counts, size_t kernel_count) {
  std::vector<size_t> choice(kernel_count);
  for (size_t k = 0; k < classes.size(); ++k) {
    auto kernel = classes[k].kernels.begin();
    for (size_t c = 0; c < counts[k].size(); ++c) {
      for (int i = 0; i < counts[k][c]; ++i) choice[*kernel++] = c;
    }
  }
  return choice;
}

WorkspaceDivision Result(absl::Span<const Front> fronts, std::vector<size_t> choice,
                         double seconds_bound) {
  constexpr double kRounding = 1e-12;
  WorkspaceDivision result = {.choice = std::move(choice)};
  for (size_t k = 0; k < fronts.size(); ++k) {
    result.workspace_bytes += fronts[k][result.choice[k]].workspace_bytes;
    result.seconds += fronts[k][result.choice[k]].seconds;
  }
  result.seconds_bound = std::min(seconds_bound, result.seconds);
  result.optimal = result.gap() <= kRounding;
  if (result.optimal) result.seconds_bound = result.seconds;
  return result;
}

}  // namespace

absl::StatusOr<WorkspaceDivision> DivideWorkspace(absl::Span<const Front> fronts,
                                                  int64_t total_bytes,
                                                  const WorkspaceDivisionGoal& goal) {
  RETURN_IF_ERROR(CheckFronts(fronts, total_bytes));
  const std::vector<KernelClass> classes = GroupEqualFronts(fronts);
  RelaxedDivision relaxation = Relax(classes, total_bytes);
  ChoiceCounts counts = relaxation.rounded.counts;
  const double seconds = Seconds(classes, counts);
  double seconds_bound = relaxation.seconds_bound;
  if (seconds - seconds_bound > goal.gap * seconds) {
    const double gap_seconds = seconds - seconds_bound;
    OpenProgram open = Open(classes, relaxation, gap_seconds, total_bytes);
    open.program.tolerance = goal.gap * seconds / gap_seconds;
    open.program.max_states = goal.max_states;
    const ChoiceSolution solution = Solve(open.program);
    Close(open, solution.counts, counts);
    seconds_bound += gap_seconds * solution.cost_bound;
  }
  return Result(fronts, ChoiceByKernel(classes, counts, fronts.size()), seconds_bound);
}

}  // namespace neap
