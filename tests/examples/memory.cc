// The examples of the headers under memory/, compiled but not run.
#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/base/units.h"
#include "neap/core/plan/budget_refusal.h"
#include "neap/core/plan/describe_program.h"
#include "neap/core/program/liveness.h"
#include "neap/core/program/passes.h"
#include "neap/layers/profile/profiled_timings.h"
#include "neap/memory/budget_bound.h"
#include "neap/memory/create_session.h"
#include "neap/memory/engines/gain_rule.h"
#include "neap/memory/engines/kernel_options.h"
#include "neap/memory/known_plan.h"
#include "neap/memory/parts_search.h"
#include "neap/memory/placement/heap.h"
#include "neap/memory/placement/offline_allocator.h"
#include "neap/memory/placement/placement.h"
#include "neap/memory/placement/placement_method.h"
#include "neap/memory/planner.h"
#include "neap/memory/planner_options.h"
#include "neap/memory/policies/modnn.h"
#include "neap/memory/policies/modnn_copies.h"
#include "neap/memory/policies/modnn_lives.h"
#include "neap/memory/policies/modnn_space.h"
#include "neap/memory/policies/modnn_sub_batch.h"
#include "neap/memory/policies/policies.h"
#include "neap/memory/program_choice.h"
#include "neap/memory/search/action_writer.h"
#include "neap/memory/search/candidate.h"
#include "neap/memory/search/candidate_maker.h"
#include "neap/memory/search/iteration_time.h"
#include "neap/memory/search/ladder.h"
#include "neap/memory/search/order_set.h"
#include "neap/memory/search/plan_search.h"
#include "neap/memory/search/plan_search_parts.h"
#include "neap/memory/search/residencies.h"
#include "neap/memory/search/rung_queue.h"
#include "neap/memory/search/search_order.h"
#include "neap/memory/search/search_rounds.h"
#include "neap/memory/search/time_bound.h"
#include "neap/memory/search/time_floor.h"
#include "neap/memory/smallest_program.h"
#include "neap/memory/sum_costs.h"
#include "neap/memory/transfer/byte_history.h"
#include "neap/memory/transfer/pools.h"
#include "neap/memory/transfer/residency.h"
#include "neap/memory/transfer/tensor_cache.h"
#include "neap/memory/transfer/usage.h"
#include "neap/memory/transfer/waits.h"

