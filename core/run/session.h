// A session: a network on a device, training inside one arena of at most the budget's bytes.
//
// Create() builds the program, plans it, verifies the plan, reserves the arena and initialises the
// parameters. From then on nothing is allocated: every step replays the plan. (A session for
// inference only, or with TrainingOptions::loads_values, draws random parameters when something
// first needs them, so a Load() before does not wait for them.) Training and evaluation each have a
// plan, in the same arena, with the parameters in the same place; a planner that puts them
// elsewhere in one of its plans is refused (INVALID_ARGUMENT, naming the tensor).
//
//   ASSIGN_OR_RETURN(Session session,
//                    Session::Create(net, *device, PlannerFor({.budget_bytes = 12 * kGiB})));
//   std::cout << session.plan().Summary();
//   for (int64_t step = 0; step < 1000; ++step) {
//     ASSIGN_OR_RETURN(Batch batch, loader->Next());
//     ASSIGN_OR_RETURN(float loss, session.TrainStep(batch));
//   }
//   RETURN_IF_ERROR(session.Save("model.safetensors"));
//
// To keep a GPU busy while the next batch is prepared and copied, have two steps in flight:
//   Begin(b0);  Begin(b1);  Finish() -> loss of b0;  Begin(b2);  Finish() -> loss of b1; ...
//
// A batch that is too large for one step may come in several, with one update for all:
//
//   for (const Batch& batch : four)  // TrainingOptions::accumulate
//     RETURN_IF_ERROR(session.Accumulate(batch).status());
//   RETURN_IF_ERROR(session.Update().status());
//
// A loss may be the caller's own: the network says of which outputs it gives the gradient
// (Graph::OutputWithGradient()), and a step then comes in two halves.
//
//   ASSIGN_OR_RETURN(std::vector<NamedTensor> outputs, session.Forward(feeds));
//   std::vector<float> gradient = GradientOfMyLoss(outputs[0].values);
//   RETURN_IF_ERROR(session.Backward({{.name = "logits", .floats = gradient}}).status());
//
// The graph may differ from iteration to iteration: layers that are left out (stochastic depth)
// keep their parameters, in the same arena, until they are used again.
//
//   RETURN_IF_ERROR(session.SetTrainingGraph(net_without_some_blocks));
//
// A network may be trained with inputs of several sizes (Graph::Sizes()), which are planned and
// made at the beginning, within the budget, in one arena. A step has the size that is given with
// its values (FeedValue::shape, Batch::height), or the network's.
//
//   net.Sizes({{.extents = {160, 160}}, {.extents = {288, 288}, .batch = 32}});
//   batch.height = batch.width = 288;  // of 32 images, before TrainStep(batch)
//
// The budget may change while training goes on, without a step that waits for the planner:
//
//   RETURN_IF_ERROR(session.SetBudgetAsync(6 * kGiB));  // steps go on with the old plan meanwhile
//   while (session.budget_pending()) RETURN_IF_ERROR(session.TrainStep(batch).status());
//   RETURN_IF_ERROR(session.AwaitBudget());  // whether it has taken effect
//
// *Ownership*: borrows the device, which must outlive it. *Threads*: one at a time.
// SetBudgetAsync() starts a thread of the session's own, which uses only what threads may share:
// the planner, the engine lists of the device's backend (core/step/kernel.h), and the functions of
// the program that these call (CustomKernel::workspace_bytes, an error callback of
// ProfiledTimings).
// A session that was moved from can only be assigned to or destroyed; other calls are a mistake of
// the program, which assertions find.
// *Errors*: INVALID_ARGUMENT for a bad graph, training options outside their range, and a batch of
// the wrong size or with a label that is not a class; RESOURCE_EXHAUSTED if the budget is too small
// (core/plan/planner.h) or the device refuses memory.
// What functions of the program itself throw, such as kernels, layers, planners and devices of its
// own, is INTERNAL, or RESOURCE_EXHAUSTED for std::bad_alloc; nothing is thrown.
// After an error:
// * If it occurred before anything changed (a bad batch, budget, graph or file, or refused memory),
//   the session is as before.
// * If a change of the budget or the graph fails and the device refuses even the memory that it
//   granted before, or a copy back, the parameters are kept, but the session is unusable until a
//   change of the budget succeeds (FAILED_PRECONDITION).
// * If a training step fails after its batch was sent, or a Load while it copies, some parameters
//   have changed and others not, so the session is unusable until a Load() succeeds
//   (FAILED_PRECONDITION); the valid state is that of the last Save(). A device whose streams have
//   failed permanently (a CUDA error) must first be replaced, together with the session.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "neap/core/checkpoint/checkpoint.h"
#include "neap/core/device/communicator.h"
#include "neap/core/device/device.h"
#include "neap/core/graph/graph.h"
#include "neap/core/plan/plan.h"
#include "neap/core/plan/planner.h"
#include "neap/core/plan/timeline.h"
#include "neap/core/program/feeds.h"
#include "neap/core/run/external.h"
#include "neap/core/run/learning_rate.h"
#include "neap/core/run/plan_cache.h"
#include "neap/core/run/session_results.h"
#include "neap/core/step/optimizer.h"
#include "neap/core/vision/batch.h"

