// The steps of one training (or inference) iteration in execution order, each with exactly the
// tensors it touches.
//
// This is where the backward pass is constructed. The difficulty lies where gradients meet:
// * A tensor that several layers read gets a gradient from each: the first one writes it, and the
//   others accumulate.
// * A sum (Add) passes its gradient on unchanged, so the gradients of its inputs are that same
//   tensor, without a copy. If such a shared gradient must receive another contribution, the step
//   that contributes writes a new tensor ("addend": dx = f(dy) + shared), because the shared one is
//   still read elsewhere.
// Parameters are updated as soon as their layer's backward is done, which frees their gradients
// early; with a scaled loss (fp16, core/step/loss_scale.h) or clipped gradients, when all gradients
// have been checked.
// An iteration pauses once, between forward and backward, if the caller gives gradients of outputs
// (core/graph/caller.h).
// One step may update several layers (core/program/update_groups.h), when backward of the last one
// is done. It bears the name of that layer.
//
// A parameter whose kernels read 16 bits has an fp32 master (Role::kMaster). The master has the
// parameter's name, since it is what checkpoints store; the copy for the kernels is called
// "conv1.weight.bf16".
//
// The batch may be run in sub-batches, one after another (core/program/sub_batches.h): every layer
// has steps and tensors of its own for each of them, called "conv1[2/4]" for the second of four.
// The parameters and their gradients are the same, and updated once.
//
// The program that is planned and run comes from Lower() (core/program/passes.h), which begins with
// BuildProgram().
//
//   ASSIGN_OR_RETURN(Program program, BuildProgram(graph, {.mode = Mode::kTraining}));
//   for (const Step& step : program.steps)
//     std::cout << program.StepName(step) << " reads " << step.reads.size() << " tensors\n";
//
// Persistent tensors (parameters, states, optimizer) come first and are the same, with the same
// ids, for training and inference, so the plans of both programs put them in the same place.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "neap/core/base/home.h"
#include "neap/core/base/ids.h"
#include "neap/core/base/tensor.h"
#include "neap/core/base/units.h"
#include "neap/core/graph/graph.h"
#include "neap/core/step/kernel.h"
#include "neap/core/step/layer.h"
#include "neap/core/step/optimizer.h"

