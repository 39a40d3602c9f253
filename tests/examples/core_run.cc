// The examples in the headers of core/run/, which must compile. See scripts/check_examples.py.
#include <cstdint>
#include <functional>
#include <iostream>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/program/feeds.h"
#include "neap/core/run/arena.h"
#include "neap/core/run/binder.h"
#include "neap/core/run/evaluation.h"
#include "neap/core/run/executable.h"
#include "neap/core/run/executor.h"
#include "neap/core/run/external.h"
#include "neap/core/run/file_planner.h"
#include "neap/core/run/parallel_session.h"
#include "neap/core/run/persistent_values.h"
#include "neap/core/run/plan_cache.h"
#include "neap/core/run/ranks.h"
#include "neap/core/run/session.h"
#include "neap/core/run/session/budget_change.h"
#include "neap/core/run/session/lower_session.h"
#include "neap/core/run/session/session_executables.h"
#include "neap/core/run/session/session_memory.h"
#include "neap/core/run/session/session_planner.h"
#include "neap/core/run/session/size_programs.h"
#include "neap/core/run/staging.h"
#include "neap/core/run/tensor_values.h"
#include "neap/core/vision/batch_feeds.h"
#include "neap/core/vision/loader.h"
#include "neap/layers/activation.h"
#include "neap/layers/fully_connected.h"
#include "neap/memory/planner.h"

