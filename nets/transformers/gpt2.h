// GPT-2 (Radford et al., 2019), which predicts the next token at each position: `gpt2`
// (124,439,808 parameters), `gpt2-medium` (354,823,168), `gpt2-large` (774,030,080) and `gpt2-xl`
// (1,557,611,200).
//
//   Graph net = nets::Gpt2({.variant = nets::kGpt2Medium, .batch = 8});
//
//   input {T} -> wte -> wpe -> L x [ x + attn(ln_1(x)), x + mlp(ln_2(x)) ] -> ln_f -> lm_head
//
// Feeds are "input" and "labels", the tokens and the same one further. The loss, `lm_head`, is the
// last linear layer, too (LinearCrossEntropy), whose weight is that of `wte`: logits never exist.
#pragma once

#include <cstdint>
#include <string_view>

#include "neap/core/graph/graph.h"

namespace neap::nets {

struct Gpt2Variant {
  std::string_view name;
  int64_t blocks = 0;
  int64_t heads = 0;
  int64_t channels = 0;
};
inline constexpr Gpt2Variant kGpt2 = {"gpt2", 12, 12, 768};
inline constexpr Gpt2Variant kGpt2Medium = {"gpt2-medium", 24, 16, 1024};
inline constexpr Gpt2Variant kGpt2Large = {"gpt2-large", 36, 20, 1280};
inline constexpr Gpt2Variant kGpt2Xl = {"gpt2-xl", 48, 25, 1600};

struct Gpt2Options {
  Gpt2Variant variant = kGpt2;
  int64_t tokens = 1024;  // the positions of a sequence
  int64_t vocabulary = 50257;
  int64_t batch = 1;
  DType dtype = DType::kFp32;
  Layout layout = Layout::kChannelsFirst;
  // Of the sum of embeddings, and of what each half of a block adds. The paper has 0.1, also of the
  // attention's weights, which here have none; nanoGPT trains with 0.
  float dropout = 0;
};

// Names, shapes and the order of values in files are those of Hugging Face's GPT2Model: wte.weight,
// wpe.weight {T, C}, h.0.ln_1.weight, h.0.attn.c_attn.weight {C, 3 C}, h.0.attn.c_proj.weight,
// h.0.mlp.c_fc.weight {C, 4 C}, h.0.mlp.c_proj.weight, ln_f.weight. Its files load, also those of
// GPT2LMHeadModel, whose names begin with "transformer.", with lm_head.weight and the constants
// attn.bias. nanoGPT's have linear weights {out, in}, and do not.
//
// The initial weights have a standard deviation of 0.02, or 0.02 / sqrt(2 L) in each c_proj, as in
// the paper. Biases begin at 0.
Graph Gpt2(const Gpt2Options& options);

}  // namespace neap::nets
