// The layers of a network after fusion, as text.
#pragma once

#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "neap/core/program/fuse.h"
#include "neap/layers/convolution.h"
#include "neap/layers/fully_connected.h"
#include "neap/layers/fusion/activated_group_norm.h"
#include "neap/layers/fusion/concat_batch_norms.h"
#include "neap/layers/fusion/fused_convolution.h"
#include "neap/layers/fusion/fused_relu.h"
#include "neap/layers/fusion/norm_pass.h"
#include "neap/layers/fusion/residual_convolution.h"
#include "neap/layers/fusion/residual_tail.h"
#include "neap/layers/fusion/rules.h"
#include "neap/layers/softmax_cross_entropy.h"

namespace neap::testing {

inline constexpr Convolution kConvolution = {.out_channels = 3, .kernel = 1, .bias = false};

// The parts that a fused layer has: "+add+relu".
inline std::string FusedParts(const Layer& layer) {
  if (layer.As<FusedConvolution>() != nullptr) return "convolution+relu";
  if (layer.As<ResidualConvolution>() != nullptr) return "convolution+add";
  if (const auto* const tail = layer.As<ResidualTail>()) {
    return absl::StrCat(tail->scale.has_value() ? "+scale" : "",
                        tail->drop.has_value() ? "+drop" : "", "+add");
  }
  if (const auto* const relu = layer.As<FusedRelu>()) return relu->bias ? "+bias+pool" : "+pool";
  if (const auto* const concat = layer.As<ConcatBatchNorms>()) {
    std::string parts = "+concat";
    for (const ConcatBatchNorms::Part& part : concat->parts)
      absl::StrAppend(&parts, " ", part.position, part.relu ? "+relu" : "");
    return parts;
  }
  if (const auto* const norm = layer.As<ActivatedGroupNorm>())
    return absl::StrCat("+", std::string(norm->activation_layer()->type()));
  const auto* const norm = layer.As<NormPass>();
  if (norm == nullptr) return "";
  const auto activation = []<typename Definition>(const Definition&) -> std::string {
    if constexpr (std::is_same_v<Definition, std::monostate>) {
      return "";
    } else {
      return absl::StrCat("+", std::string(Definition::kType));
    }
  };
  return absl::StrCat(norm->concatenates ? "+concat" : "", norm->addend_norm() ? "+bn" : "",
                      norm->adds() ? "+add" : "", std::visit(activation, norm->activation),
                      norm->pool() ? "+pool" : "", norm->averages() ? "+average" : "");
}

// The layers between the input and the classifier, one per line: "conv(input) bn+relu(conv)".
inline std::string FusedText(const Graph& graph, Mode mode = Mode::kTraining) {
  const ResolvedGraph fused = Fuse(Resolve(graph, mode).value(), mode, CpuRules());
  std::vector<std::string> lines;
  for (const ResolvedLayer& layer : fused.layers) {
    CHECK(fused.layers[layer.id.index()].name == layer.name);
    if (layer.role != LayerRole::kInner || layer.name == "fc") continue;
    std::vector<std::string> inputs;
    for (LayerOutput input : layer.inputs) inputs.push_back(fused.NameOf(input));
    lines.push_back(
        absl::StrCat(layer.name, FusedParts(layer.layer), "(", absl::StrJoin(inputs, ","), ")"));
  }
  return absl::StrJoin(lines, " ");
}

// A network of small images, made layer by layer.
struct FusedNet {
  Graph graph{{.name = "net", .batch = 2}};
  std::string input = graph.Input({3, 4, 4});

  std::string Add(const std::string& name, const Layer& layer, std::vector<std::string> inputs) {
    return graph.Add(name, layer, std::move(inputs));
  }
  std::string Fused(const std::string& last, Mode mode = Mode::kTraining) {
    graph.Loss(graph.Add("fc", FullyConnected{.out_features = 4}, {last}), SoftmaxCrossEntropy{});
    return FusedText(graph, mode);
  }
};

}  // namespace neap::testing
