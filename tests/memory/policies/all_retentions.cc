#include "tests/memory/policies/all_retentions.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "neap/core/base/units.h"
#include "neap/memory/transfer/overlap.h"
#include "neap/memory/transfer/residency.h"
#include "neap/recompute/rerun_order.h"
#include "tests/memory/finished_plan.h"

namespace neap::testing {
namespace {

// The position at which backward begins: the first run that is a rerun or not a forward step.
int TurningPoint(const Program& program, const ComputeSequence& runs) {
  const auto turn = std::find_if(runs.begin(), runs.end(), [&](const Run& run) {
    return run.recompute || program.steps[run.step.index()].phase != Phase::kForward;
  });
  return static_cast<int>(turn - runs.begin());
}

enum class Retention : uint8_t { kKept, kRebuiltOnce, kRebuiltEachTime };

bool IsWanted(const Segments& segments, const Step& step) {
  return std::any_of(step.writes.begin(), step.writes.end(),
                     [&](const Use& use) { return segments.in_backward[use.tensor.index()]; });
}

// Results that take one block are kept.
bool IsLarge(const Program& program, const Step& step) {
  return std::any_of(step.writes.begin(), step.writes.end(), [&](const Use& use) {
    return program.tensor(use.tensor).spec.size_bytes() > kBlockBytes;
  });
}

// The steps that can be rerun and have a result that backward or another such step's rerun reads.
std::vector<StepId> Choices(const Program& program) {
  const Segments segments = NothingDropped(program);
  std::vector<bool> is_read(program.tensors.size(), false);
  for (const Step& step : program.steps) {
    if (!segments.of_step[step.id.index()].has_value()) continue;
    for (const Use& use : ReadsOf(step, /*rerun=*/true)) is_read[use.tensor.index()] = true;
  }
  std::vector<StepId> steps;
  for (const Step& step : program.steps) {
    if (!segments.of_step[step.id.index()].has_value() || !IsLarge(program, step)) continue;
    const bool read_again = std::any_of(step.writes.begin(), step.writes.end(),
                                        [&](auto& use) { return is_read[use.tensor.index()]; });
    if (IsWanted(segments, step) || read_again) steps.push_back(step.id);
  }
  return steps;
}

// Goes on to the next combination of retentions. False after the last one.
bool Advance(const Program& program, const Segments& segments, const std::vector<StepId>& choices,
             std::vector<Retention>& retentions) {
  for (size_t i = 0; i < retentions.size(); ++i) {
    const bool is_wanted = IsWanted(segments, program.steps[choices[i].index()]);
    if (retentions[i] == Retention::kKept) {
      retentions[i] = Retention::kRebuiltOnce;
      return true;
    }
    if (retentions[i] == Retention::kRebuiltOnce && is_wanted) {
      retentions[i] = Retention::kRebuiltEachTime;
      return true;
    }
    retentions[i] = Retention::kKept;
  }
  return false;
}

}  // namespace

size_t AllRetentions::CountChoices(const Program& program) { return Choices(program).size(); }

AllRetentions::AllRetentions(const Program& program, const DeviceDescription& device,
                             EngineCatalog& catalog)
    : program_(program),
      device_(device),
      engines_(EngineTable::List(program, {}, /*strict=*/false, device, catalog).value()),
      persistent_bytes_(PersistentBytes(program)) {
  REQUIRE(engines_.PriceReruns(program, catalog).ok());
  AddOrders(Choices(program));
  std::stable_sort(
      combinations_.begin(), combinations_.end(),
      [](const Combination& a, const Combination& b) { return a.least_us < b.least_us; });
}

// Every choice of what is rebuilt, and the orders of runs to which they lead, each once.
void AllRetentions::AddOrders(const std::vector<StepId>& choices) {
  Segments segments = NothingDropped(program_);
  std::vector<RerunMode> modes(segments.steps.size(), RerunMode::kOnDemand);
  std::vector<Retention> retentions(choices.size(), Retention::kKept);
  std::set<std::vector<size_t>> seen;
  do {
    for (size_t i = 0; i < choices.size(); ++i) {
      SetDropped(program_.steps[choices[i].index()], retentions[i] != Retention::kKept, segments);
      modes[*segments.of_step[choices[i].index()]] = retentions[i] == Retention::kRebuiltEachTime
                                                         ? RerunMode::kMemoryCentric
                                                         : RerunMode::kOnDemand;
    }
    ComputeSequence runs = OrderReruns(program_, segments, modes);
    std::vector<size_t> steps;
    for (const Run& run : runs) steps.push_back(run.step.index());
    if (seen.insert(std::move(steps)).second) AddOrder(std::move(runs));
  } while (Advance(program_, segments, choices, retentions));
}

void AllRetentions::AddOrder(ComputeSequence runs) {
  Order order;
  const EngineTable engines = engines_.For(runs);
  order.begin_us = {0};
  for (const Run& run : runs) {
    order.workspaces.push_back(RoundUp(engines.Smallest(run).workspace_bytes, kBlockBytes));
    order.run_seconds.push_back(engines.Of(run).configurations.front().seconds);
    order.begin_us.push_back(order.begin_us.back() + 1e6 * order.run_seconds.back());
  }
  order.turn = TurningPoint(program_, runs);
  order.liveness = FindLiveness(program_, std::move(runs), /*in_place=*/true);
  for (const Usage& usage : DecideResidency(program_, order.liveness, order.workspaces, {}).usage)
    order.unmoved.push_back(usage.bytes);
  for (size_t i = 0; i < order.liveness.lives.size(); ++i) {
    const Lifetime& life = order.liveness.lives[i];
    const Tensor& tensor = program_.tensor(life.tensor);
    if (life.begin < order.turn && life.end > order.turn && !IsPersistent(tensor.role) &&
        IsCached(tensor.role) && tensor.spec.size_bytes() > kBlockBytes)
      order.movable.push_back(i);
  }
  orders_.push_back(std::move(order));
  AddCombinations(orders_.size() - 1);
}

void AllRetentions::AddCombinations(size_t index) {
  const Order& order = orders_[index];
  for (uint32_t moved = 0; moved < uint32_t{1} << order.movable.size(); ++moved) {
    combinations_.push_back({.order = index,
                             .moved = moved,
                             .least_us = LeastUs(order, moved),
                             .least_bytes = LeastBytes(order, moved)});
  }
}

// What is moved is in the arena until its last use in forward, and from then on where it is used.
int64_t AllRetentions::LeastBytes(const Order& order, uint32_t moved) const {
  std::vector<int64_t> usage = order.unmoved;
  for (size_t i = 0; i < order.movable.size(); ++i) {
    if ((moved >> i & 1) == 0) continue;
    const Lifetime& life = order.liveness.lives[order.movable[i]];
    const int64_t bytes = UsageOf(program_.tensor(life.tensor)).bytes;
    auto use = std::lower_bound(life.uses.begin(), life.uses.end(), order.turn);
    const int left = use == life.uses.begin() ? 0 : *(use - 1) + 1;
    for (int at = left; at < life.end; ++at) {
      if (use != life.uses.end() && *use == at) {
        ++use;
      } else {
        usage[static_cast<size_t>(at)] -= bytes;
      }
    }
  }
  return *std::max_element(usage.begin(), usage.end());
}

// All runs; or the copies to the host, one after another from when the first value is complete; or
// those back, from when the first one is there until the last reader begins.
double AllRetentions::LeastUs(const Order& order, uint32_t moved) const {
  const double us_per_byte = 1e6 / device_.copy_bandwidth;
  double copies_us = 0, first_complete = order.begin_us.back(), first_there = first_complete;
  double last_read = 0;
  for (size_t i = 0; i < order.movable.size(); ++i) {
    if ((moved >> i & 1) == 0) continue;
    const Lifetime& life = order.liveness.lives[order.movable[i]];
    const Tensor& tensor = program_.tensor(life.tensor);
    const double us = static_cast<double>(tensor.spec.size_bytes()) * us_per_byte;
    const double complete =
        IsGiven(tensor.role) ? 0 : order.begin_us[static_cast<size_t>(life.begin) + 1];
    const int read = *std::lower_bound(life.uses.begin(), life.uses.end(), order.turn);
    copies_us += us;
    first_complete = std::min(first_complete, complete);
    first_there = std::min(first_there, complete + us);
    last_read = std::max(last_read, order.begin_us[static_cast<size_t>(read)]);
  }
  const double all = order.begin_us.back();
  if (moved == 0) return all;
  return std::max({all, first_complete + copies_us, first_there + copies_us + all - last_read});
}

Candidate AllRetentions::Place(const Combination& combination, int64_t limit_bytes) const {
  const Order& order = orders_[combination.order];
  std::vector<bool> eager(program_.tensors.size(), false);
  for (size_t i = 0; i < order.movable.size(); ++i) {
    if ((combination.moved >> i & 1) != 0)
      eager[order.liveness.lives[order.movable[i]].tensor.index()] = true;
  }
  const Usage limit = {.bytes = limit_bytes, .activation_bytes = kUnlimited};
  Residency residency = DecideResidency(program_, order.liveness, order.workspaces,
                                        {.eager = std::move(eager),
                                         .evictable = Evictable::kOnlyCopied,
                                         .eviction = EvictionRule::kBelady,
                                         .limit = limit});
  OverlapTransfers(program_,
                   {.run_seconds = order.run_seconds, .bytes_per_second = device_.copy_bandwidth},
                   limit, residency);
  return PlaceCandidate(program_,
                        {.runs = order.liveness.runs,
                         .residency = std::move(residency),
                         .workspaces = order.workspaces},
                        PlacementMethod::kOffline,
                        {.target_bytes = limit_bytes, .most_comparisons = 100'000});
}

Plan AllRetentions::Write(Candidate candidate, int64_t budget_bytes) const {
  const EngineTable engines = engines_.For(candidate.runs);
  candidate = WriteCandidate(program_, std::move(candidate), engines, PlacementMethod::kOffline,
                             budget_bytes)
                  .value();
  return FinishedPlan(program_, device_, candidate, budget_bytes);
}

std::optional<Plan> AllRetentions::FasterThan(double ms, int64_t budget_bytes) const {
  const int64_t capacity = budget_bytes - persistent_bytes_;
  std::optional<Plan> best;
  for (const Combination& combination : combinations_) {
    if (combination.least_us >= 1e3 * ms) break;
    if (combination.least_bytes > capacity) continue;
    // Placement may leave gaps, so limits below the capacity may be better.
    for (const int64_t limit : {capacity, capacity - capacity / 32, capacity - capacity / 8}) {
      Candidate candidate = Place(combination, std::max(limit, combination.least_bytes));
      if (candidate.arena_bytes > budget_bytes) continue;
      Plan plan = Write(std::move(candidate), budget_bytes);
      if (plan.predicted_ms < ms) {
        ms = plan.predicted_ms;
        best = std::move(plan);
      }
      if (combination.moved == 0) break;
    }
  }
  if (best.has_value()) FillTotals(*best);
  return best;
}

int64_t AllRetentions::SmallestArena() const {
  std::vector<const Combination*> sorted;
  for (const Combination& combination : combinations_) sorted.push_back(&combination);
  std::stable_sort(sorted.begin(), sorted.end(), [](const Combination* a, const Combination* b) {
    return a->least_bytes < b->least_bytes;
  });
  int64_t smallest = std::numeric_limits<int64_t>::max();
  for (const Combination* combination : sorted) {
    if (combination->least_bytes + persistent_bytes_ >= smallest) break;
    smallest = std::min(smallest, Place(*combination, combination->least_bytes).arena_bytes);
  }
  return smallest;
}

std::string DescribeRetentions(const Plan& plan) {
  std::map<TensorId, int> moved, rebuilt;
  for (const Action& action : plan.actions) {
    if (const auto* offload = std::get_if<OffloadAction>(&action)) ++moved[offload->tensor];
    const auto* compute = std::get_if<ComputeAction>(&action);
    if (compute == nullptr || !compute->recompute) continue;
    for (TensorId tensor : plan.steps[compute->step.index()].writes) ++rebuilt[tensor];
  }
  std::string text;
  const auto add = [&](const PlanTensor& tensor, const char* retention, int times) {
    if (times > 0) absl::StrAppend(&text, " ", tensor.name, " ", retention, " (", times, ");");
  };
  for (const PlanTensor& tensor : plan.tensors) {
    if (tensor.bytes <= kBlockBytes) continue;
    add(tensor, "moved", moved[tensor.id]);
    add(tensor, "rebuilt", rebuilt[tensor.id]);
  }
  return text;
}

}  // namespace neap::testing
