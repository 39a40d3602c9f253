// The heap under load: one allocation and one free among live blocks of mixed sizes.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <random>
#include <vector>

#include "neap/core/base/units.h"
#include "neap/memory/placement/heap.h"

namespace neap {
namespace {

constexpr uint32_t kSeed = 1;

int64_t RandomBytes(std::mt19937& random) {
  return 1 + static_cast<int64_t>(random() % (256 * kKiB));
}

// Each iteration frees a random one of `live` blocks and allocates another of a random size.
void AllocFreePair(benchmark::State& state, Fit fit) {
  const size_t live = static_cast<size_t>(state.range(0));
  std::mt19937 random(kSeed);
  Heap heap(64 * kGiB, fit);
  for (size_t id = 0; id < live; ++id) {
    benchmark::DoNotOptimize(heap.Allocate(static_cast<AllocationId>(id), RandomBytes(random)));
  }
  for (auto _ : state) {
    const AllocationId id = static_cast<AllocationId>(random() % live);
    if (!heap.Free(id).ok() || !heap.Allocate(id, RandomBytes(random)).ok()) {
      state.SkipWithError("the heap refused an allocation");
    }
  }
}
BENCHMARK_CAPTURE(AllocFreePair, first_fit, Fit::kFirstFit)->Arg(100)->Arg(1000)->Arg(10000);
BENCHMARK_CAPTURE(AllocFreePair, exact_fit_first_fit, Fit::kExactFitFirstFit)
    ->Arg(100)
    ->Arg(1000)
    ->Arg(10000);

// The pattern of training: forward allocates blocks in order, backward frees them in reverse.
void ForwardThenBackward(benchmark::State& state, Fit fit) {
  const int64_t live = state.range(0);
  std::mt19937 random(kSeed);
  Heap heap(64 * kGiB, fit);
  for (auto _ : state) {
    for (int64_t id = 0; id < live; ++id)
      benchmark::DoNotOptimize(heap.Allocate(id, RandomBytes(random)));
    for (int64_t id = live; id-- > 0;) benchmark::DoNotOptimize(heap.Free(id));
  }
  state.SetItemsProcessed(state.iterations() * live);
}
BENCHMARK_CAPTURE(ForwardThenBackward, first_fit, Fit::kFirstFit)->Arg(1000);
BENCHMARK_CAPTURE(ForwardThenBackward, exact_fit_first_fit, Fit::kExactFitFirstFit)->Arg(1000);

}  // namespace
}  // namespace neap
