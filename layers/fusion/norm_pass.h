// Batch normalisation together with its neighbours, in as many passes over memory as batch
// normalisation alone takes:
//
//   y = sink(activation(batch_norm(x_0) [+ x_1 | + batch_norm(x_1)]))
//   y = activation(batch_norm(concat(x_0, x_1, ...)))
//
// Networks do not contain it. The fusion pass (core/program/fuse.h) makes it of BatchNorms, an Add
// of two tensors, a Concat, an activation, and a MaxPool or a GlobalAveragePool. It computes the
// same bits as these layers one after another. There are kernels for
//
//   activation               addend              concatenates  sink
//   none, Relu               none, raw, normed   no            store, GlobalAveragePool
//   Relu                     none                no            MaxPool, if CanPoolRelu()
//   none, Relu               none                yes           store
//   Clip, HardSwish, Silu    none                no            store
//
// and Specify() refuses the rest.
//
//   step                 reads                                         writes
//   forward (training)   x_0, x_1, gamma, beta                         y, mean, invstd, mask, index
//     rerun              x_0, x_1, gamma, beta, mean, invstd           y, mask, index
//   forward (inference)  x_0, x_1, gamma, beta, running statistics     y
//   backward_data        x_0, x_1, dy, gamma, mean, invstd, beta,      dx_0, dx_1, dgamma, dbeta
//                        mask, index
//
// x_1 and dx_1 exist if it adds; backward reads x_1 only if that is normalised. With an activation,
// backward needs what the activation got, or where a ReLU's y is 0. After a sum it reads the mask,
// a byte for 16 bytes of y: bit k of byte i belongs to element i * MaskElements() + k in memory
// order, and is 1 where y is not 0. With max pooling it reads the index (layers/pooling.h), which
// has kNotPositive there. Otherwise it normalises x_0 again, for which it reads beta. y is never
// read.
//
// If it averages, y and dy are {N, C, 1, 1}, and the mask is that of the values that it averages.
// Neither these nor their gradient are stored.
//
// Behind a sum with an x_1 that is not normalised, unless it averages, backward_data reads dy as
// two tensors if two steps contribute to it (StepSpec::sums_output_grads): a residual block's
// gradient is not added in a pass of its own.
//
// Without pooling, y may overwrite x_0 or x_1, and dy may be overwritten by dx_0, or with a sum by
// dx_1. With a sum or averages, dx_0 may overwrite x_0. As backward reads what is normalised, y
// overwrites that only where it is computed again, or in inference.
//
// If it concatenates, every x_0 above is x_0 .. x_{n-1}, the parts of a concatenation along the
// channels that no memory holds, and every dx_0 is dx_0 .. dx_{n-1}. Then nothing overwrites
// anything, and backward_data accumulates natively: it adds to a dx_i that already holds a partial
// sum.
//
// Parameters, states and saved tensors are those of the first BatchNorm, then those of the second,
// then mask or index.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "neap/core/step/layer.h"
#include "neap/core/step/step_signature.h"
#include "neap/layers/activation.h"
#include "neap/layers/batch_norm.h"
#include "neap/layers/pooling.h"

namespace neap {

struct NormPass {
  static constexpr std::string_view kType = "norm_pass";
  static constexpr size_t kMaxParts = 96;  // of a concatenation; DenseNet-264 has one of 65
  struct Raw {                             // an addend that is not normalised
    friend bool operator==(const Raw&, const Raw&) = default;
  };
  // std::monostate stands for no addend, no activation, and a result that is stored as it is.
  using Addend = std::variant<std::monostate, Raw, BatchNorm>;
  using Activation = std::variant<std::monostate, Relu, Clip, HardSwish, Silu>;
  using Sink = std::variant<std::monostate, MaxPool, GlobalAveragePool>;
  BatchNorm norm = {};
  Addend addend = {};          // of the normalised input 0: input 1, perhaps normalised
  Activation activation = {};  // of the sum
  Sink sink = {};              // of the activation's result
  bool concatenates = false;   // x is inputs 0 .. n-1, concatenated along the channels

  // Errors: INVALID_ARGUMENT also for a combination without kernels.
  absl::StatusOr<LayerSpec> Specify(const LayerContext& context) const;
  std::string Parameters() const;
  bool HasKernels() const;  // whether the table above has the combination
  bool adds() const { return addend.index() != 0; }
  const BatchNorm* addend_norm() const { return std::get_if<BatchNorm>(&addend); }
  bool relu() const { return std::holds_alternative<Relu>(activation); }
  const MaxPool* pool() const { return std::get_if<MaxPool>(&sink); }
  bool averages() const { return std::holds_alternative<GlobalAveragePool>(sink); }
  bool has_mask() const { return adds() && relu(); }
  // The saved operand that is the mask or the index.
  Operand MaskOrIndex() const;
  friend bool operator==(const NormPass&, const NormPass&) = default;
};

// The number of elements of which a byte of the mask has the bits: those of 16 bytes.
int64_t MaskElements(DType dtype);
// The mask of a ReLU's result `y`, stored or not.
TensorSpec MaskSpec(const TensorSpec& y);

// A BatchNorm as the NormPass that nothing follows; a NormPass as it is. Their kernels are the
// same. The layer must be one of the two.
NormPass NormPassOf(const Layer& layer);

// For a step of such a layer: the tensor that the first batch norm normalises, which no memory
// holds if it is a concatenation.
const TensorSpec& NormalisedSpec(const StepSignature& signature);

}  // namespace neap
