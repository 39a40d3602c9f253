#include "neap/core/program/span_ranks.h"

#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/program/layer_tensors.h"

namespace neap {
namespace {

class RankSplitter {
 public:
  RankSplitter(ResolvedGraph graph, const RankShare& share, const std::vector<RankRule>& rules)
      : graph_(std::move(graph)), share_(share), rules_(rules) {}

  absl::StatusOr<ResolvedGraph> Run() {
    result_.options = graph_.options;
    std::vector<LayerId> position;  // in the result
    for (ResolvedLayer& layer : graph_.layers) {
      for (LayerOutput& input : layer.inputs) input.layer = position[input.layer.index()];
      const std::optional<std::pair<Layer, Layer>> parts = PartsOf(layer.layer);
      if (parts.has_value()) RETURN_IF_ERROR(Split(parts->first, parts->second, layer));
      position.push_back(Append(std::move(layer)));
    }
    return std::move(result_);
  }

 private:
  std::optional<std::pair<Layer, Layer>> PartsOf(const Layer& layer) const {
    for (const RankRule& rule : rules_) {
      if (rule.layer != layer.type()) continue;
      if (auto parts = rule.split(layer, share_.rank, share_.ranks)) return parts;
    }
    return std::nullopt;
  }

  // Appends the first part, and makes `layer` the second.
  absl::Status Split(const Layer& first, const Layer& second, ResolvedLayer& layer) {
    ResolvedLayer statistics = {.id = {},
                                .name = absl::StrCat(layer.name, ".statistics"),
                                .layer = first,
                                .inputs = layer.inputs,
                                .role = LayerRole::kInner,
                                .spec = {}};
    RETURN_IF_ERROR(Respecify(statistics));
    layer.layer = second;
    layer.inputs.push_back({Append(std::move(statistics))});
    return Respecify(layer);
  }

  absl::Status Respecify(ResolvedLayer& layer) const {
    const LayerContext context =
        ContextIn(graph_.options, Mode::kTraining, result_.InputSpecs(layer));
    const ResolvedLayer before = layer;
    ASSIGN_OR_RETURN(layer.spec, layer.layer.Specify(context));
    KeepInits(before, layer);
    return absl::OkStatus();
  }

  LayerId Append(ResolvedLayer layer) {
    layer.id = LayerId(result_.layers.size());
    result_.layers.push_back(std::move(layer));
    return result_.layers.back().id;
  }

  ResolvedGraph graph_;
  const RankShare share_;
  const std::vector<RankRule>& rules_;
  ResolvedGraph result_;
};

}  // namespace

absl::StatusOr<ResolvedGraph> SpanRanks(ResolvedGraph graph, const RankShare& share,
                                        const std::vector<RankRule>& rules) {
  return RankSplitter(std::move(graph), share, rules).Run();
}

}  // namespace neap