namespace neap {

// How parameters are initialised and updated. Memory is the planner's concern.
struct TrainingOptions {
  Optimizer optimizer = {};
  LearningRate learning_rate = {};
  uint64_t seed = 1;  // of initial parameters and dropout
  // Load() or LoadWeights() comes before the first step. If the file has a value for each random
  // one, none is drawn, which takes seconds for a large network; else all are. Without a file, the
  // first step draws them, and allocates memory for that.
  bool loads_values = false;
  // A device that can record work replays kernels, on a GPU as CUDA graphs: all of an iteration by
  // one call, or, if the plan has copies, those between two events or waits. The kernels of a layer
  // of one's own are then called only for the first two iterations of a plan, and what changes from
  // one iteration to the next must come from the device's memory. If those of the second cannot be
  // recorded, they are enqueued instead, and so are all later ones.
  bool records_iterations = true;
  // Parameters are updated by Update(), with the gradients of this many batches: Accumulate() has
  // been called so often before. The gradients are persistent tensors then. 1: every step updates
  // them. Not among several ranks, nor with other graphs or sizes.
  int64_t accumulate = 1;
  // The session only evaluates and predicts: no memory is planned for training or the optimizer,
  // and training steps and Save() are FAILED_PRECONDITION. Load() provides the parameters.
  bool inference_only = false;
  // The session only trains: evaluation is not planned, and Evaluate() and Predict() are
  // FAILED_PRECONDITION.
  bool training_only = false;
  // Data parallelism: the session is that of one of several ranks, each with a part of the batch
  // (core/program/reduce_gradients.h). The network's batch and the batches of steps are those of
  // the rank; losses, numbers of correct labels and updates are those of all ranks. All ranks call
  // Create(), steps, SetTrainingGraph(), SetLearningRate() and Load() in the same order, and
  // everything else as they like; with the same options, graphs, rates and files, the batch's size
  // and the budget aside, all persistent tensors are the same on all ranks after each step. An
  // error of one of these calls is one of all ranks, "rank 3: ..." on the others; after that of a
  // SetTrainingGraph() that could not be switched to, ranks may have different graphs until another
  // one succeeds, and after that of a step, devices and communicators have to be replaced. Null:
  // the session trains alone.
  // *Ownership*: borrowed; it must outlive the session.
  Communicator* communicator = nullptr;
  // With several ranks, batch norms use the statistics of the images of all ranks instead of each
  // rank's own (core/program/span_ranks.h). The same on all ranks.
  bool sync_batch_norm = false;
  // With several ranks, each keeps the optimizer's tensors of a part of the parameters only
  // (core/program/shards.h). The same on all ranks, which then call Gather(), Save(),
  // SaveWeights(), Values() and Weights() together, too. Not in fp16, nor with parameters on the
  // host.
  bool shard_optimizer = false;
  // The homes of persistent tensors, by their names, which are the arena for others. Tensors with
  // memory in `external` have that as their home, and are not named here. Not with shard_optimizer.
  Homes homes = {};
  // Device memory for persistent tensors, which the budget does not count (core/run/external.h,
  // docs/ports.md). The session neither initialises nor frees it: the values that it has when the
  // session is made are the initial ones, also of what begins as a copy (16-bit parameters,
  // averages). Steps, Load(), LoadWeights() and ExchangeAverages() write there, in place. What the
  // caller does there has ended before it calls the session, whose streams wait for no others. Not
  // on several ranks, and not for a tensor that is a copy of another.
  std::vector<ExternalTensor> external = {};
};

class Session {
 public:
  // The planner makes every plan of the session: that of PlannerFor() (memory/planner.h) searches
  // for the fastest, that of PlannerFromFile() (core/run/file_planner.h) reads one. Its budget is
  // the session's until SetBudget(). On the CPU, plans are asked for as strict ones, with the same
  // bits under every budget (core/plan/planner.h); a file's plan keeps its own engines.
  // CreateSession() (memory/create_session.h) combines PlannerFor() and this in one call.
  static absl::StatusOr<Session> Create(const Graph& graph, Device& device,
                                        std::shared_ptr<const Planner> planner,
                                        TrainingOptions training = {});
  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;
  ~Session();

