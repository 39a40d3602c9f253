// A session: a network on a device, training inside one arena of at most the budget's bytes.
//
// Create() builds the program, plans it, has the plan verified, reserves the arena and fills in the
// first parameters. From then on nothing is allocated: every step replays the plan. Training and
// evaluation have a plan each, in the same arena, with the parameters in the same place.
//
//   ASSIGN_OR_RETURN(Session session, Session::Create(net, *device, {.budget_bytes = 12 * kGiB}));
//   std::cout << session.plan().Summary();
//   for (const Batch& batch : loader) {
//     ASSIGN_OR_RETURN(float loss, session.TrainStep(batch));
//   }
//   RETURN_IF_ERROR(session.Save("model.safetensors"));
//
// To keep a GPU busy while the next batch is prepared, have two steps in flight:
//   Begin(b0);  Begin(b1);  Finish() -> loss of b0;  Begin(b2);  Finish() -> loss of b1; ...
//
// *Ownership*: borrows the device, which must outlive it. *Threads*: one at a time.
// *Errors*: INVALID_ARGUMENT for a bad graph or a batch of the wrong size; RESOURCE_EXHAUSTED when
// the budget is too small (memory/planner.h) or the device refuses the arena. After a failed
// SetBudget or Load the session is as before; only if the device refuses even the arena that it had
// does it wait, parameters on the host, for a SetBudget that finds room (FAILED_PRECONDITION until
// then).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "neap/core/batch.h"
#include "neap/core/device/device.h"
#include "neap/core/graph.h"
#include "neap/core/learning_rate.h"
#include "neap/core/plan.h"
#include "neap/layers/sgd.h"
#include "neap/memory/planner.h"

namespace neap {

struct SessionOptions {
  int64_t budget_bytes = kUnlimited;
  int64_t host_budget_bytes = kUnlimited;  // pinned host memory for what leaves the arena
  std::string policy = "liveness";
  std::string placement = "offline";
  bool offload_params = false;  // parameters and optimizer state live on the host between uses
  EvictionRule eviction = EvictionRule::kLru;
  bool in_place = true;
  bool strict = false;  // same bits under every budget; always so on the CPU
  Sgd sgd = {};
  LearningRate learning_rate = {};
  uint64_t seed = 1;  // of first parameters and dropout
};

struct StepResult {
  int64_t step = 0;     // from 0
  float loss = 0;       // mean over the batch
  int64_t correct = 0;  // labels at which the largest output is
};

struct MemoryUse {
  int64_t predicted_peak_bytes = 0;  // of the training plan
  int64_t measured_peak_bytes = 0;   // highest arena byte that training steps have used so far
  int64_t arena_bytes = 0;           // reserved from the device
};

class Session {
 public:
  static absl::StatusOr<Session> Create(const Graph& graph, Device& device, SessionOptions options);
  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;
  ~Session();

  const Plan& plan() const;
  // Of the training plan; the minimum budget suits evaluation too.
  const PlanningStats& planning() const;
  MemoryUse memory() const;
  int64_t step() const;   // training steps begun since the first, also across Save and Load
  uint64_t seed() const;  // SessionOptions::seed, or that of a loaded checkpoint

  // One step; returns its mean loss.
  absl::StatusOr<float> TrainStep(const Batch& batch);
  // The same in two halves; at most two steps in flight. FAILED_PRECONDITION otherwise.
  absl::Status Begin(const Batch& batch);
  absl::StatusOr<StepResult> Finish();

  // Forward only, with running statistics and without dropout. `step` in the result is 0.
  absl::StatusOr<StepResult> Evaluate(const Batch& batch);

  // Parameters, running statistics, optimizer and step as a safetensors file (core/checkpoint.h),
  // written atomically.
  absl::Status Save(const std::string& path);
  // Parameters and running statistics only: what PyTorch loads with strict=True.
  absl::Status SaveWeights(const std::string& path);
  // Either kind. Without optimizer and step, training starts at step 0 from the file's weights.
  absl::Status Load(const std::string& path);

  // The values of a persistent tensor ("conv1.weight", "bn1.running_mean", "conv1.weight.momentum")
  // in N, C, H, W order.
  absl::StatusOr<std::vector<float>> Values(std::string_view tensor);

  // Plans again for another budget; takes effect at the next step. Parameters and optimizer are
  // kept.
  absl::Status SetBudget(int64_t budget_bytes);

 private:
  class Impl;
  explicit Session(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace neap
