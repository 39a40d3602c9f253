// The declarations of a layer: its tensors, and the operands of each of its steps.
//
// The result of a definition's Specify() (core/step/layer.h). Operands are named by the part that
// they play in the layer, so that definitions, programs and kernels of every backend refer to the
// same tensor by the same name.
//
//   LayerSpec spec = {.output = x, .steps = {{.phase = Phase::kForward}}};
//   spec.steps[0].reads = {{Slot::kInput, 0}};
//   ToString(spec.steps[0].reads[0]);  // "input[0]"
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "neap/core/base/tensor.h"
#include "neap/core/step/layer_traits.h"

namespace neap {

enum class Mode : uint8_t { kTraining, kInference };
// kBackwardActivation computes the gradient before the activation of a layer that has one after a
// linear part; kBackwardData and kBackwardParams are then those of the linear part.
//
// The phases after kBackwardParams are not steps of a layer. kUpdate is the optimizer's update of
// the parameters of a layer or several (core/step/optimizer.h). kCheckGradients looks for gradients
// that are not finite, or computes their norm, and kUpdateScale ends an iteration with a scaled
// loss (core/step/loss_scale.h).
// kAllReduce, which has no kernel, sums tensors over the ranks of data parallelism
// (core/program/reduce_gradients.h and span_ranks.h). If the optimizer is sharded over the ranks
// (core/program/shards.h), kReduceScatter sums gradients, of which each rank gets its own slice,
// and kAllGather gives all ranks the slices of parameters that each has updated. kPause, which has
// no kernel either, hands out the network's outputs and waits for gradients of them, which the
// caller gives (core/graph/caller.h). kAddGradients is the sum of two gradients, which runs as part
// of the step that computes one of them.
enum class Phase : uint8_t {
  kForward,
  kBackwardActivation,
  kBackwardData,
  kBackwardParams,
  kCheckGradients,
  kUpdate,
  kUpdateScale,
  kAllReduce,
  kReduceScatter,
  kAllGather,
  kPause,
  kAddGradients,
};
constexpr bool IsOfLayer(Phase phase) { return phase <= Phase::kBackwardParams; }
// Whether the ranks of data parallelism take the step together, on stream `collective`.
constexpr bool IsCollective(Phase phase) {
  return phase >= Phase::kAllReduce && phase <= Phase::kAllGather;
}
// Whether a kernel of the device's backend runs the step.
constexpr bool HasKernel(Phase phase) { return !IsCollective(phase) && phase != Phase::kPause; }
// Whether a step of a layer with these traits can be run in parts of the mini-batch.
constexpr bool MayDivide(const LayerTraits& traits, Phase phase) {
  return traits.divisible && IsOfLayer(phase) && phase != Phase::kBackwardActivation;
}
std::string_view Name(Phase phase);
// The phase of a program's step, which is never kAddGradients.
absl::StatusOr<Phase> ParsePhase(std::string_view text);

// The part that an operand of a step plays in its layer.
enum class Slot : uint8_t {
  kInput,      // x_i, the i-th input
  kOutput,     // y_i, the i-th output
  kInputGrad,  // dx_i
  // dy_i. Of a layer with one output, {kOutputGrad, 1} is to be added to it
  // (StepSpec::sums_output_grads).
  kOutputGrad,
  kLinearGrad,  // dz, of the value before the layer's activation; it is of the shape of y
  kAddend,      // a gradient to be added to dx_i once it is computed (by Phase::kAddGradients)
  kParam,
  kParamGrad,
  kSaved,
  kState,
  kOptimizer,     // the first moment: SGD's v, AdamW's m (core/step/optimizer.h)
  kSecondMoment,  // AdamW's v
  kAverage,       // of the parameter's values
  kMaster,        // the fp32 value of a parameter whose kernels read 16 bits
  kBackup,        // of a state, as of the last iteration that was not skipped
  kLossScale,     // struct LossScale (core/step/loss_scale.h)
  kGradientNorm,  // of all parameters, squared
  kIteration,     // the iteration's scalars: struct IterationScalars
};
struct Operand {
  Slot slot = Slot::kInput;
  int index = 0;
  friend bool operator==(const Operand&, const Operand&) = default;
};
std::string ToString(Operand operand);  // "input_grad[1]"

// A part of a batch that is run in `count` parts, one after another (core/program/sub_batches.h).
struct SubBatch {
  int64_t index = 0;  // from 0
  int64_t count = 1;
  int64_t first = 0;   // the place of its first image in the batch
  int64_t images = 0;  // in it
  friend bool operator==(const SubBatch&, const SubBatch&) = default;
};

// The images of a batch that the operands of a step hold: those of a sub-batch, of a rank of data
// parallelism, or of both.
struct BatchPart {
  int64_t first = 0;  // the place of their first image in the whole batch
  int64_t of = 0;     // images of the whole batch; 0: the operands hold all of them
  // For an operand with `images` images and `count` elements, as many for each: how many elements
  // the whole batch has, and how many of those come before it.
  constexpr int64_t WholeCount(int64_t count, int64_t images) const {
    return of == 0 ? count : count / images * of;
  }
  constexpr int64_t CountBefore(int64_t count, int64_t images) const {
    return count / images * first;
  }
  friend bool operator==(const BatchPart&, const BatchPart&) = default;
};

// Per-iteration values that kernels read from device memory, so that an iteration can be recorded
// once and replayed.
struct IterationScalars {
  float learning_rate = 0;
  uint32_t step = 0;  // counts training steps from 0
  uint64_t seed = 0;  // of the session; dropout masks depend only on (seed, layer, step, element)
};
inline constexpr int64_t kIterationScalarsBytes = 16;
static_assert(sizeof(IterationScalars) == kIterationScalarsBytes);

// How a tensor is filled before the first step.
struct Init {
  // kFirst: only the first element is not 0. kBilinear is for transposed convolutions: each channel
  // is interpolated independently.
  enum class Kind : uint8_t { kConstant, kFirst, kNormal, kUniform, kBilinear };
  Kind kind = Kind::kConstant;
  float scale = 0;  // the constant, the standard deviation, or the half-width around 0
  friend bool operator==(const Init&, const Init&) = default;
};

// How files of weights have a parameter, if not as its layer says (Graph::StoreAs()).
struct FileForm {
  std::string name = {};  // used everywhere in the place of LAYER.weight, unless empty
  Shape shape = {};       // in files; rank 0: as without this
  // Files have the transpose of the matrix that its extents other than 1 make: {in, out} for a
  // weight {out, in, 1}. `shape` is that of the transpose.
  bool transposed = false;
  friend bool operator==(const FileForm&, const FileForm&) = default;
};

struct ParamSpec {
  std::string name;  // "weight": the tensor is called LAYER.weight, here and in safetensors files
  TensorSpec tensor;
  Init init;
  Shape saved_shape = {};  // shape in safetensors files, if it differs (fully connected: 2-d)
  int owner = 0;           // which of the layers that were fused has it (ResolvedLayer::owners)
  FileForm in_files = {};
};
struct StateSpec {
  std::string name;
  TensorSpec tensor;
  Init init;
  bool in_checkpoint = true;
  bool accumulates = false;  // forward changes it depending on its value: a running statistic
  int owner = 0;             // as ParamSpec::owner
};
struct SavedSpec {
  std::string name;
  TensorSpec tensor;
};

// One step and all operands that it touches.
struct StepSpec {
  Phase phase = Phase::kForward;
  std::vector<Operand> reads;
  std::vector<Operand> writes;
  std::vector<Operand> accumulates = {};  // read, added to, written
  // Gradients of inputs in `writes` that the step leaves out if no layer needs them: its signature
  // lacks them then. Others that nobody needs are written nevertheless, if the step has more.
  std::vector<Operand> optional_writes = {};
  // Forward only: the operands that a recomputation reads; empty if these are `reads`. It writes
  // the rest of `writes`, and does not accumulate.
  std::vector<Operand> rerun_reads = {};
  // {written, read} pairs that may share bytes: the kernel reads no element after it has written
  // the result of that element.
  std::vector<std::pair<Operand, Operand>> in_place = {};
  // The slots that the kernels of every backend can accumulate into: those of `accumulates`, and
  // kInputGrad if an input gradient may already hold a sum. Otherwise the kernel writes such a
  // gradient to scratch space, which is then added to the sum (Phase::kAddGradients). And kAddend,
  // if kernels add addend[i], if the signature has it, to dx_i, which is rounded first as if it
  // were stored; otherwise Phase::kAddGradients does that, too.
  std::vector<Slot> accumulates_natively = {};
  // Backward only: the gradient of the output may come as two tensors, operands {kOutputGrad, 0}
  // and {kOutputGrad, 1}. Kernels add them where they read them, and round the sum as if it were
  // stored. Otherwise the last step that contributes to a gradient adds to it.
  bool sums_output_grads = false;
  // The kernel depends on StepSignature::part: it draws random numbers by an image's place in
  // the batch, or computes a mean over the batch.
  bool depends_on_part = false;
  // Operands in `writes` that the ranks of data parallelism sum before another step reads them
  // (Phase::kAllReduce): the output of a forward step, or an input's gradient of a backward step.
  std::vector<Operand> summed = {};
  // The states that the step computes follow from such sums, so they are equal on all ranks.
  // Otherwise each rank has its own, and the ranks average them.
  bool states_of_all_ranks = false;
  double flops = 0;  // a multiply-add counts as two
};

// What a loss is the mean over. Labels and targets may be missing (core/program/feeds.h), and
// evaluation of fewer examples than the batch fills it up with such.
enum class LossMean : uint8_t {
  kLabels,  // all labels or elements of the batch, of which those that are missing add 0
  kImages,  // all images, of which those without any label add 0
  kKnown,   // what is known: missing labels change nothing
};

struct LayerSpec {
  TensorSpec output;  // output 0; most layers have no other
  // Outputs 1, 2 and so on, through which training goes, as through output 0. If training needs the
  // gradient of some output of the layer, backward gets those of all outputs on which a loss
  // depends: a step's signature lacks the others, which kernels take for 0. Only a layer with one
  // output may have a phase kBackwardActivation, pass gradients on, or let its output gradients be
  // summed.
  std::vector<TensorSpec> further_outputs = {};
  std::vector<ParamSpec> params = {};
  std::vector<StateSpec> states = {};
  std::vector<SavedSpec> saved = {};
  std::vector<StepSpec> steps;  // forward, then the backward steps in the order in which they run
  // The gradient of every input is the gradient of the output, unchanged: no backward step runs,
  // and both names mean the same tensor. (If that is impossible because an input has several
  // readers whose gradients must be summed, backward_data runs.)
  bool passes_gradient = false;
  // The gradient of this input is dz, unchanged, or without a backward_activation that of the
  // output: both names mean the same tensor. No later layer may read the input, because its
  // gradient would be a sum already when dz is known: fusion (core/program/fuse.h) makes no such
  // layers there, and programs with them are refused.
  std::optional<int> passes_linear_grad = std::nullopt;
  // The weight of a loss: training minimises the sum of all losses, each times its weight. The
  // layer multiplies its gradient by it, but not the loss that it reports.
  float loss_weight = 1;
  LossMean loss_mean = LossMean::kLabels;
  // The integers of its int32 inputs number so many things from 0: rows of a table, or the classes
  // of a loss, by default the channels of its input 0. Feeds with others are refused
  // (core/program/feeds.h); labels may be kNoLabel, too.
  std::optional<int64_t> index_count = std::nullopt;
  // In training: the number of values of which the layer computes each of its variances, if any.
  // One value has no variance, so Lower() (core/program/passes.h) refuses to train such a layer.
  std::optional<int64_t> values_per_variance = std::nullopt;
  LayerTraits traits = {};

  int output_count() const { return 1 + static_cast<int>(further_outputs.size()); }
  const TensorSpec& OutputSpec(int index) const {
    return index == 0 ? output : further_outputs[static_cast<size_t>(index) - 1];
  }
};

struct LayerContext {
  std::vector<TensorSpec> inputs;
  Mode mode = Mode::kTraining;
  // Those of the network (GraphOptions), for the results of layers that read integers.
  DType dtype = DType::kFp32;
  Layout layout = Layout::kChannelsFirst;
  // The gradients are multiples of the loss's: a loss multiplies the gradient that it computes by
  // the scale, which it reads as operand kLossScale (core/step/loss_scale.h). Other layers need not
  // know.
  bool scales_loss = false;
};

}  // namespace neap