namespace neap {

absl::Status ChooseExample(const Graph& graph, const std::unique_ptr<Device>& device) {
  const auto lower = [&](const ProgramChoice& choice) {
    return Lower(graph,
                 {.offload_params = choice.offload_params, .sub_batches = choice.sub_batches},
                 device->description());
  };
  ASSIGN_OR_RETURN(
      const ChosenProgram chosen,
      ChooseProgram(lower, {.budget_bytes = 4 * kGiB}, device->description(), device->backend()));
  return absl::OkStatus();
}

// memory/parts_search.h
absl::Status PlanSearchPartsExample(
    const std::function<absl::StatusOr<PartsAttempt>(int64_t)>& Attempt) {
  RETURN_IF_ERROR(SearchParts(PartCounts(250), {.start = 8}, [&](int64_t count) {
    return Attempt(count);  // plans, and keeps the plan if it is the fastest so far
  }));
  return absl::OkStatus();
}

// memory/budget_bound.h
void BoundExample(const Program& program, const PlannerOptions& options,
                  const DeviceDescription& device, EngineCatalog& catalog) {
  BudgetBound(program, options) <= *MinimumBudget(program, options, device, catalog);
}

// memory/smallest_program.h
absl::Status SmallestProgramExample(LowerWith lower, const PlannerOptions& options,
                                    const DeviceDescription& device, EngineCatalog& catalog) {
  ProgramSizes sizes(lower, options, device, catalog);
  for (const int64_t count : PartCounts(250)) sizes.Add({.sub_batches = count});
  ASSIGN_OR_RETURN(const std::optional<ProgramChoice> smallest, sizes.Smallest());
  return absl::OkStatus();
}

absl::Status CreateSessionExample(const Graph& net, const std::unique_ptr<Device>& device) {
  ASSIGN_OR_RETURN(Session session, CreateSession(net, *device, {.budget_bytes = 12 * kGiB}));
  return absl::OkStatus();
}

// core/plan/budget_refusal.h
absl::Status SmallestBudgetExample(const Graph& net, Device& device) {
  absl::StatusOr<Session> session = CreateSession(net, device, {.budget_bytes = kMiB});
  if (const std::optional<int64_t> smallest = SmallestBudget(session.status())) {
    session = CreateSession(net, device, {.budget_bytes = *smallest});
  }
  return session.status();
}

absl::Status PlannerExample(const Program& program, const DeviceDescription& description,
                            EngineCatalog& catalog) {
  ASSIGN_OR_RETURN(PlanResult result,
                   MakePlan(program, {.budget_bytes = 12 * kGiB}, description, catalog));
  result.plan.peak_bytes;
  result.stats.minimum_budget_bytes;
  return absl::OkStatus();
}

void PlannerOptionsExample() { PlannerOptions options = {.budget_bytes = 12 * kGiB}; }

absl::Status PlanSearchExample(const Program& program, const Policy& policy,
                               const PlannerOptions& options, const DeviceDescription& device,
                               EngineCatalog& catalog) {
  ASSIGN_OR_RETURN(const PlanSearch search,
                   PlanSearch::Create(program, policy, options, device, catalog));
  const Candidate smallest = search.Smallest();
  smallest.arena_bytes;
  ASSIGN_OR_RETURN(const Candidate best, search.Best(smallest, 12 * kGiB));
  best.written.actions;
  return absl::OkStatus();
}

absl::Status PlanSearchPartsExample(const Program& program, const Policy& policy,
                                    const PlannerOptions& options, const DeviceDescription& device,
                                    EngineCatalog& catalog, double best_us) {
  const Residencies residencies(program, options);
  const IterationTime times(options, device);
  const TimeFloor floor(program, options, device, residencies, times);
  OrderSet orders(program, policy, options, device, residencies, floor);
  RETURN_IF_ERROR(orders.AddThoseOfPolicy(catalog));
  orders.first().fastest_us;
  RETURN_IF_ERROR(orders.AddThoseForPlan(catalog));
  const auto try_rungs = [](const SearchOrder&, const std::vector<int64_t>&) {};

  RungQueue queue(orders, residencies, floor, /*budget_bytes=*/12 * kGiB);
  for (const Rungs& rungs : queue.Take(/*count=*/8, best_us))
    try_rungs(*rungs.order, rungs.limits_bytes);
  return absl::OkStatus();
}

void OrderExample(const Program& program, const PlannerOptions& options,
                  const DeviceDescription& device, const SearchOrder& order,
                  const Candidate& written, double best_us) {
  const auto try_limit = [](int64_t) {};

  const Residencies residencies(program, options);
  const Usage limit = {.bytes = 8 * kGiB, .activation_bytes = kUnlimited};
  Residency residency = residencies.OverlappedUnder(limit, order, order.workspaces);

  const Ladder ladder(order, residencies);
  for (const int64_t limit_bytes : ladder.limits_bytes()) try_limit(limit_bytes);

  const IterationTime times(options, device);
  Plan scratch = DescribeProgram(program, device);
  times.PredictedUs(written, kNoTimeLimit, scratch);

  const TimeFloor floor(program, options, device, residencies, times);
  floor.LeastUs(order, residencies.Capacity(12 * kGiB));
  floor.IsTooSlow(order, residency, best_us, scratch);

  const CandidateMaker candidates(program, options, residencies, floor);
  const Candidate smallest = candidates.Under({0, 0}, order);
  candidates.FasterAt(8 * kGiB, best_us, order, scratch);
}

absl::Status SearchRoundsExample(const PlanSearchParts& parts) {
  SearchRounds rounds(parts, /*budget_bytes=*/12 * kGiB, kNoTimeLimit);
  RETURN_IF_ERROR(rounds.TryLadders());
  const std::optional<Candidate>& fastest = rounds.fastest();
  return fastest.has_value() ? absl::OkStatus() : absl::NotFoundError("");
}

absl::Status EngineTableExample(const Program& program, const ComputeSequence& runs, bool strict,
                                const DeviceDescription& device, EngineCatalog& catalog) {
  ASSIGN_OR_RETURN(EngineTable engines, EngineTable::List(program, {}, strict, device, catalog));
  RETURN_IF_ERROR(engines.AddReruns(program, runs, catalog));
  const EngineTable of_order = engines.For(runs);
  return absl::OkStatus();
}

absl::Status CandidateExample(const Program& program, const ComputeSequence& runs,
                              const Residency& residency, const std::vector<int64_t>& least,
                              const EngineTable& engines, int64_t budget) {
  Candidate candidate =
      PlaceCandidate(program, {.runs = runs, .residency = residency, .workspaces = least},
                     PlacementMethod::kOffline, {});
  candidate.arena_bytes;
  ASSIGN_OR_RETURN(candidate,
                   WriteCandidate(program, candidate, engines, PlacementMethod::kOffline, budget));
  candidate.written.peak_bytes;
  return absl::OkStatus();
}

absl::Status ActionWriterExample(const Program& program, const ComputeSequence& runs,
                                 const Residency& residency, const EngineTable& engines,
                                 int64_t budget_bytes) {
  Heap heap(budget_bytes - PersistentBytes(program));
  ASSIGN_OR_RETURN(WrittenActions written, WriteActions(program, runs, residency, engines, heap));
  written.peak_bytes;
  return absl::OkStatus();
}

void GainRuleExample(const Program& program, const EngineTable& engines, const TransferTimes& times,
                     const Liveness& liveness, const std::vector<int64_t>& least,
                     const Residency& residency, int64_t level, const ResidencyRules& rules) {
  const std::vector<int64_t> workspaces = WorkspacesByGain(
      program, engines, times, EvictionRule::kLru, {liveness, least, residency, level});
  DecideResidency(program, liveness, workspaces, rules);
}

void KernelOptionsExample(ProfileDatabase database) {
  KernelOptions options = {.timings = std::make_shared<ProfiledTimings>(std::move(database)),
                           .workspace_limit_bytes = 64 * kMiB};
}

absl::Status HeapExample() {
  Heap heap(64 * kMiB);
  ASSIGN_OR_RETURN(Region region, heap.Allocate(1, 100'000));
  RETURN_IF_ERROR(heap.Free(1));
  return absl::OkStatus();
}

absl::Status OfflineAllocatorExample() {
  OfflineAllocator allocator(8 * kKiB, {{1, Region{2 * kKiB, 2 * kKiB}}});
  ASSIGN_OR_RETURN(Region known, allocator.Allocate(1, 2 * kKiB));
  ASSIGN_OR_RETURN(Region other, allocator.Allocate(9, 1 * kKiB));
  return absl::OkStatus();
}

absl::Status PlacementMethodExample(PlannerOptions& options) {
  for (const PlacementMethod method : kPlacementMethods) Name(method);
  ASSIGN_OR_RETURN(options.placement, ParsePlacementMethod("exact-fit-first-fit"));
  return absl::OkStatus();
}

void PlacementExample(const std::vector<PlacementBlock>& blocks, int64_t most) {
  const PlacementResult tight = PlaceOffline(blocks);
  const bool fits = PlaceOffline(blocks, {.target_bytes = most}).extent_bytes <= most;
}

absl::Status PoliciesExample() {
  ASSIGN_OR_RETURN(const Policy policy, FindPolicy("superneurons"));
  return absl::OkStatus();
}

void ByteHistoryExample(const Region& region, int64_t action, int64_t wait_for) {
  ByteHistory<int64_t> last_use(/*nothing=*/-1);
  last_use.Set(region, action);
  last_use.ForEach(region, [&](int64_t action) { wait_for = std::max(wait_for, action); });
}

void PoolsExample(Plan& plan, const std::vector<Action>& actions) {
  plan.actions = actions;
  LayOutPools(plan);
  plan.actions = WithWaits(plan);
}

void ResidencyExample(const Program& program, const ComputeSequence& runs,
                      const std::vector<int64_t>& workspaces, const ResidencyRules& rules) {
  const Liveness liveness = FindLiveness(program, runs, /*in_place=*/true);
  Residency residency = DecideResidency(program, liveness, workspaces, rules);
  residency.usage[8].bytes;
}

void SumCostsExample(DeviceDescription device, const Program& program,
                     const PlannerOptions& options) {
  device = AmongRanks(device, program, options);
  HasCostsOfSums(device);  // whether bandwidth or latency are known
}

void TensorCacheExample(size_t count, int next_use, const Usage& used, const Usage& missing,
                        const Usage& limit, const std::function<Usage(size_t)>& size_of,
                        const std::function<bool(size_t)>& is_locked) {
  auto cache = MakeTensorCache(EvictionRule::kLru, count);
  cache->In(3, next_use);
  for (size_t victim : cache->Out(Excess(used, missing, limit), size_of, is_locked)) {
    cache->Remove(victim);
  }
}

void UsageExample(const Usage& used, const Tensor& tensor,
                  const std::function<void(const Usage&)>& Evict) {
  const Usage limit = {.bytes = 12 * kGiB, .activation_bytes = kUnlimited};
  if (!Fits(used, UsageOf(tensor), limit)) Evict(Excess(used, UsageOf(tensor), limit));
}

void ScheduleExample(const Policy& policy, const Program& program, const Liveness& liveness,
                     const std::vector<absl::Span<const Configuration>>& configurations,
                     double bytes_per_second, int64_t capacity_bytes) {
  const std::optional<Schedule> schedule =
      policy.schedule({program, liveness, configurations, bytes_per_second, capacity_bytes});
  const Region first = schedule->places[0];  // of schedule->residency.stays[0]
}

void ModnnExample(const Program& program, const Liveness& liveness,
                  const std::vector<absl::Span<const Configuration>>& configurations) {
  const std::optional<Schedule> schedule =
      ModnnSchedule({program, liveness, configurations, 8e9, 12 * kGiB});
}

void ModnnCopiesExample(double complete_seconds, int64_t bytes) {
  ModnnCopies out(8e9);
  const double end = out.Insert(complete_seconds, bytes);
  out.Undo();  // takes back the copies since the last Keep()
}

void ModnnLivesExample(const ScheduleRequest& request) {
  const ModnnLives lives(request);
  lives.SecondsUntil(3, 9);  // T and EST of equation 9
}

void ModnnSpaceExample(int64_t bytes, const std::function<bool(size_t)>& may_leave,
                       const std::function<void(absl::Span<const size_t>)>& visit) {
  ModnnSpace space(64 * kMiB);
  if (!space.Allocate(7, bytes).has_value()) space.VisitSchemes(bytes, may_leave, visit);
}

absl::Status ModnnSubBatchExample(
    const Program& program, const std::function<absl::StatusOr<ModnnMemory>(int64_t)>& profile) {
  const ModnnMemory memory = ModnnMemoryOf(program, WithoutWorkspaces(program));
  memory.SelectionBytes(32);  // equation 8
  memory.LeastBytes(1);       // equation 7
  ASSIGN_OR_RETURN(const ModnnSubBatch selected, SelectSubBatch(256, 12 * kGiB, profile));
  return absl::OkStatus();
}

// memory/known_plan.h
absl::Status KnownPlanExample(std::shared_ptr<const Planner> planner, const PlanRequest& request,
                              const ChosenProgram& chosen, LowerWith lower,
                              const DeviceDescription& description, EngineCatalog& catalog) {
  planner = WithKnownPlan(planner, request, chosen);
  return planner->Choose(lower, request, description, catalog).status();
}

void TimeBoundExample(const Program& program, const TimePrices& prices, int64_t capacity_bytes) {
  const double seconds = LeastSeconds(program, prices, capacity_bytes);
}

}  // namespace neap
