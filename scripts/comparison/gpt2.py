"""PyTorch's GPT-2 (Radford et al., 2019) without dropout: the modules of nanoGPT, with Hugging Face's names and shapes of weights.

The embedding of the tokens is also the last layer. Attention is scaled_dot_product_attention, which has PyTorch's fastest kernels.
"""

import torch
from torch import nn
from torch.nn import functional

# Blocks, heads and width by the network's name.
SIZES = {"gpt2": (12, 12, 768), "gpt2-medium": (24, 16, 1024)}
SCALE = 0.02  # of initial weights


class Conv1D(nn.Module):
    """A linear layer whose weight is {in, out}."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(inputs, outputs))
        self.bias = nn.Parameter(torch.empty(outputs))

    def forward(self, x):
        return functional.linear(x, self.weight.t(), self.bias)


class Attention(nn.Module):

    def __init__(self, heads, width):
        super().__init__()
        self.heads = heads
        self.c_attn = Conv1D(width, 3 * width)
        self.c_proj = Conv1D(width, width)

    def forward(self, x):
        query, key, value = (part.unflatten(2, (self.heads, -1)).transpose(1, 2) for part in self.c_attn(x).chunk(3, dim=2))
        y = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.c_proj(y.transpose(1, 2).flatten(2))


class Block(nn.Module):

    def __init__(self, heads, width):
        super().__init__()
        self.ln_1 = nn.LayerNorm(width)
        self.attn = Attention(heads, width)
        self.ln_2 = nn.LayerNorm(width)
        self.mlp = nn.ModuleDict({"c_fc": Conv1D(width, 4 * width), "c_proj": Conv1D(4 * width, width)})

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp["c_proj"](functional.gelu(self.mlp["c_fc"](self.ln_2(x)), approximate="tanh"))


class Gpt2(nn.Module):

    def __init__(self, blocks, heads, width, vocabulary, context):
        super().__init__()
        self.wte = nn.Embedding(vocabulary, width)
        self.wpe = nn.Embedding(context, width)
        self.h = nn.ModuleList(Block(heads, width) for _ in range(blocks))
        self.ln_f = nn.LayerNorm(width)
        for name, parameter in self.named_parameters():
            if name.endswith("bias"):
                nn.init.zeros_(parameter)
            elif parameter.dim() == 2:  # those in front of a sum are smaller
                nn.init.normal_(parameter, 0.0, SCALE / (2 * blocks)**0.5 if name.endswith("c_proj.weight") else SCALE)

    def forward(self, tokens):
        x = self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.h:
            x = block(x)
        return functional.linear(self.ln_f(x), self.wte.weight)


def make_gpt2(network):
    return Gpt2(*SIZES[network.neap], network.classes, network.image)