namespace neap {

struct Tensor {
  TensorId id;
  std::string name;  // "conv1", "conv1.grad", "conv1.weight", "conv1.weight.grad", "bn1.mean"
  Role role = Role::kActivation;
  TensorSpec spec;
  Init init = {};              // persistent roles only
  Shape saved_shape = {};      // the shape in checkpoints, if it differs
  bool is_transposed = false;  // there, as FileForm::transposed
  bool in_checkpoint = true;   // persistent roles only
  Home home = Home::kArena;    // persistent roles only
  // The persistent tensor whose values, rounded to its own type, this one has at the beginning and
  // at the end of an iteration: the master of a 16-bit parameter, the state of a backup.
  std::optional<TensorId> copy_of = std::nullopt;
  // The persistent tensor whose values this one has before the first step only: the parameter of an
  // average.
  std::optional<TensorId> starts_as = std::nullopt;
  // If the optimizer is sharded over the ranks (core/program/shards.h): of a parameter and its
  // gradient, the elements that each rank updates, by rank; of a master or a moment, the elements
  // of the parameter's that it holds, as a vector.
  std::vector<Slice> shards = {};
  std::optional<Slice> held = std::nullopt;
  friend bool operator==(const Tensor&, const Tensor&) = default;
};

struct Use {
  TensorId tensor;
  Operand operand;
  std::optional<Slice> slice = std::nullopt;  // the elements that are used; nullopt: all
  friend bool operator==(const Use&, const Use&) = default;
};

struct Step {
  StepId id;
  LayerId layer;
  Phase phase = Phase::kForward;
  std::vector<Use> reads = {};
  std::vector<Use> writes = {};
  std::vector<Use> accumulates = {};
  std::vector<Use> rerun_reads = {};  // what a recomputation reads; empty: the same as `reads`
  std::vector<std::pair<TensorId, TensorId>> in_place = {};  // {written, read} that may share bytes
  std::vector<Slot> accumulates_natively = {};               // StepSpec::accumulates_natively
  bool depends_on_part = false;                              // StepSpec::depends_on_part
  std::vector<Operand> summed = {};                          // StepSpec::summed
  bool states_of_all_ranks = false;                          // StepSpec::states_of_all_ranks
  double flops = 0;
  // Whether a rerun is another kernel, with times of its own. One that reads the same is the same.
  bool has_rerun_kernel() const { return !rerun_reads.empty(); }
  friend bool operator==(const Step&, const Step&) = default;
};

// What a run of the step reads and what it defines, without the operands that it accumulates into.
// If the step has rerun_reads, a rerun reads those, and does not write the saved tensors among them
// again. A rerun accumulates into nothing.
const std::vector<Use>& ReadsOf(const Step& step, bool rerun);
std::vector<Use> WritesOf(const Step& step, bool rerun);

// Whether the kernel overwrites an operand of `accumulates`, a gradient that it cannot accumulate
// into. It then writes to scratch space, which is added to the sum (Phase::kAddGradients).
bool KernelOverwrites(const Step& step, const Use& accumulated);
// Whether the kernel adds the addends of the gradients that it writes (Slot::kAddend).
bool KernelAddsAddends(const Step& step);

// Whether it is a step of forward: of a layer, the sum over the ranks of what one writes, or what
// gathers the parameters that some read.
bool IsInForward(const Step& step);

inline constexpr int64_t kScratchAlignment = 256;

// A layer as one sub-batch goes through it, or as it is updated.
struct ProgramLayer {
  std::string name;
  Layer layer;
  uint64_t seed = 0;  // for its random numbers: a hash of its name in the graph
  LayerTraits traits = {};
  SubBatch sub_batch = {};
  friend bool operator==(const ProgramLayer&, const ProgramLayer&) = default;
};

// The part of a batch that one rank of data parallelism trains (core/program/reduce_gradients.h).
// The network's batch is that of the rank.
struct RankShare {
  int rank = 0;
  int ranks = 1;
  // Several ranks only: the place of the rank's first image in the batch of all ranks, and the
  // number of that batch's images.
  int64_t first_image = 0;
  int64_t all_images = 0;
  friend bool operator==(const RankShare&, const RankShare&) = default;
};

// Which part of the optimizer's tensors a program has: that of one of several ranks, or all.
struct OptimizerShard {
  int rank = 0;
  int ranks = 1;
  friend bool operator==(const OptimizerShard&, const OptimizerShard&) = default;
};

// Gradients of several batches are summed before an update. Each batch has an iteration of its own,
// and so has the update; the sums are persistent tensors.
struct Accumulation {
  int64_t batches = 1;  // 1: every iteration updates the parameters
  int64_t index = 0;    // of the iteration: that of a batch, or `batches` for the update
  bool is_on() const { return batches > 1; }
  bool is_update() const { return is_on() && index == batches; }
  friend bool operator==(const Accumulation&, const Accumulation&) = default;
};

enum class Accounting : uint8_t {
  kExact,  // the reads that kernels really need
  kPaper,  // SuperNeurons' accounting (core/program/paper_program.h), to reproduce published
           // figures; cannot be run
};

// The bucket size of torch.nn.parallel.DistributedDataParallel.
inline constexpr int64_t kBucketBytes = 25 * kMiB;

struct ProgramOptions {
  Mode mode = Mode::kTraining;
  Optimizer optimizer = {};
  // Whether the persistent tensors are those of training. Without, there are neither moments nor
  // fp32 masters of 16-bit parameters, which then are the parameters; only for Mode::kInference.
  bool trainable = true;
  Accounting accounting = Accounting::kExact;
  // Parameters and optimizer state of 64 KiB or more have the host as their home, unless `homes`
  // names them (moDNN 5.1.1). If any tensor has, no step updates the parameters of several layers:
  // they would all be fetched for it, at the same time. Exact accounting only.
  bool offload_params = false;
  // The homes of single persistent tensors (core/program/homes.h). Exact accounting only; none but
  // the arena with a sharded optimizer, nor the host for a state if the iteration pauses.
  Homes homes = {};
  // The number of parts of the batch that are run one after another, before one update. They take
  // the memory of a part, and time where kernels are slower for a smaller batch. Those of a program
  // may be fewer than were asked for (DivideBatch() in core/program/sub_batches.h). Exact
  // accounting only.
  int64_t sub_batches = 1;
  // In training, layers that couple the images of a batch by statistics alone, as batch norms do,
  // take those of each part (LayerTraits::coupled_by_statistics). Of a program: whether one does.
  // Excludes sync_batch_norm.
  bool batch_norm_in_parts = false;
  // Training of one rank in exact accounting only. The loss and the gradients are means over all
  // batches, as if they were the sub-batches of one; dropout has the masks of that; and each batch
  // has batch norm's statistics of its own.
  Accumulation accumulation = {};
  // UpdateGroupRules::bytes. Lower() chooses it, for the device. Exact accounting only.
  int64_t update_group_bytes = 0;
  // Several ranks need exact accounting. Losses and gradients are then means over all ranks.
  RankShare share = {};
  // FusionOptions::batch. Lower() chooses it for the program of a rank. Programs that share its
  // persistent tensors need the same.
  int64_t fusion_batch = 0;
  // With several ranks, batch norms in training have the statistics of the images of all of them
  // (core/program/span_ranks.h). Lower() sees to it; BuildProgram() takes the layers as they are.
  bool sync_batch_norm = false;
  // The ranks over which masters and momenta are sharded (core/program/shards.h). In training,
  // these are the ranks of `share`. A scaled loss and offload_params exclude it.
  OptimizerShard shard = {};
  // With several ranks: a bucket of tensors to sum is complete when it has as many bytes, or when
  // so few are left for the last one; updates wait until so many later buckets have begun; 0: until
  // the end of backward.
  int64_t bucket_bytes = kBucketBytes;
  int64_t last_bucket_bytes = 0;
  int buckets_in_flight = 0;
  friend bool operator==(const ProgramOptions&, const ProgramOptions&) = default;
};

// A feed, whose values the caller gives before an iteration, or an output, whose values it may read
// when the iteration has ended, or has paused.
struct Port {
  std::string name;             // of the layer
  std::vector<TensorId> parts;  // one for each sub-batch, in the order of their images
  // Of a feed of integers that layers other than losses read: the fewest things that one of them
  // numbers (LayerSpec::index_count).
  std::optional<int64_t> index_count = std::nullopt;
  // In training: that of an output which the caller gives (Graph::OutputWithGradient()).
  std::optional<TensorId> gradient = std::nullopt;
  friend bool operator==(const Port&, const Port&) = default;
};

// That of this name; null if there is none.
const Port* FindPort(const std::vector<Port>& ports, std::string_view name);

// A loss that the iteration computes.
struct LossPort {
  std::string name;           // of the layer
  float weight = 1;           // LayerSpec::loss_weight
  bool is_auxiliary = false;  // computed in training alone
  LossMean mean = LossMean::kLabels;
  TensorId metrics;          // fp32 {mean loss, number of correct predictions}
  std::string target;        // the feed with which it compares predictions; empty if it reads none
  int64_t classes = 0;       // that labels number
  Port logits, predictions;  // what it reads, and what it makes of them
  friend bool operator==(const LossPort&, const LossPort&) = default;
};

struct Program {
  GraphOptions net;
  ProgramOptions options;
  std::vector<ProgramLayer> layers;
  std::vector<Tensor> tensors;
  std::vector<SharedParam> shared;  // the other names of parameters
  std::vector<Step> steps;
  // Input and output of an iteration; exact accounting only. The bytes of results
  // (core/program/results.h) are still valid when an iteration has ended (MatchesProgram() checks
  // it).
  std::vector<Port> feeds, outputs;
  std::vector<LossPort> losses;  // in the order in which they run
  TensorId iteration;
  std::optional<TensorId> loss_scale = std::nullopt;  // struct LossScale, if the loss is scaled

