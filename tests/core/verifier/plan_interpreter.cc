#include "tests/core/verifier/plan_interpreter.h"

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <random>
#include <vector>

#include "tests/core/verifier/program_versions.h"

namespace neap {
namespace {

using Bytes = std::vector<uint8_t>;

Bytes Pattern(const Plan& plan, TensorId tensor, int version) {
  Bytes bytes(static_cast<size_t>(plan.tensors[tensor.index()].bytes));
  std::minstd_rand random(static_cast<uint32_t>(tensor.value * 1000 + version + 1));
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random() >> 8);
  return bytes;
}

struct Task {
  std::function<void()> run;
  std::vector<size_t> after;  // tasks
};

class Interpreter {
 public:
  explicit Interpreter(const Plan& plan)
      : plan_(plan),
        program_(RunProgram(plan)),
        arena_(static_cast<size_t>(plan.arena_bytes), 0xEE),
        pools_{Bytes(static_cast<size_t>(std::max<int64_t>(plan.host_pool_bytes, 0)), 0xEE),
               Bytes(static_cast<size_t>(std::max<int64_t>(plan.peer_pool_bytes, 0)), 0xEE)} {
    for (const PlanTensor& tensor : plan.tensors) {
      if (!tensor.on_host()) continue;
      copies_[tensor.id] = {Pool::kHost, *tensor.host_offset};
      WriteCopy(copies_[tensor.id], Pattern(plan, tensor.id, 0));
    }
  }

  std::optional<std::string> Run(uint64_t seed) {
    for (size_t i = 0; i < plan_.actions.size() && !fault_; ++i) Issue(i);
    if (!fault_) RunStreams(seed);
    if (!fault_) CheckEnd();
    return fault_;
  }

 private:
  void Fail(const std::string& what) {
    if (!fault_) fault_ = what;
  }

  void Issue(size_t index) {
    const Action& action = plan_.actions[index];
    if (const auto* alloc = std::get_if<AllocAction>(&action)) {
      IssueAlloc(*alloc);
    } else if (const auto* free = std::get_if<FreeAction>(&action)) {
      if (places_.erase(free->tensor) == 0) Fail("frees what is not allocated");
    } else if (const auto* wait = std::get_if<WaitAction>(&action)) {
      const auto task = task_of_.find(static_cast<size_t>(wait->on));
      if (task == task_of_.end()) return Fail("waits for nothing");
      waits_[static_cast<size_t>(wait->stream)].push_back(task->second);
    } else if (const auto* compute = std::get_if<ComputeAction>(&action)) {
      Enqueue(Stream::kCompute, index, [this, c = *compute, at = places_] {
        if (IsCollective(plan_.steps[c.step.index()].phase)) Fail("computes what ranks sum");
        Compute(c, at);
      });
    } else if (const auto* collective = std::get_if<CollectiveAction>(&action)) {
      Enqueue(Stream::kCollective, index, [this, step = collective->step, at = places_] {
        if (!IsCollective(plan_.steps[step.index()].phase)) Fail("sums what ranks do not sum");
        Compute({.step = step}, at);
      });
    } else if (const auto* offload = std::get_if<OffloadAction>(&action)) {
      const Copy copy = {offload->pool, offload->offset};
      copies_[offload->tensor] = copy;
      Enqueue(Stream::kD2h, index,
              [this, t = offload->tensor, copy, at = places_] { WriteCopy(copy, Read(t, at)); });
    } else if (const auto* prefetch = std::get_if<PrefetchAction>(&action)) {
      if (copies_.count(prefetch->tensor) == 0) return Fail("prefetches nothing");
      Enqueue(Stream::kH2d, index,
              [this, t = prefetch->tensor, copy = copies_[prefetch->tensor], at = places_] {
                Write(t, ReadCopy(copy, t), at);
              });
    }
  }

  void IssueAlloc(const AllocAction& alloc) {
    const PlanTensor& tensor = plan_.tensors[alloc.tensor.index()];
    if (alloc.region.offset < 0 || alloc.region.end() > plan_.arena_bytes ||
        alloc.region.bytes < tensor.bytes) {
      return Fail("a bad region");
    }
    if (!places_.emplace(alloc.tensor, alloc.region).second) return Fail("allocates twice");
    if (!homes_.emplace(alloc.tensor, alloc.region).second || !IsGiven(tensor.role)) return;
    if (tensor.on_host()) return;
    Write(alloc.tensor, Pattern(plan_, alloc.tensor, 0), places_);
  }

