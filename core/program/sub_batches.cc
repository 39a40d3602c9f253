#include "neap/core/program/sub_batches.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "neap/core/base/status_macros.h"

namespace neap {
namespace {

// The tensor for another number of images; nullopt if it does not hold `batch` of them.
std::optional<TensorSpec> WithImages(TensorSpec tensor, int64_t batch, int64_t images) {
  if (tensor.shape.rank() == 0 || tensor.shape.n() != batch) return std::nullopt;
  auto dims = tensor.shape.dims();
  dims[0] = images;
  tensor.shape = Shape(std::move(dims));
  return tensor;
}

// A state that a forward step writes, as a loss does its result, and to which it cannot add.
std::optional<std::string> StateWrittenAnew(const LayerSpec& spec) {
  for (const StepSpec& step : spec.steps) {
    const std::vector<Slot>& native = step.accumulates_natively;
    if (std::find(native.begin(), native.end(), Slot::kState) != native.end()) continue;
    for (const Operand& written : step.writes) {
      if (written.slot == Slot::kState) return spec.states[static_cast<size_t>(written.index)].name;
    }
  }
  return std::nullopt;
}

class SubBatchSplitter {
 public:
  SubBatchSplitter(ResolvedGraph graph, Mode mode, int64_t count)
      : graph_(std::move(graph)), mode_(mode), count_(count) {}

  absl::StatusOr<ResolvedGraph> Run() {
    const int64_t batch = graph_.options.batch;
    if (count_ < 1 || batch % count_ != 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(graph_.options.name, ": a batch of ", batch, " cannot be run in ", count_,
                       " sub-batches, because their number must divide it"));
    }
    for (ResolvedLayer& layer : graph_.layers) RETURN_IF_ERROR(Split(layer));
    return std::move(graph_);
  }

 private:
  absl::Status Split(ResolvedLayer& layer) const {
    const int64_t batch = graph_.options.batch;
    const bool is_given = layer.spec.steps.empty();  // the images or the labels
    if (!is_given && !layer.spec.traits.independent_images)
      return Refused(layer, "it couples the images of a batch");
    const std::optional<TensorSpec> output = WithImages(layer.spec.output, batch, batch / count_);
    if (!output.has_value())
      return Refused(layer, absl::StrCat("its output is not ", batch, " images"));
    if (is_given) {
      layer.spec.output = *output;
      return absl::OkStatus();
    }
    if (const std::optional<std::string> state = StateWrittenAnew(layer.spec))
      return Refused(layer, absl::StrCat("it writes its state ", *state, " and cannot add to it"));
    return Respecify(*output, layer);
  }

  absl::Status Respecify(const TensorSpec& output, ResolvedLayer& layer) const {
    LayerContext context = {.mode = mode_,
                            .scales_loss = mode_ == Mode::kTraining && ScalesLoss(graph_.options)};
    for (LayerId input : layer.inputs)
      context.inputs.push_back(graph_.layers[input.index()].spec.output);
    absl::StatusOr<LayerSpec> spec = layer.layer.Specify(context);
    if (!spec.ok()) return Refused(layer, std::string(spec.status().message()));
    if (spec->output != output)
      return Refused(
          layer, absl::StrCat("its output for a part of the batch is ", spec->output.ToString()));
    // Those of a fused layer are those of the layers that it replaces.
    for (size_t i = 0; i < spec->params.size(); ++i)
      spec->params[i].init = layer.spec.params[i].init;
    layer.spec = *std::move(spec);
    return absl::OkStatus();
  }

  absl::Status Refused(const ResolvedLayer& layer, std::string_view why) const {
    return absl::InvalidArgumentError(
        absl::StrFormat("layer '%s' cannot be run in %d sub-batches: %s", layer.name, count_, why));
  }

  ResolvedGraph graph_;
  const Mode mode_;
  const int64_t count_;
};

}  // namespace

absl::StatusOr<ResolvedGraph> InSubBatches(ResolvedGraph graph, Mode mode, int64_t count) {
  if (count == 1) return graph;
  return SubBatchSplitter(std::move(graph), mode, count).Run();
}

std::string NameInSubBatch(std::string_view name, const SubBatch& sub_batch) {
  if (sub_batch.count == 1) return std::string(name);
  return absl::StrFormat("%s[%d/%d]", name, sub_batch.index + 1, sub_batch.count);
}

}  // namespace neap
