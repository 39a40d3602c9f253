#include "neap/core/program/sub_batches.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/program/layer_tensors.h"

namespace neap {
namespace {

// The tensor for another number of images; nullopt if it does not hold `batch` of them.
std::optional<TensorSpec> WithImages(TensorSpec tensor, int64_t batch, int64_t images) {
  if (tensor.shape.rank() == 0 || tensor.shape.n() != batch) return std::nullopt;
  return WithFirstExtent(std::move(tensor), images);
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

// "its output", or "its output 1" of a layer with several.
std::string WhichOutput(const LayerSpec& spec, int index) {
  return spec.output_count() == 1 ? "its output" : absl::StrCat("its output ", index);
}

// Makes the graph of a part of `images` images.
class PartMaker {
 public:
  PartMaker(ResolvedGraph graph, const ProgramOptions& options, int64_t images)
      : graph_(std::move(graph)), options_(options), images_(images) {}

  absl::StatusOr<ResolvedGraph> Run() {
    for (ResolvedLayer& layer : graph_.layers) RETURN_IF_ERROR(Split(layer));
    return std::move(graph_);
  }
  bool has_statistics_of_parts() const { return has_statistics_of_parts_; }

 private:
  absl::Status Split(ResolvedLayer& layer) {
    const int64_t batch = graph_.options.batch;
    const bool is_given = layer.spec.steps.empty();  // a feed
    if (!is_given) RETURN_IF_ERROR(CheckSplits(layer));
    std::vector<TensorSpec> outputs;
    for (int i = 0; i < layer.spec.output_count(); ++i) {
      std::optional<TensorSpec> output = WithImages(layer.spec.OutputSpec(i), batch, images_);
      if (!output.has_value())
        return Refused(layer,
                       absl::StrCat(WhichOutput(layer.spec, i), " is not ", batch, " images"));
      outputs.push_back(*std::move(output));
    }
    if (is_given) {
      layer.spec.output = outputs[0];
      return absl::OkStatus();
    }
    return Respecify(outputs, layer);
  }

  absl::Status CheckSplits(const ResolvedLayer& layer) {
    if (layer.role == LayerRole::kCaller) {
      return Refused(layer, "the gradients that it gives are those of outputs of the whole batch");
    }
    const LayerTraits& traits = layer.spec.traits;
    if (!traits.independent_images) {
      if (!traits.coupled_by_statistics) return Refused(layer, "it couples the images of a batch");
      if (!options_.batch_norm_in_parts) {
        return Refused(layer,
                       "it couples the images of a batch, unless its statistics are to be those of "
                       "each part (--batch-norm-in-parts)");
      }
      has_statistics_of_parts_ = true;
    }
    if (const std::optional<std::string> state = StateWrittenAnew(layer.spec))
      return Refused(layer, absl::StrCat("it writes its state ", *state, " and cannot add to it"));
    if (ReadsParamGrad(layer.spec))
      return Refused(layer, "it reads gradients of its parameters, which are sums over parts");
    return absl::OkStatus();
  }

  absl::Status Respecify(const std::vector<TensorSpec>& outputs, ResolvedLayer& layer) const {
    const LayerContext context = ContextIn(graph_.options, options_.mode, graph_.InputSpecs(layer));
    absl::StatusOr<LayerSpec> spec = layer.layer.Specify(context);
    if (!spec.ok()) return Refused(layer, std::string(spec.status().message()));
    if (spec->output_count() != std::ssize(outputs))
      return Refused(layer, absl::StrCat("it has ", spec->output_count(), " outputs then"));
    for (int i = 0; i < spec->output_count(); ++i) {
      const TensorSpec& output = spec->OutputSpec(i);
      if (output == outputs[static_cast<size_t>(i)]) continue;
      return Refused(layer, absl::StrCat(WhichOutput(*spec, i), " for a part of the batch is ",
                                         output.ToString()));
    }
    if (spec->values_per_variance == 1) {
      return Refused(layer, absl::StrCat("a part of ", images_, images_ == 1 ? " image" : " images",
                                         " has 1 value per channel, which has no variance"));
    }
    const ResolvedLayer before = layer;
    layer.spec = *std::move(spec);
    KeepInits(before, layer);
    return absl::OkStatus();
  }

  absl::Status Refused(const ResolvedLayer& layer, std::string_view why) const {
    return absl::InvalidArgumentError(absl::StrFormat(
        "layer '%s' cannot be run in %d sub-batches: %s", layer.name, options_.sub_batches, why));
  }

  ResolvedGraph graph_;
  const ProgramOptions& options_;
  const int64_t images_;
  bool has_statistics_of_parts_ = false;
};

absl::Status CheckOptions(const GraphOptions& net, const ProgramOptions& options) {
  const bool spans_ranks =
      options.mode == Mode::kTraining && options.sync_batch_norm && options.share.ranks > 1;
  if (options.batch_norm_in_parts && spans_ranks) {
    return absl::InvalidArgumentError(absl::StrCat(
        net.name,
        ": batch norms cannot have the statistics of all ranks (--sync-batch-norm) and "
        "those of each part (--batch-norm-in-parts)"));
  }
  const int64_t count = options.sub_batches;
  if (count == 1 || (1 < count && count <= net.batch)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(net.name, ": a batch of ", net.batch, " cannot be run in ", count,
                   " sub-batches, because each has at least one image"));
}

}  // namespace

absl::StatusOr<PartGraphs> InSubBatches(ResolvedGraph graph, const ProgramOptions& options) {
  RETURN_IF_ERROR(CheckOptions(graph.options, options));
  const int64_t batch = graph.options.batch;
  if (options.sub_batches == 1)
    return PartGraphs{.sizes = {.images = batch, .last = batch}, .each = std::move(graph)};
  PartGraphs parts = {.sizes = DivideBatch(batch, options.sub_batches)};
  if (parts.sizes.last < parts.sizes.images) {
    ASSIGN_OR_RETURN(parts.last, PartMaker(graph, options, parts.sizes.last).Run());
  }
  PartMaker maker(std::move(graph), options, parts.sizes.images);
  ASSIGN_OR_RETURN(parts.each, maker.Run());
  parts.has_statistics_of_parts = maker.has_statistics_of_parts();
  return parts;
}

std::string NameInSubBatch(std::string_view name, const SubBatch& sub_batch) {
  if (sub_batch.count == 1) return std::string(name);
  return absl::StrFormat("%s[%d/%d]", name, sub_batch.index + 1, sub_batch.count);
}

}  // namespace neap
