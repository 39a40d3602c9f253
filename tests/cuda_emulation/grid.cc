#include "tests/cuda_emulation/grid.h"

#include <sys/mman.h>
#include <ucontext.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "tests/cuda_emulation/last_error.h"

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

namespace neap::emulation {
namespace {

constexpr unsigned kWarp = 32;
constexpr unsigned kMostThreads = 1024;
constexpr size_t kSharedBytes = 48 * 1024;
constexpr size_t kStackBytes = 128 * 1024;
constexpr size_t kPageBytes = 4096;
constexpr uint64_t kGarbage = ~uint64_t{0};  // NaN

// A place where execution continues. GCC's builtins switch stacks without system calls; the
// functions that call them must be opaque to its analysis of registers.
using Place = void* [5];
[[gnu::noipa]] void Continue(void** at) { __builtin_longjmp(at, 1); }
[[gnu::noipa]] void Switch(void** from, void** to) {
  if (__builtin_setjmp(from) == 0) Continue(to);
}

struct Fiber {
  Place place = {};
  ucontext_t context = {};  // only to begin
};

enum class State { kReady, kAtBarrier, kAtWarp, kEnded };

struct Thread {
  uint3 index = {};
  State state = State::kReady;
  Fiber* fiber = nullptr;   // null before it begins
  std::source_location at;  // where it waits
  unsigned mask = 0;
  uint64_t value = 0;  // handed over to the warp
};

// The running grid.
struct Grid {
  const char* kernel = "";
  void (*body)(const void*) = nullptr;
  const void* argument = nullptr;
  std::vector<Thread> threads;
  std::vector<uint64_t> exchanged;  // by the warps, a value per thread
  Thread* current = nullptr;
  std::vector<Thread*> ready;  // of the running warp
  std::vector<void*> shared;   // the variables of the block
  size_t shared_bytes = 0;
};
Grid grid;
Place scheduler = {};
std::vector<std::unique_ptr<Fiber>> fibers;
std::vector<Fiber*> idle;
Fiber* beginning = nullptr;
std::mutex one_grid;

uint32_t Seed() {
  const char* const text = std::getenv("NEAP_EMULATION_SEED");
  return text == nullptr ? 1 : static_cast<uint32_t>(std::strtoul(text, nullptr, 10));
}

uint32_t Random(size_t bound) {
  static std::mt19937 engine(Seed());
  return static_cast<uint32_t>(engine() % bound);
}

template <typename T>
void Shuffle(std::vector<T>& values) {
  for (size_t i = values.size(); i > 1; --i) std::swap(values[i - 1], values[Random(i)]);
}

// 0, 1, ..., count - 1
std::vector<unsigned> Numbers(size_t count) {
  std::vector<unsigned> numbers(count);
  std::iota(numbers.begin(), numbers.end(), 0U);
  return numbers;
}

std::string Text(uint3 at) {
  return "(" + std::to_string(at.x) + ", " + std::to_string(at.y) + ", " + std::to_string(at.z) +
         ")";
}

std::string Text(std::source_location at) {
  return std::string(at.file_name()) + ":" + std::to_string(at.line());
}

bool Same(std::source_location a, std::source_location b) {
  return a.line() == b.line() && a.column() == b.column() &&
         (a.file_name() == b.file_name() || std::strcmp(a.file_name(), b.file_name()) == 0);
}

// Runs one thread after the other, for ever.
void RunThreads() {
  Fiber& own = *beginning;
  Switch(own.place, scheduler);
  for (;;) {
    Thread& thread = *grid.current;
    grid.body(grid.argument);
    thread.state = State::kEnded;
    idle.push_back(&own);
    Switch(own.place, scheduler);
  }
}

// A new fiber, which waits for its first thread. Below its stack is a page without access.
Fiber* Begin() {
  void* const memory = mmap(nullptr, kPageBytes + kStackBytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED || mprotect(memory, kPageBytes, PROT_NONE) != 0)
    Fail("no memory for the stack of a thread", grid.kernel);
  fibers.push_back(std::make_unique<Fiber>());
  beginning = fibers.back().get();
  getcontext(&beginning->context);
  beginning->context.uc_stack.ss_sp = static_cast<std::byte*>(memory) + kPageBytes;
  beginning->context.uc_stack.ss_size = kStackBytes;
  makecontext(&beginning->context, RunThreads, 0);
  if (__builtin_setjmp(scheduler) == 0) setcontext(&beginning->context);
  return beginning;
}

// Runs the thread until it waits or ends.
void Resume(Thread& thread) {
  if (thread.fiber == nullptr) {
    if (idle.empty()) idle.push_back(Begin());
    thread.fiber = idle.back();
    idle.pop_back();
  }
  grid.current = &thread;
  threadIdx = thread.index;
  Switch(scheduler, thread.fiber->place);
}

// Lets the current thread wait.
void Wait(State state, unsigned mask, std::source_location at) {
  Thread& thread = *grid.current;
  thread.state = state;
  thread.mask = mask;
  thread.at = at;
  Switch(thread.fiber->place, scheduler);
}

// Whether all lanes of the thread's mask that have not ended wait with it.
bool IsComplete(const Thread& thread, size_t first, size_t end) {
  for (size_t i = first; i < end; ++i) {
    const Thread& other = grid.threads[i];
    if ((thread.mask >> (i - first) & 1U) == 0 || other.state == State::kEnded) continue;
    if (other.state != State::kAtWarp || other.mask != thread.mask || !Same(other.at, thread.at))
      return false;
  }
  return true;
}

// Lets the lanes of a warp go on that have all arrived.
void ReleaseLanes(size_t first, size_t end, std::vector<Thread*>& ready) {
  unsigned complete = 0;
  for (size_t i = first; i < end; ++i) {
    Thread& thread = grid.threads[i];
    const unsigned lane = 1U << (i - first);
    if (thread.state == State::kEnded) grid.exchanged[i] = kGarbage;
    if (thread.state != State::kAtWarp) continue;
    if ((complete & lane) == 0 && IsComplete(thread, first, end)) complete |= thread.mask;
    if ((complete & lane) == 0) continue;
    grid.exchanged[i] = thread.value;
    ready.push_back(&thread);
  }
  for (Thread* thread : ready) thread->state = State::kReady;
}

// Runs a warp until all its threads wait for the block or have ended.
void RunWarp(size_t first) {
  const size_t end = std::min(first + kWarp, grid.threads.size());
  std::vector<Thread*>& ready = grid.ready;
  ready.clear();
  for (size_t i = first; i < end; ++i) ready.push_back(&grid.threads[i]);
  std::erase_if(ready, [](const Thread* thread) { return thread->state != State::kReady; });
  while (!ready.empty()) {
    Shuffle(ready);
    for (Thread* thread : ready) Resume(*thread);
    ready.clear();
    ReleaseLanes(first, end, ready);
  }
}

// Lets all threads of the block go on, if they wait at one barrier.
bool ReleaseBlock() {
  for (const Thread& thread : grid.threads) {
    if (thread.state != State::kAtBarrier || !Same(thread.at, grid.threads[0].at)) return false;
  }
  for (Thread& thread : grid.threads) thread.state = State::kReady;
  return true;
}

[[noreturn]] void FailDivergent() {
  std::string what = "threads wait for each other for ever:";
  const char* const states[] = {"run", "wait for their block", "wait for their warp", "have ended"};
  for (size_t i = 0; i < grid.threads.size(); ++i) {
    const Thread& thread = grid.threads[i];
    const auto like = [&](const Thread& other) {
      return other.state == thread.state &&
             (thread.state == State::kEnded || Same(other.at, thread.at));
    };
    if (std::any_of(grid.threads.begin(), grid.threads.begin() + static_cast<long>(i), like))
      continue;
    what += "\n  " + std::to_string(std::count_if(grid.threads.begin(), grid.threads.end(), like)) +
            " " + states[static_cast<size_t>(thread.state)] + ", as thread " + Text(thread.index);
    if (thread.state != State::kEnded) what += " at " + Text(thread.at);
  }
  Fail(what.c_str(), grid.kernel);
}

void RunBlock() {
  for (unsigned i = 0; i < grid.threads.size(); ++i) {
    const unsigned row = i / blockDim.x;
    grid.threads[i] = {.index = {i % blockDim.x, row % blockDim.y, row / blockDim.y}};
  }
  grid.shared.clear();
  grid.shared_bytes = 0;
  std::vector<unsigned> warps = Numbers((grid.threads.size() + kWarp - 1) / kWarp);
  do {
    Shuffle(warps);
    for (unsigned warp : warps) RunWarp(size_t{warp} * kWarp);
  } while (ReleaseBlock());
  for (const Thread& thread : grid.threads) {
    if (thread.state != State::kEnded) FailDivergent();
  }
}

bool IsPossible(dim3 blocks, dim3 block) {
  constexpr uint64_t kMostRows = 65535;
  const uint64_t threads = uint64_t{block.x} * block.y * block.z;
  return threads > 0 && threads <= kMostThreads && block.z <= 64 && blocks.x > 0 && blocks.y > 0 &&
         blocks.z > 0 && blocks.x < 1U << 31 && blocks.y <= kMostRows && blocks.z <= kMostRows;
}

}  // namespace

void Launch::Run(void (*thread)(const void*), const void* argument) const {
  if (!IsPossible(grid_, block_)) return SetLastError(cudaErrorInvalidConfiguration);
  if (shared_bytes_ > 0) Fail("dynamic shared memory is not emulated", kernel_);
  const std::lock_guard<std::mutex> lock(one_grid);
  grid.kernel = kernel_;
  grid.body = thread;
  grid.argument = argument;
  gridDim = grid_;
  blockDim = block_;
  const size_t threads = size_t{block_.x} * block_.y * block_.z;
  grid.threads.resize(threads);
  grid.exchanged.assign(threads, kGarbage);
  std::vector<unsigned> order = Numbers(size_t{grid_.x} * grid_.y * grid_.z);
  Shuffle(order);
  for (unsigned i : order) {
    blockIdx = {i % grid_.x, i / grid_.x % grid_.y, i / grid_.x / grid_.y};
    RunBlock();
  }
}

void NewShared(void* variable, size_t bytes) {
  if (std::find(grid.shared.begin(), grid.shared.end(), variable) != grid.shared.end()) return;
  grid.shared.push_back(variable);
  grid.shared_bytes += bytes;
  if (grid.shared_bytes > kSharedBytes) Fail("more than 48 KiB of shared memory", grid.kernel);
  std::memset(variable, 0xFF, bytes);
}

void SyncThreads(std::source_location at) { Wait(State::kAtBarrier, 0, at); }

int Lane() { return static_cast<int>(grid.current - grid.threads.data()) % 32; }

uint64_t Exchange(unsigned mask, uint64_t value, int lane, std::source_location at) {
  Thread& thread = *grid.current;
  const size_t number = static_cast<size_t>(&thread - grid.threads.data());
  if ((mask >> number % kWarp & 1U) == 0) Fail("a lane is not in its own mask", Text(at).c_str());
  thread.value = value;
  Wait(State::kAtWarp, mask, at);
  const size_t from = number / kWarp * kWarp + static_cast<size_t>(lane);
  const bool takes_part = from < grid.threads.size() && (mask >> lane & 1U) != 0;
  return takes_part ? grid.exchanged[from] : kGarbage;
}

unsigned Ballot(unsigned mask, bool predicate, std::source_location at) {
  const size_t first = static_cast<size_t>(grid.current - grid.threads.data()) / kWarp * kWarp;
  Exchange(mask, predicate ? 1 : 0, 0, at);
  unsigned lanes = 0;
  for (size_t i = first; i < std::min(first + kWarp, grid.threads.size()); ++i) {
    if ((mask >> (i - first) & 1U) != 0 && grid.exchanged[i] == 1) lanes |= 1U << (i - first);
  }
  return lanes;
}

void Fail(const char* what, const char* where) {
  std::fprintf(stderr, "emulated kernel: %s\n  in %s, block %s, NEAP_EMULATION_SEED=%u\n", what,
               where, Text(blockIdx).c_str(), Seed());
  std::abort();
}

}  // namespace neap::emulation
