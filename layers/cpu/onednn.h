// Common parts of the oneDNN kernels: memory descriptors of neap's tensors, and a Kernel that wraps
// a primitive.
//
// Descriptors are plain strides, never oneDNN's blocked formats: the plan accounts for every byte
// of a tensor, and a blocked weight would be a second copy outside the plan. Primitives are made
// with scratchpad_mode::user, so their scratch memory is the workspace that the plan gives them,
// and they allocate nothing.
//
// Tensors are fp32 or bf16. A primitive on bf16 images and weights has fp32 biases, gradients of
// parameters, and sums.
#pragma once

#include <algorithm>
#include <dnnl.hpp>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "neap/core/step/window.h"
#include "neap/layers/cpu/candidates.h"

namespace neap::cpu {

// {N, C, H, W} or {N, C, D, H, W} (of a weight {O, I, ...}) with the strides of its layout.
dnnl::memory::desc ImageDesc(const TensorSpec& spec);
// {G, O/G, I/G, [D,] H, W}: the same memory, for grouped convolutions.
dnnl::memory::desc GroupedWeightDesc(const TensorSpec& spec, int64_t groups);
// {N, C}, for a tensor of shape {N, C, 1, 1}.
dnnl::memory::desc MatrixDesc(const TensorSpec& spec);
// All elements in memory order.
dnnl::memory::desc FlatDesc(const TensorSpec& spec);

// A number for each axis that a window slides along.
dnnl::memory::dims DimsOf(const Extents& extents);

// Objects that a primitive_desc points to without owning them (oneDNN 2). They must outlive the
// descriptor and its kernels.
struct Origin {
  dnnl::engine engine = {dnnl::engine::kind::cpu, 0};
  dnnl::primitive_desc_base forward = {};  // the hint of a backward descriptor
};
dnnl::primitive_attr UserScratchpad();

// An argument of a primitive: DNNL_ARG_x, its descriptor, and the step's operand.
struct Binding {
  int argument;
  dnnl::memory::desc desc;
  Operand operand;
};

// Whether oneDNN's kernels use these instructions.
bool HasInstructions(dnnl::cpu_isa isa);
// Whether the CPU multiplies bf16 numbers (AVX-512 BF16).
bool HasBf16();

absl::Status OnednnError(const dnnl::error& error, std::string_view what,
                         const StepSignature& signature);

// The candidate `id`; its primitive is created when the candidate is chosen.
Candidate PrimitiveCandidate(const StepSignature& signature, std::string id, const Origin& origin,
                             const dnnl::primitive_desc_base& desc, std::vector<Binding> bindings);

// Whether `desc` needs copies of operands in another format.
bool Converts(const dnnl::primitive_desc_base& desc, const std::vector<Binding>& bindings);

// Whether an implementation multiplies with AMX. oneDNN 2.6's gradients of weights with AMX read
// memory that nothing has written: for groups of few channels, some are NaN.
inline bool UsesAmx(std::string_view implementation) {
  return implementation.find("amx") != std::string_view::npos;
}

// Appends one candidate per implementation in oneDNN's order that does not use AMX: those that
// convert operands if `converting`, otherwise those that do not. An id is the implementation's
// name, with "+reorder" if it converts; oneDNN's plain loops are references (Engine). The
// function takes `operation`, which must be alive during the iteration, instead of a
// primitive_desc. The iteration returns an implementation that has run before twice, the first time
// from oneDNN's primitive cache; the duplicate is skipped.
template <typename PrimitiveDesc, typename Operation, typename... Hint>
void AppendImplementations(const StepSignature& signature, const Origin& origin,
                           const std::vector<Binding>& bindings, bool converting,
                           Candidates& candidates, const Operation& operation,
                           const Hint&... hint) {
  PrimitiveDesc desc(operation, UserScratchpad(), origin.engine, hint...);
  do {
    if (Converts(desc, bindings) != converting) continue;
    const std::string_view implementation = desc.impl_info_str();
    if (UsesAmx(implementation)) continue;
    const bool is_reference = implementation.starts_with("ref");
    if (converting && is_reference) continue;  // accepts any format as it is
    const std::string id = std::string(implementation) + (converting ? "+reorder" : "");
    const bool is_listed =
        std::any_of(candidates.begin(), candidates.end(),
                    [&](const Candidate& other) { return other.engine.id == id; });
    if (is_listed) continue;
    candidates.push_back(PrimitiveCandidate(signature, id, origin, desc, bindings));
    candidates.back().engine.is_reference = is_reference;
    if (is_reference) candidates.back().engine.notes = "reference";
  } while (desc.next_impl());
}

// Held while descriptors are made. oneDNN before 3.0 keeps a block size of the type (1 channel in
// fp32, 2 in bf16) in a variable of the process while it makes the descriptor of a convolution
// (last_ic_block_size in jit_brgemm_conv_utils.cpp): descriptors of two types that two threads make
// at once may be of kernels that read weights in another format than they state.
std::mutex& DescriptorMutex();

// Calls `list` under DescriptorMutex(), and converts a dnnl::error that it throws to a Status.
template <typename List>
absl::StatusOr<Candidates> GuardOnednn(const StepSignature& signature, List list) {
  const std::lock_guard lock(DescriptorMutex());
  try {
    return list();
  } catch (const dnnl::error& error) {
    return OnednnError(error, "primitive_desc", signature);
  }
}

}  // namespace neap::cpu