namespace neap::header_examples::run {

// core/run/arena.h
absl::Status ResizeArena(Arena& arena, int64_t persistent_end, const Program& program,
                         const Plan& plan, Device& device) {
  RETURN_IF_ERROR(arena.Evacuate(persistent_end));
  RETURN_IF_ERROR(arena.Reserve(BytesFor(plan)));  // may be retried
  RETURN_IF_ERROR(arena.Return());
  return BindPlan(program, plan, device, arena.memory()).status();
}

// core/run/binder.h
absl::Status Bind(const Program& program, const Plan& plan, Device& device, const Buffer& arena) {
  ASSIGN_OR_RETURN(BoundPlan bound, BindPlan(program, plan, device, {.arena = arena.data()}));
  bound.operations;  // the list that core/run/executor.h walks
  return absl::OkStatus();
}

// core/run/session/budget_change.h
absl::Status PlanMeanwhile(SessionPlanner& planner, const Program& training,
                           const Program& inference) {
  BudgetChange change(planner);
  RETURN_IF_ERROR(change.Start(6 * kGiB, {{training}, inference}));
  if (std::optional<BudgetChange::Planned> planned = change.Take()) planned->plans.status();
  return absl::OkStatus();
}

// core/run/evaluation.h
absl::Status EvaluateOnce(Executable& inference, Staging& staging, Device& device,
                          const Feeds& feeds, int64_t images) {
  ASSIGN_OR_RETURN(StepResult result, EvaluateFeeds(inference, staging, feeds));
  ASSIGN_OR_RETURN(Prediction prediction, ReadPrediction(inference, images, device));
  return absl::OkStatus();
}

// core/vision/batch_feeds.h
absl::Status SendBatch(const Batch& batch, const Program& program, Staging& staging,
                       const IterationScalars& scalars, Executor& executor) {
  ASSIGN_OR_RETURN(const BatchFeeds given, BatchFeeds::Of(batch, program));
  RETURN_IF_ERROR(staging.Send(given.feeds(), scalars, program, executor));
  return absl::OkStatus();
}

// core/program/feeds.h
absl::Status CountExamples(const std::vector<float>& pixels, const std::vector<int32_t>& ids,
                           const Program& program) {
  const Feeds feeds = {{.name = "image", .floats = pixels}, {.name = "kind", .integers = ids}};
  ASSIGN_OR_RETURN(const int64_t examples, ExamplesIn(feeds, program));
  return examples > 0 ? absl::OkStatus() : absl::InternalError("none");
}

// core/run/executor.h
absl::Status Execute(const Program& program, const Plan& plan, Device& device, const Buffer& arena,
                     TensorId images, const Buffer& pixels) {
  ASSIGN_OR_RETURN(Executor executor, Executor::Create(program, plan, device, {arena.data()}));
  RETURN_IF_ERROR(executor.Send({{images, pixels.data(), pixels.size_bytes()}}));
  RETURN_IF_ERROR(executor.Run());  // enqueues one iteration
  RETURN_IF_ERROR(device.Synchronize());
  return absl::OkStatus();
}

// core/run/file_planner.h
absl::Status RunPlanFile(const Graph& net, const std::unique_ptr<Device>& device) {
  ASSIGN_OR_RETURN(std::shared_ptr<const Planner> planner,
                   PlannerFromFile("plan.json", /*evaluation=*/PlannerFor({})));
  ASSIGN_OR_RETURN(Session session, Session::Create(net, *device, planner));
  return absl::OkStatus();
}

// core/run/parallel_session.h
absl::Status TrainOnTwo(const std::vector<Device*>& devices,
                        const std::vector<Communicator*>& communicators,
                        const std::shared_ptr<const Planner>& planner,
                        const ParallelSession::NetFor& net_for, const Batch& batch) {
  std::vector<ParallelSession::Rank> ranks;
  for (int rank = 0; rank < 2; ++rank) {
    ranks.push_back({.images = 32,
                     .device = devices[rank],
                     .planner = planner,
                     .communicator = communicators[rank]});
  }
  ASSIGN_OR_RETURN(ParallelSession session, ParallelSession::Create(net_for, ranks));
  ASSIGN_OR_RETURN(const float loss, session.TrainStep(batch));  // of 64 images
  RETURN_IF_ERROR(session.Save("model.safetensors"));
  return absl::OkStatus();
}

// core/run/plan_cache.h
absl::Status CachePlan(const Program& program, const std::shared_ptr<const Planner>& planner,
                       const PlanRequest& request, const DeviceDescription& description,
                       EngineCatalog& catalog) {
  PlanCache cache(/*capacity=*/64);
  const auto make = [&] { return planner->Plan(program, request, description, catalog); };
  ASSIGN_OR_RETURN(PlanResult planned,
                   cache.FindOrMake({program, planner, request, description}, make));
  cache.stats().hits;
  return absl::OkStatus();
}

// core/run/executable.h
absl::Status RunIteration(Executable& executable, Device& device, const Arena& arena,
                          Staging& staging, const Feeds& feeds, const IterationScalars& scalars) {
  RETURN_IF_ERROR(executable.Bind(device, arena.memory(), /*communicator=*/nullptr,
                                  /*records=*/true));
  RETURN_IF_ERROR(staging.Send(feeds, scalars, executable.program, *executable.executor));
  RETURN_IF_ERROR(executable.Iterate(staging));  // then staging.Await()
  return absl::OkStatus();
}

// core/run/session.h
absl::Status Train(const Graph& net, const std::unique_ptr<Device>& device,
                   const std::unique_ptr<Loader>& loader) {
  ASSIGN_OR_RETURN(Session session,
                   Session::Create(net, *device, PlannerFor({.budget_bytes = 12 * kGiB})));
  std::cout << session.plan().Summary();
  for (int64_t step = 0; step < 1000; ++step) {
    ASSIGN_OR_RETURN(Batch batch, loader->Next());
    ASSIGN_OR_RETURN(float loss, session.TrainStep(batch));
  }
  RETURN_IF_ERROR(session.Save("model.safetensors"));
  return absl::OkStatus();
}

absl::Status TrainWithOwnLoss(
    Session& session, const Feeds& feeds,
    const std::function<std::vector<float>(const std::vector<float>&)>& GradientOfMyLoss) {
  ASSIGN_OR_RETURN(std::vector<NamedTensor> outputs, session.Forward(feeds));
  std::vector<float> gradient = GradientOfMyLoss(outputs[0].values);
  RETURN_IF_ERROR(session.Backward({{.name = "logits", .floats = gradient}}).status());
  return absl::OkStatus();
}

// docs/ports.md
neap::Graph ScoresNet() {
  neap::Graph net({.name = "scores", .batch = 32});
  net.Input("picture", {1, 16, 16});
  net.Add("hidden", neap::FullyConnected{.out_features = 64}, {"picture"});
  net.Add("relu", neap::Relu{}, {"hidden"});
  net.OutputWithGradient(net.Add("scores", neap::FullyConnected{.out_features = 10}, {"relu"}));
  return net;
}
absl::Status TrainScores(
    neap::Session& session, const std::vector<float>& pictures,
    const std::function<std::vector<float>(const std::vector<float>&)>& GradientOfLoss) {
  ASSIGN_OR_RETURN(const std::vector<neap::NamedTensor> outputs,
                   session.Forward({{.name = "picture", .floats = pictures}}));
  const std::vector<float> gradient = GradientOfLoss(outputs[0].values);
  RETURN_IF_ERROR(session.Backward({{.name = "scores", .floats = gradient}}).status());
  return absl::OkStatus();
}

// docs/ports.md
neap::TrainingOptions WithHomes(void* weight) {
  neap::TrainingOptions training;
  training.homes = {{"fc.weight", neap::Home::kHost}, {"fc.weight.momentum", neap::Home::kHost}};
  training.external = {{"conv1.weight", weight, 64 * 3 * 7 * 7 * 4}};
  return training;
}

// core/run/external.h
absl::Status AddressesExample(void* weight, const Program& program) {
  const std::vector<ExternalTensor> given = {{"conv1.weight", weight, 64 * 3 * 7 * 7 * 4}};
  ASSIGN_OR_RETURN(const ExternalAddresses addresses, AddressesOf(given, program));
  return absl::OkStatus();
}

absl::Status TrainPart(Session& session, const Graph& net_without_some_blocks) {
  RETURN_IF_ERROR(session.SetTrainingGraph(net_without_some_blocks));
  return absl::OkStatus();
}

absl::Status TrainWithSums(Session& session, const std::vector<Batch>& four) {
  for (const Batch& batch : four)  // TrainingOptions::accumulate
    RETURN_IF_ERROR(session.Accumulate(batch).status());
  RETURN_IF_ERROR(session.Update().status());
  return absl::OkStatus();
}

void StateSizes(Graph& net, Batch& batch) {
  net.Sizes({{.extents = {160, 160}}, {.extents = {288, 288}, .batch = 32}});
  batch.height = batch.width = 288;  // of 32 images, before TrainStep(batch)
}

absl::Status ChangeBudget(Session& session, const Batch& batch) {
  RETURN_IF_ERROR(session.SetBudgetAsync(6 * kGiB));  // steps go on with the old plan meanwhile
  while (session.budget_pending()) RETURN_IF_ERROR(session.TrainStep(batch).status());
  RETURN_IF_ERROR(session.AwaitBudget());  // whether it has taken effect
  return absl::OkStatus();
}

// core/run/ranks.h
absl::Status AgreeOnGraph(const Graph& graph, const Program& program, ProgramOptions options,
                          Communicator* communicator,
                          const std::function<absl::Status(const Graph&)>& Plan) {
  ASSIGN_OR_RETURN(options.share, ShareOf(graph.options().batch, communicator));
  const absl::Status own = Plan(graph);
  RETURN_IF_ERROR(Agree(own, TermsOf(program, {}, 1), communicator));
  return absl::OkStatus();
}

// core/run/session/session_memory.h
absl::Status ChangeGraph(Device& device, const std::shared_ptr<Executable>& whole,
                         const std::shared_ptr<Executable>& evaluation,
                         const std::shared_ptr<Executable>& executable, const Graph& graph) {
  SessionMemory memory(device, /*communicator=*/nullptr, /*records=*/true);
  RETURN_IF_ERROR(memory.Replace({.training = {whole}, .inference = evaluation}));
  const Executable* known = memory.Find(graph);
  RETURN_IF_ERROR(known != nullptr ? memory.Resume(*known) : memory.Add(executable));
  return memory.training().executor->Run();
}

// core/run/session/session_executables.h
absl::Status MakeExecutables(Device& device, const std::shared_ptr<const Planner>& planner,
                             const TrainingOptions& options, const Graph& graph, const Graph& part,
                             const RankShare& share) {
  const auto terms = [](const Program& program) { return TermsOf(program, {}, 1); };
  const auto gather = [] { return absl::OkStatus(); };
  SessionExecutables executables(device, planner, options);
  RETURN_IF_ERROR(executables.Create(graph, share));  // of the family, and for evaluation
  RETURN_IF_ERROR(executables.training().executor->Run());
  RETURN_IF_ERROR(executables.SetTrainingGraph(part, /*ready=*/absl::OkStatus(), terms, gather));
  RETURN_IF_ERROR(executables.SetBudget(6 * kGiB));
  return absl::OkStatus();
}

// core/run/persistent_values.h
absl::Status ReadWeight(Device& device, SessionExecutables& executables, Communicator* communicator,
                        uint64_t seed, const absl::Status& ready) {
  PersistentValues values(device, executables, communicator);
  values.Adopt();
  RETURN_IF_ERROR(values.Initialise(seed, /*at_once=*/true));
  values.StepBegun();
  RETURN_IF_ERROR(values.Gather(ready));  // all ranks; then evaluation may read them
  ASSIGN_OR_RETURN(std::vector<float> weight, values.Read("conv1.weight"));  // all ranks
  return absl::OkStatus();
}

// core/run/session/lower_session.h
absl::Status LowerExample(const Graph& graph, const TrainingOptions& options,
                          const RankShare& share, const DeviceDescription& device,
                          int64_t budget_bytes, SessionPlanner& planner) {
  ASSIGN_OR_RETURN(LoweredSession lowered,
                   LowerSession(graph, options, share, device, budget_bytes, planner));
  return absl::OkStatus();
}

// core/run/session/size_programs.h
absl::Status LowerSmallSize(const Graph& net, const Program& whole,
                            const DeviceDescription& description, SessionPlanner& planner) {
  ASSIGN_OR_RETURN(const int64_t batch,
                   FillingBatch(net, {160, 160}, whole, 12 * kGiB, description, planner));
  ASSIGN_OR_RETURN(SizedProgram small, LowerSize(net, {{160, 160}, batch}, whole, description));
  return absl::OkStatus();
}

// core/run/session/session_planner.h
absl::Status PlanSession(const PlannerOptions& options, Device& device, const Program& training,
                         const Program& inference) {
  SessionPlanner planner(PlannerFor(options), device);
  ASSIGN_OR_RETURN(SessionPlans plans, planner.PlanAll({{training}, inference}, 12 * kGiB));
  return absl::OkStatus();
}

// core/run/staging.h
absl::Status SendAndReceive(const Program& program, Device& device, const Feeds& feeds,
                            const IterationScalars& scalars, Executor& executor) {
  Staging staging(device);
  RETURN_IF_ERROR(staging.Reserve(program));
  RETURN_IF_ERROR(staging.Send(feeds, scalars, program, executor));  // then executor.Run()
  RETURN_IF_ERROR(staging.Receive(program, executor));
  ASSIGN_OR_RETURN(Staging::Received received, staging.Await());
  return absl::OkStatus();
}

// core/run/tensor_values.h
absl::Status WriteAndReadValues(const Tensor& tensor, const std::vector<float>& values,
                                const Executor& executor, Device& device) {
  std::vector<TensorImage> images;
  ASSIGN_OR_RETURN(images.emplace_back(), MakeImage(tensor, values, device));
  RETURN_IF_ERROR(WriteImages(images, executor, device));
  ASSIGN_OR_RETURN(std::vector<float> read, ReadValues(tensor, executor, device));  // == values
  return absl::OkStatus();
}

}  // namespace neap::header_examples::run