  const Tensor& tensor(TensorId id) const { return tensors[id.index()]; }
  // All parts of the port together.
  TensorSpec SpecOf(const Port& port) const;
  // Null if there is none of that name.
  const Port* FeedCalled(std::string_view name) const;
  // Whether the iteration has a step that pauses, because the caller gives gradients of outputs.
  bool Pauses() const;
  // Whether losses compare predictions with the feed, and nothing else reads it.
  bool IsTarget(const Port& feed) const { return tensor(feed.parts.front()).role == Role::kLabel; }
  // The loss that is not auxiliary, the first if there are several; null if there is none.
  const LossPort* MainLoss() const;
  // The tensor whose values this one has, or begins with: that of Tensor::copy_of or starts_as, or
  // itself.
  const Tensor& Original(const Tensor& copy) const {
    const std::optional<TensorId> original =
        copy.copy_of.has_value() ? copy.copy_of : copy.starts_as;
    return original.has_value() ? tensor(*original) : copy;
  }
  // What the step uses of the tensor: all, or the slice as a vector.
  TensorSpec SpecOf(const Use& use) const;
  // The slice of a parameter, or of its gradient, that this rank updates.
  const Slice& OwnShard(const Tensor& tensor) const {
    return tensor.shards[static_cast<size_t>(options.shard.rank)];
  }
  std::string StepName(const Step& step) const;  // "conv1 backward_data", "conv1[2/4] forward"
  // TypeOf() its layer and phase.
  std::string_view StepType(const Step& step) const;

