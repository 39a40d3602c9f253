#include "neap/core/plan/describe_program.h"

#include <string>
#include <utility>
#include <vector>

#include "neap/core/base/units.h"

namespace neap {
namespace {

std::vector<TensorId> Ids(const std::vector<Use>& uses) {
  std::vector<TensorId> ids;
  ids.reserve(uses.size());
  for (const Use& use : uses) ids.push_back(use.tensor);
  return ids;
}

std::vector<std::pair<TensorId, Slice>> Slices(const Step& step) {
  std::vector<std::pair<TensorId, Slice>> slices;
  for (const std::vector<Use>* uses : {&step.reads, &step.writes, &step.accumulates}) {
    for (const Use& use : *uses) {
      if (use.slice.has_value()) slices.emplace_back(use.tensor, *use.slice);
    }
  }
  return slices;
}

}  // namespace

Plan DescribeProgram(const Program& program, const DeviceDescription& device) {
  Plan plan = {.net = program.net.name,
               .batch = program.net.batch,
               .sub_batches = program.options.sub_batches,
               .batch_norm_in_parts = program.options.batch_norm_in_parts,
               .dtype = program.net.dtype,
               .layout = program.net.layout,
               .device = device.name,
               .device_kind = device.kind};
  for (const Tensor& tensor : program.tensors) {
    plan.tensors.push_back({tensor.id, tensor.name, tensor.role, tensor.spec.shape,
                            tensor.spec.dtype, tensor.spec.size_bytes()});
    // Inference finds the parameters gathered.
    if (!tensor.shards.empty() && program.options.mode == Mode::kTraining)
      plan.tensors.back().own = program.OwnShard(tensor);
    plan.tensors.back().is_external = tensor.home == Home::kExternal;
    if (tensor.home != Home::kHost) continue;
    plan.tensors.back().host_offset = plan.host_resident_bytes;
    plan.host_resident_bytes += RoundUp(tensor.spec.size_bytes(), kBlockBytes);
  }
  for (const Step& step : program.steps) {
    plan.steps.push_back({step.id, program.layers[step.layer.index()].name,
                          std::string(program.StepType(step)), step.phase, Ids(step.reads),
                          Ids(step.writes), Ids(step.accumulates), Ids(step.rerun_reads),
                          step.in_place, Slices(step)});
  }
  return plan;
}

}  // namespace neap
