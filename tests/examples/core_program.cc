// The examples in the headers of core/program/, which must compile. See scripts/check_examples.py.
#include <functional>
#include <iostream>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "neap/core/base/home.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/program/builder/optimizer_steps.h"
#include "neap/core/program/builder/program_builder.h"
#include "neap/core/program/builder/update_writer.h"
#include "neap/core/program/fuse.h"
#include "neap/core/program/homes.h"
#include "neap/core/program/passes.h"
#include "neap/core/program/persistent_tensors.h"
#include "neap/core/program/program.h"
#include "neap/core/program/reduce_gradients.h"
#include "neap/core/program/results.h"
#include "neap/core/program/shards.h"
#include "neap/core/program/span_ranks.h"
#include "neap/core/program/sub_batches.h"
#include "neap/core/program/update_groups.h"

namespace neap::header_examples::program {

// core/program/fuse.h
absl::Status FuseLayers(const Graph& net, const Device& device) {
  ASSIGN_OR_RETURN(ResolvedGraph graph, Resolve(net, Mode::kTraining));
  graph = Fuse(std::move(graph), Mode::kTraining, device.description().rules);
  return absl::OkStatus();
}

// core/program/span_ranks.h
absl::Status SpanAllRanks(const Graph& net, const Device& device) {
  ASSIGN_OR_RETURN(ResolvedGraph graph, Resolve(net, Mode::kTraining));
  const std::vector<RankRule>& rules = device.description().rules.ranks;
  ASSIGN_OR_RETURN(graph, SpanRanks(std::move(graph), {.rank = 0, .ranks = 4}, rules));
  return absl::OkStatus();
}

// core/program/sub_batches.h
absl::Status SplitBatch(const ResolvedGraph& graph) {
  ASSIGN_OR_RETURN(const PartGraphs parts, InSubBatches(graph, {.sub_batches = 3}));
  parts.each.layers[0].spec.output.shape.n();   // 4 images of 10
  parts.last->layers[0].spec.output.shape.n();  // 2
  return absl::OkStatus();
}

// core/program/reduce_gradients.h
void SumGradients(Program& program, size_t i) {
  ReduceGradients(program);      // of one rank, as BuildProgram() has made it
  program.steps[i].phase;        // Phase::kAllReduce, of the layer whose gradient came last
  program.steps[i].accumulates;  // the tensors of the bucket
}

// core/base/home.h
void SetHomes(Program& program) {
  const Homes homes = {{"fc.weight", Home::kHost}, {"conv1.weight", Home::kExternal}};
  program.options.homes = homes;
}

// core/program/homes.h
absl::Status HomesExample(Program& program, Tensor tensor) {
  const HomeTable homes(program.options);
  tensor.home = homes.Of(tensor);  // of each tensor that is added
  program.tensors.push_back(tensor);
  RETURN_IF_ERROR(CheckHomes(program));  // once the program is built
  return absl::OkStatus();
}

// core/program/shards.h
void DivideParameters() {
  ShardDivision division(/*ranks=*/2);
  division.Next(600);  // {0, 288}, {288, 312}
  division.Next(100);  // {0, 100}, {0, 0}
  division.Next(64);   // {0, 0}, {0, 64}
}

// core/program/results.h
void KeepResults(const Program& program, const std::function<void(TensorId)>& Keep) {
  for (TensorId tensor : KeptResults(program)) Keep(tensor);
}

// core/program/passes.h
absl::Status LowerGraph(const Graph& graph, const Device& device) {
  ASSIGN_OR_RETURN(const Program program, Lower(graph, {}, device.description()));
  return absl::OkStatus();
}

// core/program/persistent_tensors.h
TensorId FirstParam(Program& program, const Program& whole, const ResolvedLayer& layer) {
  PersistentTensors persistent(program);           // program.net and .options are set
  persistent.Adopt(whole);                         // for a part of a network
  LayerPersistent conv1 = persistent.Make(layer);  // conv1.params[0]: "conv1.weight"
  return conv1.params[0].id;
}

// core/program/builder/update_writer.h
void WriteUpdates(const ResolvedGraph& graph, absl::Span<LayerTensors> tensors,
                  const OptimizerSteps& steps, Program& program,
                  const std::function<void(const ResolvedLayer&)>& Backward) {
  UpdateWriter updates(graph, tensors, steps, program);
  updates.Group();
  for (size_t i = graph.layers.size(); i-- > 0;) {
    Backward(graph.layers[i]);
    updates.AfterBackward(graph.layers[i].id);
  }
  updates.End();
}

// core/program/builder/optimizer_steps.h
Step UpdateOfTwo(const Program& program, TensorId iteration, const LayerPersistent& fc_persistent,
                 const LayerPersistent& bn_persistent, const std::vector<TensorId>& fc_grads,
                 const std::vector<TensorId>& bn_grads) {
  OptimizerSteps steps = {.iteration = iteration, .loss_scale = program.loss_scale};
  Step update = steps.Update({{&fc_persistent, &fc_grads}, {&bn_persistent, &bn_grads}});
  update.reads;  // iteration, fc.weight.grad, fc.bias.grad, bn.weight.grad, bn.bias.grad
  return update;
}

// core/program/update_groups.h
void ListGroups(const ResolvedGraph& graph, const std::vector<LayerId>& learning) {
  for (const std::vector<LayerId>& group : UpdateGroups(graph, learning, {.bytes = 8 * kMiB})) {
    const LayerId last = group.back();  // after whose backward the step runs
  }
}

// core/program/builder/program_builder.h
Program BuildAPart(PartGraphs parts, const ProgramOptions& options, const Program& whole) {
  ProgramBuilder builder(std::move(parts), options);
  builder.Adopt(whole);  // for a part of its network
  Program part = builder.Build();
  builder.unknown_tensor();  // what `whole` lacks, if anything
  return part;
}

// core/program/program.h
absl::Status ListSteps(const Graph& graph) {
  ASSIGN_OR_RETURN(Program program, BuildProgram(graph, {.mode = Mode::kTraining}));
  for (const Step& step : program.steps)
    std::cout << program.StepName(step) << " reads " << step.reads.size() << " tensors\n";
  return absl::OkStatus();
}

}  // namespace neap::header_examples::program