  void Enqueue(Stream stream, size_t index, std::function<void()> run) {
    const size_t s = static_cast<size_t>(stream);
    Task task = {std::move(run), std::move(waits_[s])};
    waits_[s] = {tasks_.size()};
    task_of_[index] = tasks_.size();
    queues_[s].push_back(tasks_.size());
    tasks_.push_back(std::move(task));
  }

  using Places = std::map<TensorId, Region>;

  Bytes Read(TensorId tensor, const Places& places) {
    const auto place = places.find(tensor);
    if (place == places.end()) return Fail("reads what is not allocated"), Bytes{};
    const auto begin = arena_.begin() + place->second.offset;
    return Bytes(begin, begin + plan_.tensors[tensor.index()].bytes);
  }
  void Write(TensorId tensor, const Bytes& bytes, const Places& places) {
    const auto place = places.find(tensor);
    if (place == places.end()) return Fail("writes what is not allocated");
    std::copy(bytes.begin(), bytes.end(), arena_.begin() + place->second.offset);
  }

  struct Copy {
    Pool pool = Pool::kHost;
    int64_t offset = 0;
  };
  Bytes& PoolOf(const Copy& copy) { return pools_[static_cast<size_t>(copy.pool)]; }
  bool IsInPool(const Copy& copy, size_t bytes) {
    return copy.offset >= 0 && static_cast<size_t>(copy.offset) + bytes <= PoolOf(copy).size();
  }
  Bytes ReadCopy(const Copy& copy, TensorId tensor) {
    const auto bytes = static_cast<size_t>(plan_.tensors[tensor.index()].bytes);
    if (!IsInPool(copy, bytes)) return Fail("reads outside a pool"), Bytes{};
    const auto begin = PoolOf(copy).begin() + copy.offset;
    return Bytes(begin, begin + static_cast<std::ptrdiff_t>(bytes));
  }
  void WriteCopy(const Copy& copy, const Bytes& bytes) {
    if (!IsInPool(copy, bytes.size())) return Fail("writes outside a pool");
    std::copy(bytes.begin(), bytes.end(), PoolOf(copy).begin() + copy.offset);
  }

  void Scribble(const Region& region) {
    if (region.offset < 0 || region.end() > plan_.arena_bytes) return Fail("a bad workspace");
    std::fill_n(arena_.begin() + region.offset, region.bytes, uint8_t{0xDD});
  }

  static bool Overlap(const Region& a, const Region& b) {
    return a.offset < b.end() && b.offset < a.end();
  }

  // A kernel may write any result before it reads any operand, unless both are declared in place.
  void CheckInPlace(const PlanStep& step, const std::vector<std::pair<TensorId, int>>& reads,
                    const std::vector<std::pair<TensorId, int>>& writes, const Places& places) {
    for (const auto& [written, new_version] : writes) {
      for (const auto& [read, old_version] : reads) {
        const std::pair pair(written, read);
        if (written == read || std::count(step.in_place.begin(), step.in_place.end(), pair) > 0)
          continue;
        const auto to = places.find(written), from = places.find(read);
        if (to != places.end() && from != places.end() && Overlap(to->second, from->second))
          Fail("overwrites what it still reads");
      }
    }
  }

  // The micro-batches must compute every image once. A sum must have been begun before a part adds
  // to it, and a recomputation must give the bits of the first run.
  void RunParts(const ComputeAction& compute, const PlanStep& step) {
    if (!compute.recompute) {
      engines_[compute.step] = compute.engines;
    } else if (step.rerun_reads.empty() && !(engines_[compute.step] == compute.engines)) {
      Fail("recomputes other bits");
    }
    int64_t images = 0;
    for (const EngineUse& part : compute.engines) {
      if (part.adds && (step.phase != Phase::kBackwardParams || images == 0))
        Fail("adds to what nothing has written");
      if (part.batch < 1) Fail("runs a micro-batch without images");
      images += part.batch;
    }
    if (!compute.engines.empty() && images != plan_.batch) Fail("computes too few or many images");
  }

  // A kernel that is given one result twice may compute both at the same time.
  void CheckResults(const StepVersions& step) {
    std::map<TensorId, int> results;
    for (const auto* list : {&step.writes, &step.accumulates}) {
      for (const auto& [tensor, version] : *list) {
        if (++results[tensor] > 1) Fail("changes a tensor twice");
      }
    }
  }

