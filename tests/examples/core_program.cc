// The examples in the headers of core/program/, which must compile. See scripts/check_examples.py.
#include <iostream>
#include <utility>

#include "absl/status/status.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/program/fuse.h"
#include "neap/core/program/passes.h"
#include "neap/core/program/persistent_tensors.h"
#include "neap/core/program/program.h"

namespace neap::header_examples::program {

// core/program/fuse.h
absl::Status FuseLayers(const Graph& net) {
  ASSIGN_OR_RETURN(ResolvedGraph graph, Resolve(net, Mode::kTraining));
  graph = Fuse(std::move(graph), Mode::kTraining);
  return absl::OkStatus();
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
  return conv1.params[0];
}

// core/program/program.h
absl::Status ListSteps(const Graph& graph) {
  ASSIGN_OR_RETURN(Program program, BuildProgram(graph, {.mode = Mode::kTraining}));
  for (const Step& step : program.steps)
    std::cout << program.StepName(step) << " reads " << step.reads.size() << " tensors\n";
  return absl::OkStatus();
}

}  // namespace neap::header_examples::program