  // That of the training program; a change of the budget, the graph or the size ends the reference.
  // If gradients are summed (TrainingOptions::accumulate), this is the plan of the first batch of
  // an update, and planning() and predicted() describe that plan.
  const Plan& plan() const;
  // Statistics of that plan, except the minimum budget, which suffices for evaluation too.
  const PlanningStats& planning() const;
  // When each of the plan's actions runs, as the planner predicts.
  Timeline predicted() const;
  MemoryUse memory() const;
  // Whether the kernels of training iterations are replayed as CUDA graphs. If gradients are
  // summed, this is true only if those of every batch and of the update are. Errors:
  // FAILED_PRECONDITION before the second iteration; CANCELLED if replaying is switched off;
  // otherwise why the device did not record, UNIMPLEMENTED if it never does.
  absl::Status recording() const;
  int64_t step() const;   // training steps begun so far, including those before a Save and Load
  uint64_t seed() const;  // TrainingOptions::seed, or that of a loaded checkpoint

  // The rate of steps to come: TrainingOptions::learning_rate, or what SetLearningRate() has set.
  LearningRate learning_rate() const;
  // Another rate from the next step to begin; its steps are counted as step() counts them. Save()
  // writes it, and Load() of a checkpoint returns to the file's, or to that of the options if the
  // file has none, as if all was trained in one go. Errors: those of CheckLearningRate().
  absl::Status SetLearningRate(const LearningRate& rate);

  // Runs one step with a value for each of the network's feeds, and returns its losses and outputs.
  // Errors: FAILED_PRECONDITION while a step is in flight.
  absl::StatusOr<StepResult> Step(const Feeds& feeds);
  // The same for a network of images with labels or targets, the only feeds that it has
  // (INVALID_ARGUMENT otherwise); TrainStep() returns the loss alone.
  absl::StatusOr<StepResult> Step(const Batch& batch);
  absl::StatusOr<float> TrainStep(const Batch& batch);
  // The two halves of Step() and TrainStep(). Errors: FAILED_PRECONDITION for a Begin() with two
  // steps in flight, or a Finish() with none.
  absl::Status Begin(const Feeds& feeds);
  absl::Status Begin(const Batch& batch);
  absl::StatusOr<StepResult> Finish();

  // In place of steps, of a network with outputs whose gradients the caller gives
  // (Graph::OutputWithGradient()): runs forward, and returns the outputs, in the order of the
  // network's layers. Then the step is paused until Backward() or SkipBackward(). Meanwhile,
  // SetLearningRate() and SetBudgetAsync() are for later steps, functions that return what the
  // session knows without reading tensors may be called, and others are FAILED_PRECONDITION.
  absl::StatusOr<std::vector<NamedTensor>> Forward(const Feeds& feeds);
  // Runs the rest of the step: backward and, unless gradients are summed over batches, the update.
  // `gradients` are those of what is to be minimised with respect to each such output, by its name,
  // of its shape; NaN and infinity are passed on. The session multiplies them by the loss scale if
  // there is one (core/step/loss_scale.h), as it does with those of its own losses, so the caller
  // gives the gradients of the loss itself. Those of the losses that the network has are added.
  // Gradients are summed over the batches before an Update(), and over ranks: for a mean, the
  // caller divides by the number of all examples. The result has no outputs. Errors:
  // FAILED_PRECONDITION without a Forward(); those of CheckGivenGradients()
  // (core/program/feeds.h), after which the step is still paused.
  absl::StatusOr<StepResult> Backward(const Feeds& gradients);
  // Gives up a step after Forward(): no parameter has changed, and step() does not count it.
  // Running statistics keep what forward has changed, as in PyTorch. In fp16, an Update() that is
  // skipped restores those from before its first batch, and so undoes this change, too. Errors:
  // FAILED_PRECONDITION without a Forward().
  absl::Status SkipBackward();