  void Compute(const ComputeAction& compute, const Places& places) {
    const StepVersions& step = program_.steps[compute.step.index()];
    const PlanStep& planned = plan_.steps[compute.step.index()];
    CheckResults(step);
    if (compute.recompute && planned.phase != Phase::kForward)
      Fail("reruns a step that is not a forward step");
    if (compute.recompute != (runs_[compute.step] > 0)) Fail("runs twice or reruns too early");
    ++runs_[compute.step];
    RunParts(compute, planned);
    if (compute.workspace.has_value()) Scribble(*compute.workspace);
    for (const auto& [tensor, version] : compute.recompute ? step.rerun_reads : step.reads) {
      const auto made = std::find_if(step.writes.begin(), step.writes.end(),
                                     [t = tensor](const auto& write) { return write.first == t; });
      if (!compute.recompute && made != step.writes.end()) continue;
      if (Read(tensor, places) != Pattern(plan_, tensor, version)) Fail("reads wrong bytes");
    }
    std::vector<std::pair<TensorId, int>> writes = step.writes;
    if (compute.recompute && !planned.rerun_reads.empty()) {
      std::erase_if(writes, [this](const auto& write) {
        return plan_.tensors[write.first.index()].role == Role::kSaved;
      });
    }
    CheckInPlace(planned, compute.recompute ? step.rerun_reads : step.reads, writes, places);
    for (const auto& [tensor, version] : writes)
      Write(tensor, Pattern(plan_, tensor, version), places);
    if (!compute.recompute) {
      for (const auto& [tensor, version] : step.accumulates)
        Write(tensor, Pattern(plan_, tensor, version), places);
    }
    if (compute.workspace.has_value()) Scribble(*compute.workspace);
  }

  // Even seeds prefer one stream over the others, so that transfers come as late or as early as
  // they can.
  void RunStreams(uint64_t seed) {
    std::mt19937_64 random(seed);
    std::vector<bool> done(tasks_.size());
    std::array<size_t, kStreamCount> next = {};
    for (size_t left = tasks_.size(); left > 0 && !fault_;) {
      constexpr size_t kStreams = std::size(kPlanStreams);
      const size_t s = random() % (seed % 2 == 0 ? 17 : kStreams);
      const size_t stream = s < kStreams ? s : seed / 2 % kStreams;
      if (next[stream] == queues_[stream].size()) continue;
      const size_t task = queues_[stream][next[stream]];
      const auto& after = tasks_[task].after;
      if (!std::all_of(after.begin(), after.end(), [&](size_t t) { return done[t]; })) continue;
      RunDuringArrival(tasks_[task], static_cast<uint8_t>(random()));
      done[task] = true;
      ++next[stream];
      --left;
    }
  }

  // The incoming batch has `value` in every byte before and after.
  void RunDuringArrival(const Task& task, uint8_t value) {
    const Region region = plan_.incoming_batch.value_or(Region{});
    if (region.offset < 0 || region.bytes < 0 || region.end() > plan_.arena_bytes)
      return Fail("a bad region for the incoming batch");
    const auto begin = arena_.begin() + region.offset;
    std::fill_n(begin, region.bytes, value);
    task.run();
    if (std::count(begin, begin + region.bytes, value) != region.bytes)
      Fail("the incoming batch is overwritten");
  }

  void CheckEnd() {
    for (const PlanTensor& tensor : plan_.tensors) {
      const auto place = places_.find(tensor.id);
      if (!IsPersistent(tensor.role)) {
        if (place != places_.end()) Fail("leaks");
      } else if (tensor.on_host()) {
        CheckResident(tensor);
      } else if (place == places_.end() || !(place->second == homes_[tensor.id])) {
        Fail("a persistent tensor is not at home");
      } else if (Read(tensor.id, places_) != Pattern(plan_, tensor.id, program_.last[tensor.id])) {
        Fail("a persistent tensor ends with wrong bytes");
      }
    }
    if (std::any_of(plan_.steps.begin(), plan_.steps.end(),
                    [this](const PlanStep& step) { return runs_[step.id] == 0; })) {
      Fail("leaves out a step");
    }
  }

  void CheckResident(const PlanTensor& tensor) {
    if (places_.count(tensor.id) > 0) Fail("a tensor of the host ends in the arena");
    const Copy home = {Pool::kHost, *tensor.host_offset};
    if (ReadCopy(home, tensor.id) != Pattern(plan_, tensor.id, program_.last[tensor.id]))
      Fail("a tensor of the host ends with wrong bytes");
  }

