// Rules that rewrite a network for a device before it is planned: which neighbouring layers one
// layer computes in one pass over memory, and which layers have a form that spans several ranks.
//
// Whether one layer is better than two depends on the kernels that a device has. Each device
// therefore has a table of rules (DeviceDescription::rules), which Lower()
// (core/program/passes.h) applies; those of neap's own layers are in layers/fusion/rules.h. A
// program with layers of its own adds rows when it opens the device, or to a description:
//
//   std::optional<Layer> ScaleGelu(const Scale& scale, const Gelu& gelu, int input);
//
//   const RewriteRules rules = {.fusions = {FusionOf<&ScaleGelu>()}};
//   ASSIGN_OR_RETURN(auto device, CpuDevice::Open({.kernels = Kernels(), .rules = rules}));
//   h200.rules.fusions.push_back(FusionOf<&ScaleGelu>());
//
// Rules are plain function pointers and types' names, so tables can be copied and compared.
// *Threads*: rules have no state; several threads may apply them.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "neap/core/step/layer.h"

namespace neap {

// When fusion (core/program/fuse.h) applies a rule: all rules of a stage before those of the next.
enum class FusionStage : uint8_t {
  kFold,      // only in networks of the types of DeviceDescription::folding_types
  kPass,      // layers that take the time of reading and writing their operands
  kEpilogue,  // layers whose kernels compute what follows them at no cost
};

// Two layers that one layer replaces, where `reader` alone reads the output of `producer`.
struct FusionRule {
  std::string_view producer, reader;  // the definitions' kType
  FusionStage stage = FusionStage::kPass;
  // A layer that computes the output of `reader`, whose input `input` is the output of `producer`,
  // from the inputs of `producer` and the other inputs of `reader`, in this order; nullopt if there
  // is none. It computes the same bits, unless its header says where they differ. It keeps the
  // parameters and states of `producer`, then those of `reader`, which it declares with the owners
  // 0 and 1, or 0 if only one of the two has any.
  std::optional<Layer> (*fuse)(const Layer& producer, const Layer& reader, int input) = nullptr;
  // Whether the layer is faster than the two for these inputs. Null: always.
  bool (*gains)(const Layer& fused, const LayerContext& context) = nullptr;
  friend bool operator==(const FusionRule&, const FusionRule&) = default;
};

// Two layers that stay two, but the first does less and the second more. Applied at
// FusionStage::kEpilogue, after the fusions of `reader`.
struct MoveRule {
  std::string_view producer, reader;
  // Layers that together compute what the two do, with the same bits unless the second one's header
  // says where they differ; nullopt if there are none. Neither of the two has states. Together they
  // have the parameters of `producer` and of `reader`: the second declares those of `producer` with
  // the owner 0 and those of `reader` with the owner 1.
  std::optional<std::pair<Layer, Layer>> (*move)(const Layer& producer,
                                                 const Layer& reader) = nullptr;
  friend bool operator==(const MoveRule&, const MoveRule&) = default;
};

// A layer that depends on all images of the batch, in data parallelism (core/program/span_ranks.h).
struct RankRule {
  std::string_view layer;
  // Two layers that compute for the images of all ranks what `layer` computes for those of one;
  // nullopt if there are none. The first reads the inputs of `layer`, and the ranks sum what it
  // writes. The second reads the inputs and, as the last one, that sum, and has the parameters and
  // states of `layer`.
  std::optional<std::pair<Layer, Layer>> (*split)(const Layer& layer, int rank,
                                                  int ranks) = nullptr;
  friend bool operator==(const RankRule&, const RankRule&) = default;
};

struct RewriteRules {
  std::vector<FusionRule> fusions;  // of those of a stage, the first that makes a layer is applied
  std::vector<MoveRule> moves;
  std::vector<RankRule> ranks;
  // Adds rows, behind those that there are.
  void Append(const RewriteRules& rows);
  friend bool operator==(const RewriteRules&, const RewriteRules&) = default;
};

// Rows from functions of definitions:
//   std::optional<Layer> F(const Producer&, const Reader&, int input)             FusionOf<&F>()
//   std::optional<std::pair<Layer, Layer>> F(const Producer&, const Reader&)      MoveOf<&F>()
//   std::optional<std::pair<Layer, Layer>> F(const Definition&, int rank, int ranks)  RankOf<&F>()
namespace internal {

template <auto kFunction>
struct FusionFunction;
template <typename Producer, typename Reader,
          std::optional<Layer> (*kFunction)(const Producer&, const Reader&, int)>
struct FusionFunction<kFunction> {
  static constexpr std::string_view kProducer = Producer::kType, kReader = Reader::kType;
  static std::optional<Layer> Call(const Layer& producer, const Layer& reader, int input) {
    const Producer* const first = producer.As<Producer>();
    const Reader* const second = reader.As<Reader>();
    if (first == nullptr || second == nullptr) return std::nullopt;
    return kFunction(*first, *second, input);
  }
};

template <auto kFunction>
struct MoveFunction;
template <typename Producer, typename Reader,
          std::optional<std::pair<Layer, Layer>> (*kFunction)(const Producer&, const Reader&)>
struct MoveFunction<kFunction> {
  static constexpr std::string_view kProducer = Producer::kType, kReader = Reader::kType;
  static std::optional<std::pair<Layer, Layer>> Call(const Layer& producer, const Layer& reader) {
    const Producer* const first = producer.As<Producer>();
    const Reader* const second = reader.As<Reader>();
    if (first == nullptr || second == nullptr) return std::nullopt;
    return kFunction(*first, *second);
  }
};

template <auto kFunction>
struct RankFunction;
template <typename Definition,
          std::optional<std::pair<Layer, Layer>> (*kFunction)(const Definition&, int, int)>
struct RankFunction<kFunction> {
  static constexpr std::string_view kType = Definition::kType;
  static std::optional<std::pair<Layer, Layer>> Call(const Layer& layer, int rank, int ranks) {
    const Definition* const definition = layer.As<Definition>();
    if (definition == nullptr) return std::nullopt;
    return kFunction(*definition, rank, ranks);
  }
};

}  // namespace internal

template <auto kFunction>
constexpr FusionRule FusionOf(FusionStage stage = FusionStage::kPass,
                              bool (*gains)(const Layer&, const LayerContext&) = nullptr) {
  using Function = internal::FusionFunction<kFunction>;
  return {Function::kProducer, Function::kReader, stage, &Function::Call, gains};
}
template <auto kFunction>
constexpr MoveRule MoveOf() {
  using Function = internal::MoveFunction<kFunction>;
  return {Function::kProducer, Function::kReader, &Function::Call};
}
template <auto kFunction>
constexpr RankRule RankOf() {
  using Function = internal::RankFunction<kFunction>;
  return {Function::kType, &Function::Call};
}

}  // namespace neap