  // What a kernel for the step is made from. Addends are left out (a separate kernel adds them),
  // and gradients that the kernel cannot accumulate into appear as plain writes.
  StepSignature Signature(const Step& step, bool rerun = false) const;
  // Scratch bytes, in addition to the engine's workspace, for gradients that the kernel overwrites
  // but the step accumulates. They lie one after another at the beginning of the step's workspace,
  // each rounded up to kScratchAlignment.
  int64_t AccumulationScratchBytes(const Step& step) const;
  // The gradients that are added to sums when the step runs, each by a kernel of
  // AdditionSignature() besides the step's own: those that its kernel overwrites but the step
  // accumulates, and its addends.
  std::vector<TensorSpec> Additions(const Step& step) const;

  friend bool operator==(const Program&, const Program&) = default;
};

// Every layer of the graph has steps of its own. Errors: those of Resolve(), CheckOptimizer(),
// CheckRanks(), CheckHomes(), CheckSums() and InSubBatches(); INVALID_ARGUMENT for training that is
// not trainable, for a layer that reads what LayerSpec::passes_linear_grad forbids, or for options
// that the paper's accounting does not know (sub-batches, ranks, homes, sums over batches);
// UNIMPLEMENTED for such networks (gradients that are given, layers with several outputs).
absl::StatusOr<Program> BuildProgram(const Graph& graph, const ProgramOptions& options);
// The same for the result of Resolve() with the mode of `options`, or of Fuse().
absl::StatusOr<Program> BuildProgram(ResolvedGraph graph, const ProgramOptions& options);

// The program of a part of the network of `whole`, with the options of `whole`. It has *all*
// persistent tensors of `whole`, with the same ids, even those of layers that the graph leaves out.
// Plans of both therefore put them in the same place, and an iteration of one can follow an
// iteration of the other. The sizes of its inputs may be others, and so may the batch, unless there
// are several ranks. `whole` has exact accounting.
// Errors: INVALID_ARGUMENT, naming the tensor, for one that `whole` lacks or has with other
// properties, or for a feed of another type or rank.
absl::StatusOr<Program> BuildPart(ResolvedGraph graph, const Program& whole);

}  // namespace neap
