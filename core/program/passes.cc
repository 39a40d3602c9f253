#include "neap/core/program/passes.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/base/units.h"
#include "neap/core/base/without_throwing.h"
#include "neap/core/program/fuse.h"
#include "neap/core/program/span_ranks.h"

namespace neap {
namespace {

// Whether gradients of parameters are sums over the parts of a batch, or over batches.
bool SumsGradients(const ProgramOptions& options) {
  const bool has_parts = options.batch_norm_in_parts && options.sub_batches > 1;
  return options.mode == Mode::kTraining && (has_parts || options.accumulation.is_on());
}

// The variance of one value is 0 whatever the value, and a batch norm would blend it into its
// running variance.
absl::Status CheckVariances(const ResolvedGraph& graph, const RankShare& share) {
  for (const ResolvedLayer& layer : graph.layers) {
    if (layer.spec.values_per_variance != 1) continue;
    const TensorSpec& x = graph.SpecOf(layer.inputs[0]);
    std::string_view more = "; a larger batch or larger images have more";
    if (share.ranks > 1) {
      more =
          " on a rank; larger parts of the batch, larger images or synchronised batch norms "
          "have more";
    }
    if (layer.spec.traits.independent_images) more = "; larger images have more";
    return absl::InvalidArgumentError(absl::StrCat(
        "layer '", layer.name, "': training needs more than 1 value per channel, but its input is ",
        x.shape.ToString(), std::string(more)));
  }
  return absl::OkStatus();
}

absl::StatusOr<ResolvedGraph> Rewritten(const Graph& graph, const ProgramOptions& options,
                                        const DeviceDescription& device) {
  ASSIGN_OR_RETURN(ResolvedGraph resolved, Resolve(graph, options.mode));
  const bool spans = options.sync_batch_norm && options.mode == Mode::kTraining &&
                     options.share.ranks > 1 && options.accounting == Accounting::kExact;
  if (spans) {
    ASSIGN_OR_RETURN(resolved, SpanRanks(std::move(resolved), options.share, device.rules.ranks));
  }
  RETURN_IF_ERROR(CheckVariances(resolved, options.share));
  // The papers' layers are not fused.
  const bool fuses = graph.options().fusion && options.accounting == Accounting::kExact;
  if (!fuses) return resolved;
  const std::vector<DType>& folding = device.folding_types;
  const bool folds = std::count(folding.begin(), folding.end(), graph.options().dtype) > 0;
  const bool is_given = options.fusion_batch != 0;
  return Fuse(std::move(resolved), options.mode, device.rules,
              {.folds = folds,
               .sums_gradients = SumsGradients(options),
               .batch = is_given ? options.fusion_batch : FusionBatch(options.share)});
}

// Some 10 updates instead of 107 for ResNet-50. With more bytes there are hardly fewer, and the
// smallest budgets grow by as many, because gradients of parameters are never evicted.
constexpr int64_t kUpdateGroupBytes = 8 * kMiB;

// Updates are grouped where each step is a launch.
ProgramOptions OptionsFor(const DeviceDescription& device, ProgramOptions options) {
  const bool fetches = options.offload_params ||
                       std::any_of(options.homes.begin(), options.homes.end(),
                                   [](const auto& one) { return one.home == Home::kHost; });
  const bool groups = device.has_own_memory && !fetches && options.mode == Mode::kTraining &&
                      options.accounting == Accounting::kExact;
  options.update_group_bytes = groups ? kUpdateGroupBytes : 0;
  return options;
}

}  // namespace

int64_t FusionBatch(const RankShare& share) {
  return share.ranks == 1 ? 0 : std::max<int64_t>(share.all_images / share.ranks, 1);
}

absl::StatusOr<Program> Lower(const Graph& graph, const ProgramOptions& options,
                              const DeviceDescription& device) {
  return WithoutThrowing(graph.options().name, [&]() -> absl::StatusOr<Program> {
    ASSIGN_OR_RETURN(ResolvedGraph rewritten, Rewritten(graph, options, device));
    return BuildProgram(std::move(rewritten), OptionsFor(device, options));
  });
}

absl::StatusOr<Program> LowerPart(const Graph& graph, const Program& whole,
                                  const DeviceDescription& device) {
  return WithoutThrowing(graph.options().name, [&]() -> absl::StatusOr<Program> {
    ASSIGN_OR_RETURN(ResolvedGraph rewritten, Rewritten(graph, whole.options, device));
    return BuildPart(std::move(rewritten), whole);
  });
}

absl::StatusOr<Program> LowerInference(const Graph& graph, const Program& training,
                                       const DeviceDescription& device) {
  Program whole = training;
  whole.options.mode = Mode::kInference;
  whole.options.share = {};
  whole.options.accumulation = {};
  whole.options = OptionsFor(device, whole.options);
  return LowerPart(graph, whole, device);
}

absl::StatusOr<Program> LowerAccumulation(const Graph& graph, const Program& first, int64_t index,
                                          const DeviceDescription& device) {
  Program whole = first;
  whole.options.accumulation.index = index;
  return LowerPart(graph, whole, device);
}

}  // namespace neap