  // Of a session whose gradients are summed (TrainingOptions::accumulate), in place of steps: adds
  // the gradients of a batch, and returns its losses and outputs. Training is that of one batch of
  // all images. On a CPU and in strict mode it has the bits of one that is run in as many
  // sub-batches (PlannerOptions), if no layer couples the images of a batch; batch norms take the
  // statistics of each batch. Begin() and Finish() are its halves.
  // Errors: FAILED_PRECONDITION if it is time for an Update(), or while a batch is in flight.
  absl::StatusOr<StepResult> Accumulate(const Feeds& feeds);
  absl::StatusOr<StepResult> Accumulate(const Batch& batch);
  // Updates the parameters, which is one step. Batches may be in flight. The result has no losses
  // and outputs; of a scaled loss it says whether the step was skipped, so it waits for that.
  // Errors: FAILED_PRECONDITION unless as many batches have begun as there are to be.
  absl::StatusOr<StepResult> Update();
  // The batches that have begun since the last Update() or Discard().
  int64_t accumulated() const;
  // Drops the gradients that wait for an Update(), without which Save() is FAILED_PRECONDITION.
  // Running statistics keep what the batches have changed. Errors: FAILED_PRECONDITION while a
  // batch is in flight, or after the device has refused memory.
  absl::Status Discard();

  // Runs one step that trains like any other, but is timed on the device's streams, kernel by
  // kernel. It is a little slower, because of the timing and because no other step is in flight.
  // Errors: FAILED_PRECONDITION while a step is in flight.
  absl::StatusOr<TimedStep> TimeStep(const Feeds& feeds);
  absl::StatusOr<TimedStep> TimeStep(const Batch& batch);

  // Runs forward only, with running statistics, without dropout and auxiliary losses. There may be
  // fewer examples than the network's batch, and feeds that only losses read may be left out.
  // Losses are means over the labels and targets that are known. Errors: INVALID_ARGUMENT for fewer
  // examples if a loss compares predictions with a feed that other layers read, too;
  // FAILED_PRECONDITION while a step is in flight.
  absl::StatusOr<StepResult> Evaluate(const Feeds& feeds);
  // The same for images with labels or targets. The batch may have fewer images
  // than the network's; the loss and the number of correct labels are those of its images, the
  // loss that of the labels other than kNoLabel (0 if there are none). The result also has their
  // number. `prediction`, if it is not null, becomes that for
  // the images. Errors: FAILED_PRECONDITION while a step is in flight.
  absl::StatusOr<StepResult> Evaluate(const Batch& batch, Prediction* prediction = nullptr);
  // Evaluates images without labels: n times C x H x W values, with n from 1 to the network's
  // batch, normalised as in training. Errors: INVALID_ARGUMENT for another number of values;
  // FAILED_PRECONDITION while a step is in flight.
  absl::StatusOr<Prediction> Predict(absl::Span<const float> images);

  // Whether TrainingOptions::shard_optimizer is set and there are several ranks.
  bool is_sharded() const;
  // If it is: brings the parameters that other ranks have updated up to date, as Evaluate() and
  // Predict() require (FAILED_PRECONDITION otherwise). Errors: FAILED_PRECONDITION while a step is
  // in flight; those of the communicator.
  absl::Status Gather();

  // Writes parameters, running statistics, optimizer and step as a safetensors file
  // (core/checkpoint/checkpoint.h), atomically; if the optimizer is sharded, rank 0 does, and the
  // others send it what they have. Errors: FAILED_PRECONDITION for a session for
  // inference only, which has no optimizer.
  absl::Status Save(const std::string& path);
  // Writes parameters and running statistics only, which PyTorch loads with strict=True; where
  // layers share parameters, with strict=False, since the file has these under their owners' names
  // alone. `dtype` is the parameters' type in the file. Errors: INVALID_ARGUMENT unless it is fp32,
  // fp16 or bf16, or, naming the tensor, for a finite value that would become infinite in it.
  absl::Status SaveWeights(const std::string& path, DType dtype = DType::kFp32);
  // Both write these texts into the file's metadata from now on, beside those of their own
  // (core/checkpoint/checkpoint.h).
  void SetMetadata(FileMetadata metadata);
  // Reads either kind of file. From one without optimizer and step, training starts at step 0; from
  // one without a loss scale, with that of a new session. Errors: those of LoadCheckpoint()
  // (core/checkpoint/checkpoint.h).
  absl::Status Load(const std::string& path);
  // Like Load() of a file with these weights. Errors: those of CheckpointOf()
  // (core/checkpoint/checkpoint.h).
  absl::Status LoadWeights(const NamedValues& weights);

