#include "neap/core/program/program.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "neap/core/base/units.h"

namespace neap {
namespace {

bool HasSlot(const std::vector<Slot>& slots, Slot slot) {
  return std::find(slots.begin(), slots.end(), slot) != slots.end();
}

void AddOperand(const Program& program, const Use& use, Access access, StepSignature& signature) {
  if (use.operand.slot == Slot::kAddend && !HasSlot(signature.accumulates_natively, Slot::kAddend))
    return;
  signature.operands.push_back({use.operand, program.SpecOf(use), access});
}

// The images that a layer's steps compute, of the batch of all ranks or of all batches whose
// gradients are summed. Where these come in the whole matters to random numbers only, so that
// other programs of several batches are equal.
BatchPart PartOf(const Program& program, const ProgramLayer& layer, bool is_random) {
  const RankShare& share = program.options.share;
  const Accumulation& accumulation = program.options.accumulation;
  const SubBatch& sub_batch = layer.sub_batch;
  if (accumulation.is_on()) {
    const int64_t first = is_random ? accumulation.index * program.net.batch : 0;
    return {.first = first + sub_batch.first, .of = accumulation.batches * program.net.batch};
  }
  if (share.ranks == 1 && sub_batch.count == 1) return {};
  return {.first = share.first_image + sub_batch.first,
          .of = share.ranks == 1 ? program.net.batch : share.all_images};
}

}  // namespace

const std::vector<Use>& ReadsOf(const Step& step, bool rerun) {
  return rerun && !step.rerun_reads.empty() ? step.rerun_reads : step.reads;
}

std::vector<Use> WritesOf(const Step& step, bool rerun) {
  std::vector<Use> writes = step.writes;
  if (!rerun) return writes;
  std::erase_if(writes, [&](const Use& write) {
    return std::any_of(step.rerun_reads.begin(), step.rerun_reads.end(),
                       [&](const Use& read) { return read.tensor == write.tensor; });
  });
  return writes;
}

bool KernelOverwrites(const Step& step, const Use& accumulated) {
  const Slot slot = accumulated.operand.slot;
  return (slot == Slot::kInputGrad || slot == Slot::kParamGrad) &&
         !HasSlot(step.accumulates_natively, slot);
}

bool KernelAddsAddends(const Step& step) {
  return HasSlot(step.accumulates_natively, Slot::kAddend);
}

bool IsInForward(const Step& step) {
  if (step.phase != Phase::kAllReduce) {
    return step.phase == Phase::kForward || step.phase == Phase::kAllGather ||
           step.phase == Phase::kPause;
  }
  return step.accumulates.front().operand.slot == Slot::kOutput;
}

const Port* FindPort(const std::vector<Port>& ports, std::string_view name) {
  const auto port =
      std::find_if(ports.begin(), ports.end(), [&](const Port& one) { return one.name == name; });
  return port == ports.end() ? nullptr : &*port;
}

TensorSpec Program::SpecOf(const Port& port) const {
  return WithFirstExtent(tensor(port.parts.front()).spec, net.batch);
}

const Port* Program::FeedCalled(std::string_view name) const { return FindPort(feeds, name); }

bool Program::Pauses() const {
  return std::any_of(outputs.begin(), outputs.end(),
                     [](const Port& output) { return output.gradient.has_value(); });
}

const LossPort* Program::MainLoss() const {
  const auto loss = std::find_if(losses.begin(), losses.end(),
                                 [](const LossPort& loss) { return !loss.is_auxiliary; });
  return loss == losses.end() ? nullptr : &*loss;
}

TensorSpec Program::SpecOf(const Use& use) const {
  const TensorSpec& whole = tensor(use.tensor).spec;
  if (!use.slice.has_value()) return whole;
  return {.shape = {use.slice->count}, .dtype = whole.dtype};
}

std::string_view Program::StepType(const Step& step) const {
  return TypeOf(layers[step.layer.index()].layer, step.phase, options.optimizer);
}

std::string Program::StepName(const Step& step) const {
  return absl::StrFormat("%s %s", layers[step.layer.index()].name, Name(step.phase));
}

StepSignature Program::Signature(const Step& step, bool rerun) const {
  const ProgramLayer& layer = layers[step.layer.index()];
  StepSignature signature = {.layer = layer.layer,
                             .phase = step.phase,
                             .mode = options.mode,
                             .rerun = rerun,
                             .divisible = MayDivide(layer.traits, step.phase),
                             .multiplies = layer.traits.multiplies && IsOfLayer(step.phase),
                             .optimizer = options.optimizer,
                             .accumulates_natively = step.accumulates_natively,
                             .operands = {}};
  for (const Use& use : ReadsOf(step, rerun)) AddOperand(*this, use, Access::kRead, signature);
  for (const Use& use : WritesOf(step, rerun)) AddOperand(*this, use, Access::kWrite, signature);
  // Random numbers come from the layer's seed and the iteration's scalars together.
  if (IsOfLayer(step.phase) && signature.Has({Slot::kIteration, 0}))
    signature.layer_seed = layer.seed;
  if (step.depends_on_part)
    signature.part = PartOf(*this, layer, /*is_random=*/signature.layer_seed != 0);
  if (rerun) return signature;
  for (const Use& use : step.accumulates) {
    const bool overwritten = KernelOverwrites(step, use);
    AddOperand(*this, use, overwritten ? Access::kWrite : Access::kAccumulate, signature);
  }
  return signature;
}

int64_t Program::AccumulationScratchBytes(const Step& step) const {
  int64_t bytes = 0;
  for (const Use& use : step.accumulates) {
    if (!KernelOverwrites(step, use)) continue;
    bytes += RoundUp(tensor(use.tensor).spec.size_bytes(), kScratchAlignment);
  }
  return bytes;
}

std::vector<TensorSpec> Program::Additions(const Step& step) const {
  std::vector<TensorSpec> additions;
  for (const Use& use : step.accumulates) {
    if (KernelOverwrites(step, use)) additions.push_back(tensor(use.tensor).spec);
  }
  if (KernelAddsAddends(step)) return additions;
  for (const Use& use : step.reads) {
    if (use.operand.slot == Slot::kAddend) additions.push_back(tensor(use.tensor).spec);
  }
  return additions;
}

}  // namespace neap
