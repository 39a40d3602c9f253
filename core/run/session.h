// A session: a network on a device, training inside one arena of at most the budget's bytes.
//
// Create() builds the program, plans it, has the plan verified, reserves the arena and fills in the
// first parameters. From then on nothing is allocated: every step replays the plan. Training and
// evaluation have a plan each, in the same arena, with the parameters in the same place.
//
//   ASSIGN_OR_RETURN(Session session,
//                    Session::Create(net, *device, PlannerFor({.budget_bytes = 12 * kGiB})));
//   std::cout << session.plan().Summary();
//   for (const Batch& batch : loader) {
//     ASSIGN_OR_RETURN(float loss, session.TrainStep(batch));
//   }
//   RETURN_IF_ERROR(session.Save("model.safetensors"));
//
// To keep a GPU busy while the next batch is prepared, have two steps in flight:
//   Begin(b0);  Begin(b1);  Finish() -> loss of b0;  Begin(b2);  Finish() -> loss of b1; ...
//
// The graph may differ from iteration to iteration: layers that are left out (stochastic depth)
// keep their parameters, in the same arena, until they are back.
//
//   RETURN_IF_ERROR(session.SetTrainingGraph(net_without_some_blocks));
//
// *Ownership*: borrows the device, which must outlive it. *Threads*: one at a time.
// *Errors*: INVALID_ARGUMENT for a bad graph, training options outside their range, and a batch of
// the wrong size or with a label that is no class; RESOURCE_EXHAUSTED when
// the budget is too small (core/plan/planner.h) or the device refuses memory. Then:
//   * what was refused before anything changed (a batch, a budget, a graph, memory, a file) leaves
//     the session as it was;
//   * where a SetBudget or SetTrainingGraph fails and the device refuses even what it gave before,
//     or a copy back, the parameters are kept, and the session waits for a SetBudget that succeeds
//     (FAILED_PRECONDITION until then);
//   * a training step that fails after its batch was sent, or a Load while it copies, leaves
//     parameters that are neither old nor new, so that nothing but Load() goes on
//     (FAILED_PRECONDITION until then): the state that lasts is that of the last Save(). A device
//     whose streams have failed for good (a CUDA error) needs a new device and session first.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "neap/core/device/device.h"
#include "neap/core/graph/graph.h"
#include "neap/core/input/batch.h"
#include "neap/core/plan/plan.h"
#include "neap/core/plan/planner.h"
#include "neap/core/plan/timeline.h"
#include "neap/core/run/learning_rate.h"
#include "neap/core/run/plan_cache.h"
#include "neap/core/step/sgd.h"

namespace neap {

// How parameters begin and change. What memory that takes is the planner's matter.
struct TrainingOptions {
  Sgd sgd = {};
  LearningRate learning_rate = {};
  uint64_t seed = 1;  // of first parameters and dropout
  // The session only evaluates and predicts: no memory is planned for training, and training steps
  // are FAILED_PRECONDITION. Load() brings the parameters.
  bool inference_only = false;
};

struct StepResult {
  int64_t step = 0;     // from 0
  float loss = 0;       // mean over the batch
  int64_t correct = 0;  // labels at which the largest output is
};

// What the network says of images: the softmax of its outputs.
struct Prediction {
  Shape shape;  // {images, classes, 1, 1}, or {images, classes, height, width} where every pixel is
                // labelled
  std::vector<float> probabilities;  // in N, C, H, W order
};

struct TimedStep {
  StepResult result = {};
  Timeline timeline = {};  // of plan(), from the batch's arrival on
};

struct MemoryUse {
  int64_t predicted_peak_bytes = 0;  // of the training plan
  int64_t measured_peak_bytes = 0;   // highest arena byte that steps by this plan have used so far
  int64_t arena_bytes = 0;           // reserved from the device
};

class Session {
 public:
  // The planner makes every plan of the session: PlannerFor() of memory/planner.h searches for the
  // fastest, PlannerFromFile() of core/run/file_planner.h has one. Its budget is the session's
  // until SetBudget(). On the CPU planning is strict (core/run/session_planner.h).
  // CreateSession() of memory/create_session.h is the same in one call.
  static absl::StatusOr<Session> Create(const Graph& graph, Device& device,
                                        std::shared_ptr<const Planner> planner,
                                        TrainingOptions training = {});
  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;
  ~Session();

  const Plan& plan() const;
  // Of the training plan; the minimum budget suits evaluation too.
  const PlanningStats& planning() const;
  // When each of the plan's actions runs, as the planner predicts.
  Timeline predicted() const;
  MemoryUse memory() const;
  int64_t step() const;   // training steps begun since the first, also across Save and Load
  uint64_t seed() const;  // TrainingOptions::seed, or that of a loaded checkpoint

  // One step; returns its mean loss.
  absl::StatusOr<float> TrainStep(const Batch& batch);
  // The same in two halves; at most two steps in flight. FAILED_PRECONDITION otherwise.
  absl::Status Begin(const Batch& batch);
  absl::StatusOr<StepResult> Finish();

  // One step that trains as any other, and is timed on the device's streams, kernel by kernel: a
  // little slower than others, for that and because it has the device to itself.
  // FAILED_PRECONDITION while a step is in flight.
  absl::StatusOr<TimedStep> TimeStep(const Batch& batch);

  // Forward only, with running statistics and without dropout. The batch may have fewer images than
  // the network's; loss and number of correct labels are those of the images that it has. `step` in
  // the result is 0.
  absl::StatusOr<StepResult> Evaluate(const Batch& batch);
  // The same for images without labels: n times C x H x W values, with n from 1 to the network's
  // batch, normalised as in training. Errors: INVALID_ARGUMENT for another number of values.
  absl::StatusOr<Prediction> Predict(absl::Span<const float> images);

  // Parameters, running statistics, optimizer and step as a safetensors file
  // (core/checkpoint/checkpoint.h), written atomically.
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

  // Trains another graph from the next step on, one whose persistent tensors are all among those of
  // Create()'s graph, by name and shape, and whose batch is the same. Those of layers that it
  // leaves out keep their values, and their places: the arena's bottom is that of the whole network
  // whatever the graph. The arena is kept while the new plan fits into it. Evaluate(), Save() and
  // Load() go on with the whole network.
  // Errors: INVALID_ARGUMENT naming the tensor that the whole network has not; those of SetBudget.
  absl::Status SetTrainingGraph(const Graph& graph);
  // Of plans that were wanted so far, by whatever call.
  const PlanCacheStats& plan_cache() const;

 private:
  class Impl;
  explicit Session(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace neap