  // To be called when the caller has changed the memory of external tensors
  // (TrainingOptions::external), and the change has ended: writes their copies anew, which are
  // those of 16 bits that kernels read, and in fp16 the backups of states. Errors:
  // FAILED_PRECONDITION while a step is in flight.
  absl::Status Refresh();

  // Exchanges the values of every parameter with those of its average (Optimizer::average_decay),
  // so that Evaluate(), Predict(), SaveWeights(), Weights() and Values() have the averages under
  // the parameters' names; a second call, or a Load(), ends this. Until then, steps, changes of the
  // graph and Save() are FAILED_PRECONDITION. Running statistics stay those of training. Errors:
  // FAILED_PRECONDITION if there are no averages, or while a step is in flight.
  absl::Status ExchangeAverages();
  bool keeps_averages() const;  // of its parameters

  // The values of a persistent tensor ("conv1.weight", "bn1.running_mean", "conv1.weight.momentum",
  // "conv1.weight.average") in N, C, H, W order.
  absl::StatusOr<std::vector<float>> Values(std::string_view tensor);

  // Parameters and running statistics: what SaveWeights() writes, in its order, without
  // num_batches_tracked, which is step().
  absl::StatusOr<std::vector<NamedTensor>> Weights();

  // Plans again for another budget, which takes effect at the next step. Parameters and optimizer
  // are kept, and so is the number of sub-batches (core/program/sub_batches.h) that the planner
  // chose for the first budget. Replaces a pending SetBudgetAsync(), also if it is refused itself.
  // Errors: FAILED_PRECONDITION while a step is in flight.
  absl::Status SetBudget(int64_t budget_bytes);

  // Like SetBudget(), but plans and verifies on a thread of the session's own, and returns at once.
  // Steps go on with the old plan and do not wait for the planner. The first Begin(), TrainStep(),
  // TimeStep(), Evaluate() or Predict() after the plans are ready switches to them, also with a
  // step in flight: it waits for the device, moves the arena and makes the kernels. A refusal, by
  // the planner or by the device at the switch, leaves the session as it was, and AwaitBudget()
  // returns it. A later SetBudget() or SetBudgetAsync() replaces the change; SetTrainingGraph(),
  // which plans itself, first waits for it and switches. All other functions leave it pending. The
  // destructor waits until the planner returns, which cannot be interrupted. Errors:
  // RESOURCE_EXHAUSTED if the system refuses the thread; a change that was pending remains so then.
  absl::Status SetBudgetAsync(int64_t budget_bytes);
  // True from SetBudgetAsync() until the session has switched, or the change is refused.
  bool budget_pending() const;
  // Waits until the plans of a pending SetBudgetAsync() are ready, and switches to them. Returns
  // how the last SetBudgetAsync() ended: OK, also if there was none or a SetBudget() replaced it,
  // or its refusal, which has the errors of SetBudget(). Does not wait unless budget_pending().
  absl::Status AwaitBudget();

  // Trains another graph from the next step to begin; steps may be in flight. Its persistent
  // tensors must be among those of Create()'s graph, by name and shape; its batch and the sizes of
  // its inputs may be others. The tensors of layers that it leaves out keep their values and their
  // places, since the bottom of the arena is that of the whole network for every graph. A layer
  // that shares the parameter of another needs that layer in the same graph. Evaluate(), Save()
  // and Load() still use the whole network.
  // Plan, kernels and recordings of a graph are kept for when it comes back, which then costs a
  // look-up, for the 64 graphs that were trained last, and until the budget changes or a graph
  // needs a larger arena. Errors: INVALID_ARGUMENT naming a tensor that the whole network lacks;
  // those of SetBudget().
  absl::Status SetTrainingGraph(const Graph& graph);
  // Statistics of the cache of plans, and of what was made of them, over all calls so far.
  PlanCacheStats plan_cache() const;
  ExecutableStats executables() const;
  // The sizes of Graph::Sizes(), with the batch of each.
  const std::vector<GraphSize>& sizes() const;

 private:
  class Impl;
  explicit Session(std::unique_ptr<Impl> impl);
  Impl& impl() const;  // of a session that was not moved from
  std::unique_ptr<Impl> impl_;
};

}  // namespace neap
