// A layer as the graph, the planner and the kernels see it: a plain value that states what it
// computes and exactly which tensors each of its steps touches.
//
// The memory plan is only as good as these declarations: a step that claims to read a tensor that
// it does not need keeps that tensor alive for half an iteration, and a step that omits a read
// silently computes a wrong gradient. A definition therefore lists its operands per step, and every
// backend's kernel touches exactly those.
//
//   struct Relu {  // a definition is a plain struct ...
//     static constexpr std::string_view kType = "relu";
//     absl::StatusOr<LayerSpec> Specify(const LayerContext& context) const;
//     friend bool operator==(const Relu&, const Relu&) = default;
//   };
//
//   Layer layer = Relu{};  // ... held by value
//   ASSIGN_OR_RETURN(LayerSpec spec, layer.Specify({.inputs = {input_spec}}));
//   spec.steps[1].reads;  // backward: {output 0, output_grad 0}
//
// A definition with fields also implements std::string Parameters() const, which names them
// (core/step/parameter_text.h).
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <typeinfo>
#include <utility>

#include "absl/status/statusor.h"
#include "neap/core/step/layer_spec.h"

namespace neap {

// Any layer definition, held by value. Cheap to copy, immutable, and equal if the C++ types
// and the values of the definitions are. *Threads*: safe to share.
class Layer {
 public:
  template <typename Definition>
  requires(!std::is_same_v<std::remove_cvref_t<Definition>, Layer>) Layer(
      Definition definition)  // NOLINT(google-explicit-constructor): Add("relu1", Relu{}, ...)
      : model_(std::make_shared<const Model<Definition>>(std::move(definition))) {}

  // The definition's kType. Two definitions may have the same one; As() tells them apart.
  std::string_view type() const { return model_->type(); }

  // Errors: INVALID_ARGUMENT when the inputs do not suit the layer (count, rank, a window larger
  // than the image).
  absl::StatusOr<LayerSpec> Specify(const LayerContext& context) const {
    return model_->Specify(context);
  }

  // Every field of the definition by name: "out_features=10 bias=true"; empty if it has none.
  // Layers of one type are equal if these texts are.
  std::string Parameters() const { return model_->Parameters(); }

  // The definition if it is a `Definition`, otherwise null.
  template <typename Definition>
  const Definition* As() const {
    if (model_->definition_type() != typeid(Definition)) return nullptr;
    return &static_cast<const Model<Definition>&>(*model_).definition;
  }

  friend bool operator==(const Layer& a, const Layer& b) {
    return a.model_ == b.model_ || (a.model_->definition_type() == b.model_->definition_type() &&
                                    a.model_->Equals(*b.model_));
  }

 private:
  struct Concept {
    virtual ~Concept() = default;
    virtual std::string_view type() const = 0;
    virtual const std::type_info& definition_type() const = 0;
    virtual absl::StatusOr<LayerSpec> Specify(const LayerContext& context) const = 0;
    virtual std::string Parameters() const = 0;
    // `same_type` has the same definition_type().
    virtual bool Equals(const Concept& same_type) const = 0;
  };
  template <typename Definition>
  struct Model final : Concept {
    explicit Model(Definition d) : definition(std::move(d)) {}
    std::string_view type() const override { return Definition::kType; }
    const std::type_info& definition_type() const override { return typeid(Definition); }
    absl::StatusOr<LayerSpec> Specify(const LayerContext& context) const override {
      return definition.Specify(context);
    }
    std::string Parameters() const override {
      if constexpr (std::is_empty_v<Definition>) {
        return {};
      } else {
        return definition.Parameters();
      }
    }
    bool Equals(const Concept& same_type) const override {
      return definition == static_cast<const Model&>(same_type).definition;
    }
    Definition definition;
  };
  std::shared_ptr<const Concept> model_;
};

}  // namespace neap
