// Requests to a session between two steps that fail: which state is left, and that the run
// continues from it with the bits of an undisturbed run.
#include <doctest/doctest.h>

#include <functional>
#include <string>
#include <vector>

#include "neap/core/run/session.h"
#include "neap/memory/create_session.h"
#include "tests/faulty_device.h"
#include "tests/scratch_directory.h"
#include "tests/small_training.h"

namespace neap {
namespace {

constexpr absl::StatusCode kRefused = absl::StatusCode::kResourceExhausted;
constexpr absl::StatusCode kWaiting = absl::StatusCode::kFailedPrecondition;
constexpr int kForGood = 1'000'000;

// The requests to a session between two steps.
struct Request {
  const char* name;
  std::function<absl::Status(Session&)> ask;
};
std::vector<Request> Requests(const std::string& folder) {
  return {{"larger budget", [](Session& s) { return s.SetBudget(kUnlimited); }},
          {"larger budget, planned meanwhile",
           [](Session& s) {
             const absl::Status begun = s.SetBudgetAsync(kUnlimited);
             return begun.ok() ? s.AwaitBudget() : begun;
           }},
          {"same budget", [](Session& s) { return s.SetBudget(s.plan().budget_bytes); }},
          {"save", [folder](Session& s) { return s.Save(folder + "/unused"); }},
          {"values", [](Session& s) { return s.Values("fc.weight").status(); }}};
}

// A session that waits for a budget gets it.
void GoOn(Session& session) {
  const absl::StatusOr<float> loss =
      session.TrainStep(MakeBatch(static_cast<uint64_t>(session.step())));
  if (loss.ok()) return;
  REQUIRE(loss.status().code() == kWaiting);
  CHECK(session.Values("fc.weight").status().code() == kWaiting);
  REQUIRE(session.SetBudget(kUnlimited).ok());
  Train(session, 1);
}

Graph SmallNetWithoutBlock() { return SmallNet(Layout::kChannelsFirst, /*with_block=*/false); }

// The calls that a device refuses: `count` consecutive ones.
struct Fault {
  void (FaultyDevice::*fail)(int first, int count);
  int (FaultyDevice::*calls)() const;
  int count = 1;
  absl::StatusCode code;
};

// A request in the middle of training fails at its k-th call. False if it makes fewer.
bool FailsAt(int k, const Fault& fault, const Request& request, Device& cpu,
             const PlannerOptions& options, Session& steady) {
  CAPTURE(k);
  FaultyDevice device(cpu);
  Session session = MakeSession(device, options);
  Train(session, 2);
  (device.*fault.fail)(k, fault.count);
  const absl::Status status = request.ask(session);
  if ((device.*fault.calls)() < k) return false;
  CHECK(status.code() == fault.code);
  (device.*fault.fail)(0, 0);
  GoOn(session);
  CHECK(request.ask(session).ok());
  Train(session, 1);
  CheckSameState(steady, session);
  return true;
}

// Whichever call of whichever request fails, training goes on with the bits of a run that nothing
// has disturbed.
void CheckCostsNoBit(const Fault& fault) {
  const auto cpu = OpenCpu();
  const ScratchDirectory directory;
  const PlannerOptions options = Tight(*cpu);
  Session steady = MakeSession(*cpu, options);
  Train(steady, 4);
  for (const Request& request : Requests(directory.path())) {
    CAPTURE(request.name);
    int k = 1;
    while (FailsAt(k, fault, request, *cpu, options, steady)) ++k;
  }
}

// A graph for which the arena must grow: the device fails at the k-th call. False if there are
// fewer.
bool GrowingFailsAt(int k, const Fault& fault, Device& cpu, Session& steady) {
  CAPTURE(k);
  FaultyDevice device(cpu);
  Session session = MakeSession(device, {.policy = "liveness"});
  const int64_t minimum = session.planning().minimum_budget_bytes;
  Train(session, 1);
  REQUIRE(session.SetTrainingGraph(SmallNetWithoutBlock()).ok());
  REQUIRE(session.SetBudget(session.planning().minimum_budget_bytes).ok());
  REQUIRE(session.SetBudget(minimum).ok());
  Train(session, 1);
  const int64_t small_arena = session.memory().arena_bytes;
  (device.*fault.fail)(k, fault.count);
  const absl::Status status = session.SetTrainingGraph(SmallNet());
  if ((device.*fault.calls)() < k) {
    CHECK(session.memory().arena_bytes > small_arena);
    return false;
  }
  CHECK(status.code() == fault.code);
  (device.*fault.fail)(0, 0);
  GoOn(session);  // without the block
  REQUIRE(session.SetTrainingGraph(SmallNet()).ok());
  Train(session, 1);
  CheckSameState(steady, session);
  return true;
}

}  // namespace

TEST_CASE("a graph for which the device refuses memory or a copy leaves the one before") {
  const auto cpu = OpenCpu();
  Session steady = MakeSession(*cpu, {});
  for (const bool with_block : {true, false, false, true}) {
    REQUIRE(steady.SetTrainingGraph(with_block ? SmallNet() : SmallNetWithoutBlock()).ok());
    Train(steady, 1);
  }
  for (const int count : {1, kForGood}) {
    int refused = 0, copies = 0;
    const Fault pinned = {&FaultyDevice::FailPinned, &FaultyDevice::pinned_calls, count, kRefused};
    while (GrowingFailsAt(refused + 1, pinned, *cpu, steady)) ++refused;
    CHECK(refused >= 1);  // what holds the parameters meanwhile
    const Fault copy = {&FaultyDevice::FailCopies, &FaultyDevice::copy_calls, count,
                        absl::StatusCode::kInternal};
    while (GrowingFailsAt(copies + 1, copy, *cpu, steady)) ++copies;
    CHECK(copies >= 2);  // the parameters to the host and back
  }
}

TEST_CASE("gradients that wait are dropped once the device has room again, and not before") {
  const auto cpu = OpenCpu();
  const Graph net = BlockNet({.dtype = DType::kFp16, .batch_norm = true});
  const TrainingOptions training = {.accumulate = 2};
  const int64_t least = Opened(net, *cpu, {}, training).planning().minimum_budget_bytes;
  int waited = 0, calls = 0;
  for (int k = 1; calls >= k - 1; ++k) {
    CAPTURE(k);
    FaultyDevice device(*cpu);
    Session session = Opened(net, device, {.budget_bytes = least}, training);
    REQUIRE(session.Accumulate(MakeBatch(1)).ok());
    device.FailCopies(k, kForGood);
    session.SetBudget(kUnlimited).IgnoreError();
    calls = device.copy_calls();
    device.FailCopies(0, 0);
    if (const absl::Status early = session.Discard(); !early.ok()) {
      CHECK(early.code() == kWaiting);
      CHECK(session.accumulated() == 1);
      ++waited;
      REQUIRE(session.SetBudget(kUnlimited).ok());
      CHECK(session.Discard().ok());
    }
    CHECK(session.accumulated() == 0);
    REQUIRE(session.Accumulate(MakeBatch(2)).ok());
  }
  CHECK(waited > 0);
}

TEST_CASE("a host budget that is too small is refused, and a larger arena works without it") {
  const auto device = OpenCpu();
  PlannerOptions options = Tight(*device);
  const int64_t minimum = options.budget_bytes;
  options.host_budget_bytes = kBlockBytes;
  CHECK(CreateSession(SmallNet(), *device, options).status().code() == kRefused);
  options.budget_bytes = kUnlimited;
  Session session = MakeSession(*device, options);
  Session steady = MakeSession(*device, {});
  Train(steady, 3);
  Train(session, 1);
  const absl::Status refused = session.SetBudget(minimum);
  CHECK(refused.code() == kRefused);
  CHECK(std::string(refused.message()).find("a host budget of 1024 bytes") != std::string::npos);
  Train(session, 1);
  REQUIRE(session.SetBudget(2 * session.memory().arena_bytes).ok());
  Train(session, 1);
  CheckSameState(steady, session);
}

TEST_CASE("a budget below the minimum is refused in the middle of training") {
  const auto device = OpenCpu();
  Session steady = MakeSession(*device, {});
  Train(steady, 4);
  for (const char* policy : {"liveness", "tensor-cache", "superneurons"}) {
    CAPTURE(policy);
    Session session = MakeSession(*device, {.policy = policy});
    Train(session, 2);
    const int64_t minimum = session.planning().minimum_budget_bytes;
    for (const int64_t budget : {minimum - kBlockBytes, int64_t{0}, int64_t{-1}}) {
      CHECK(session.SetBudget(budget).code() == kRefused);
    }
    Train(session, 1);
    REQUIRE(session.SetBudget(minimum).ok());
    CHECK(session.SetBudget(minimum - kBlockBytes).code() == kRefused);
    REQUIRE(session.SetBudget(2 * minimum).ok());
    Train(session, 1);
    CheckSameState(steady, session);
  }
}

// How many allocations of pinned and of peer memory making such a session takes.
int RefuseEachOf(const PlannerOptions& options, Device& cpu) {
  FaultyDevice device(cpu);
  int refused = 0;
  for (int k = 1;; ++k) {
    device.FailPinned(k, 1);
    const absl::StatusOr<Session> session = CreateSession(SmallNet(), device, options);
    if (device.pinned_calls() < k) break;
    ++refused;
    CHECK(session.status().code() == kRefused);
    CHECK(*device.UsedBytes() == 0);
    CHECK(device.pinned_bytes() == 0);
  }
  return refused;
}

TEST_CASE("no session is made without pinned memory or a peer's, whichever allocation is refused") {
  const auto cpu = OpenCpu();
  PlannerOptions options = Tight(*cpu);
  const int refused = RefuseEachOf(options, *cpu);
  CHECK(refused > 8 + 1);  // two steps' staging, the host pool, first values
  options.peer_budget_bytes = MakeSession(*cpu, options).plan().host_pool_bytes / 2;
  CHECK(RefuseEachOf(options, *cpu) > refused);  // and the peer's
}

TEST_CASE("pinned memory that is refused, once or for good, costs no bit of the training") {
  for (const int count : {1, kForGood}) {
    CAPTURE(count);
    CheckCostsNoBit({&FaultyDevice::FailPinned, &FaultyDevice::pinned_calls, count, kRefused});
  }
}

TEST_CASE("a copy that fails between two steps costs no bit of the training") {
  CheckCostsNoBit(
      {&FaultyDevice::FailCopies, &FaultyDevice::copy_calls, 1, absl::StatusCode::kInternal});
}

}  // namespace neap