  const Plan& plan_;
  ProgramVersions program_;
  Bytes arena_;
  std::array<Bytes, kPoolCount> pools_;  // by Pool
  std::map<TensorId, Copy> copies_;      // the last offload's, in issue order
  Places places_, homes_;
  std::map<StepId, int> runs_;
  std::map<StepId, std::vector<EngineUse>> engines_;  // of the first run
  std::vector<Task> tasks_;
  std::map<size_t, size_t> task_of_;  // by action
  std::array<std::vector<size_t>, kStreamCount> queues_, waits_;
  std::optional<std::string> fault_;
};

// A tensor shares its bytes with one allocated before it: the bytes count once, as the first's.
struct Shared {
  Region region;
  int64_t counted;
  std::vector<TensorId> names;
};

int64_t PeakActivations(const Plan& plan) {
  std::vector<Shared> live;
  int64_t peak = 0;
  for (const Action& action : plan.actions) {
    if (const auto* alloc = std::get_if<AllocAction>(&action)) {
      const PlanTensor& tensor = plan.tensors[alloc->tensor.index()];
      const auto same = std::find_if(live.begin(), live.end(),
                                     [&](const Shared& s) { return s.region == alloc->region; });
      const bool counts = tensor.role == Role::kActivation || tensor.role == Role::kSaved ||
                          tensor.role == Role::kGradient;
      if (same != live.end())
        same->names.push_back(alloc->tensor);
      else
        live.push_back({alloc->region, counts ? tensor.bytes : 0, {alloc->tensor}});
    } else if (const auto* free = std::get_if<FreeAction>(&action)) {
      for (Shared& shared : live) std::erase(shared.names, free->tensor);
      std::erase_if(live, [](const Shared& shared) { return shared.names.empty(); });
    } else if (std::holds_alternative<ComputeAction>(action)) {
      int64_t sum = 0;
      for (const Shared& shared : live) sum += shared.counted;
      peak = std::max(peak, sum);
    }
  }
  return peak;
}

// Whether a copy of the tensor is in the pool just after action `now`.
bool IsInPool(const Plan& plan, TensorId tensor, Pool pool, size_t now) {
  if (plan.tensors[tensor.index()].on_host()) return pool == Pool::kHost;
  bool copied = false, read_before = false;
  for (size_t i = 0; i < plan.actions.size(); ++i) {
    const auto* offload = std::get_if<OffloadAction>(&plan.actions[i]);
    const auto* prefetch = std::get_if<PrefetchAction>(&plan.actions[i]);
    if (offload != nullptr && offload->tensor == tensor) {
      if (i > now) break;
      copied = offload->pool == pool;
      read_before = false;
    }
    if (prefetch == nullptr || prefetch->tensor != tensor) continue;
    if (i > now) return copied;  // a later prefetch reads it
    read_before = true;
  }
  return copied && !read_before;
}

int64_t PeakOf(const Plan& plan, Pool pool) {
  int64_t peak = 0;
  const auto note = [&](const auto& is_there) {
    int64_t sum = 0;
    for (const PlanTensor& tensor : plan.tensors) {
      if (is_there(tensor)) sum += (tensor.bytes + kBlockBytes - 1) / kBlockBytes * kBlockBytes;
    }
    peak = std::max(peak, sum);
  };
  if (pool == Pool::kHost) note([](const PlanTensor& tensor) { return tensor.on_host(); });
  for (size_t i = 0; i < plan.actions.size(); ++i) {
    if (!std::holds_alternative<OffloadAction>(plan.actions[i])) continue;
    note([&](const PlanTensor& tensor) { return IsInPool(plan, tensor.id, pool, i); });
  }
  return peak;
}

}  // namespace

std::optional<std::string> Interpret(const Plan& plan, uint64_t seed) {
  return Interpreter(plan).Run(seed);
}

void RecomputeTotals(Plan& plan) {
  plan.peak_bytes = IncomingBytes(plan) == 0 ? 0 : plan.incoming_batch->end();
  plan.host_peak_bytes = PeakOf(plan, Pool::kHost);
  plan.peer_peak_bytes = PeakOf(plan, Pool::kPeer);
  plan.peak_activation_bytes = PeakActivations(plan);
  for (const Action& action : plan.actions) {
    if (const auto* alloc = std::get_if<AllocAction>(&action)) {
      plan.peak_bytes = std::max(plan.peak_bytes, alloc->region.end());
    } else if (const auto* compute = std::get_if<ComputeAction>(&action)) {
      if (compute->workspace.has_value())
        plan.peak_bytes = std::max(plan.peak_bytes, compute->workspace->end());
    }
  }
}

}  // namespace neap
