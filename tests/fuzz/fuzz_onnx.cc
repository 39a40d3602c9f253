#include "neap/core/program/passes.h"
#include "neap/layers/cpu/cpu_device.h"
#include "neap/nets/onnx/onnx_file.h"
#include "neap/nets/registry.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/random_graph.h"
#include "tests/scratch_directory.h"

namespace neap::testing {
namespace {

// Of the fp32 program, all zeros.
NamedValues ZeroWeights(const Program& program) {
  NamedValues weights;
  for (const Tensor& tensor : program.tensors) {
    if (IsSaved(tensor, CheckpointContents::kWeights))
      weights[tensor.name].assign(static_cast<size_t>(tensor.spec.elements()), 0);
  }
  return weights;
}

}  // namespace

std::vector<std::string> FuzzSeeds() {
  const ScratchDirectory directory;
  const auto device = CpuDevice::Open();
  std::vector<Graph> graphs = {
      nets::Build("lenet", {.batch = 1}).value(),
      nets::Build("densenet-bc-cifar", {.batch = 1, .image = 8, .depth = 10, .growth_rate = 2})
          .value()};
  for (const int axes : {1, 3})
    graphs.push_back(RandomGraph(1, {.axes = axes, .image = 4, .image_norms = true}));
  std::vector<std::string> files;
  for (const Graph& graph : graphs) {
    const auto program = Lower(graph, {}, (*device)->description());
    if (!nets::WriteOnnx(directory.File("file"), graph, ZeroWeights(*program)).ok())
      FailFuzzed("no seeds can be written");
    files.push_back(ReadText(directory.File("file")));
  }
  return files;
}

void ReadFuzzed(std::string_view bytes) {
  static const ScratchDirectory directory;
  static const auto device = CpuDevice::Open();
  const std::string path = directory.File("file.onnx");
  WriteText(path, std::string(bytes));
  const absl::StatusOr<nets::OnnxModel> model = nets::ReadOnnx(path, {.batch = 2});
  if (!model.ok()) return;
  const absl::StatusOr<Program> program = Lower(model->graph, {}, (*device)->description());
  if (program.ok() && !CheckpointOf(model->weights, *program).ok())
    FailFuzzed("the weights of an accepted file are not those of its network");
}

}  // namespace neap::testing
