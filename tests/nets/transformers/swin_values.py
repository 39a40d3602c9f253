"""Prints what torchvision's Swin computes of the small network of swin_test.cc, as rows of its tables.

    python3 tests/nets/transformers/swin_values.py   # with torch and torchvision
"""
import torch
from torchvision.models.swin_transformer import SwinTransformer

SHOWN = ["features.0.0.weight", "features.1.0.attn.relative_position_bias_table", "features.1.1.attn.qkv.weight",
         "features.1.1.attn.relative_position_bias_table", "features.2.norm.weight", "features.2.reduction.weight",
         "features.3.1.attn.proj.bias", "features.3.1.attn.relative_position_bias_table", "features.5.0.mlp.0.weight",
         "features.7.0.attn.relative_position_bias_table", "head.weight"]


def scattered(count, start):
    """Numbers between -0.5 and 0.5."""
    k = torch.arange(count, dtype=torch.int64)
    return (((31 * k * k + 17 * k + 613 * start) % 1009).double() / 1009 - 0.5).float().double()


def main():
    net = SwinTransformer([4, 4], 4, [2, 2, 1, 1], [1, 2, 2, 4], [7, 7], stochastic_depth_prob=0, num_classes=5).double()
    for number, (name, parameter) in enumerate(sorted(net.named_parameters())):
        is_factor = name.endswith(("norm.weight", "norm1.weight", "norm2.weight", "features.0.2.weight"))
        parameter.data = scattered(parameter.numel(), number).reshape(parameter.shape) + (1 if is_factor else 0)
    images = 4 * scattered(2 * 3 * 60 * 60, 0).reshape(2, 3, 60, 60)
    logits = net(images)
    print(", ".join(f"{value:.6f}F" for value in logits.detach().flatten().tolist()))
    loss = torch.nn.functional.cross_entropy(logits, torch.tensor([1, 3]))
    loss.backward()
    parameters = dict(net.named_parameters())
    print(f"{loss.item():.6f}F")
    for name in SHOWN:
        gradient = parameters[name].grad.flatten()
        print(f'{{"{name}", {torch.dot(gradient, scattered(gradient.numel(), 1)).item():.6g}F, {gradient.norm().item():.6g}F}},')


if __name__ == "__main__":
    main()
