"""PyTorch's batches and losses: what stands around a network in a step of training."""

import torch
from torch.nn import functional

from .cases import TOKENS, VOLUMES
from .models import memory_format

LOWEST_HEAD = 1e-6  # the weight of its loss, which nnU-Net gives it on several GPUs
NNUNET_SMOOTH = 1e-5
MLPERF_SMOOTH = 1e-6


def draw_batch(network, batch):
    """Inputs, which are fp32 noise or tokens, and their labels, on the host."""
    if network.kind == TOKENS:
        windows = torch.randint(0, network.classes, (batch, network.image + 1))
        return windows[:, :-1].contiguous(), windows[:, 1:].contiguous()
    inputs = torch.randn(batch, *network.input_shape)
    return inputs, torch.randint(0, network.classes, (batch, *(network.input_shape[1:] if network.kind == VOLUMES else ())))


def placed(network, inputs, device, dtype, layout):
    """Inputs on the device, as the first layer reads them; tokens stay integers."""
    if network.kind == TOKENS:
        return inputs.to(device)
    return inputs.to(device, dtype).contiguous(memory_format=memory_format(layout, network.kind))


def dice_and_cross_entropy(logits, labels, smooth):
    """Soft Dice of every image without the background, class 0, negated, and cross-entropy: nnU-Net's DC_and_CE_loss."""
    axes = tuple(range(2, logits.dim()))
    probabilities = logits.softmax(1, dtype=torch.promote_types(logits.dtype, torch.float32))[:, 1:]
    with torch.no_grad():
        truth = torch.zeros(logits.shape, dtype=torch.bool, device=logits.device).scatter_(1, labels[:, None], True)[:, 1:]
        of_truth = truth.sum(axes)
    shared = (probabilities * truth).sum(axes)
    dice = (2 * shared + smooth) / (probabilities.sum(axes) + of_truth + smooth)
    return functional.cross_entropy(logits, labels) - dice.mean()


def deep_supervision(heads, labels):
    """Each head against the labels that are nearest to its voxels; every loss has half the weight of the one above."""
    weights = [0.5**i for i in range(len(heads))]
    if len(heads) > 1:
        weights[-1] = LOWEST_HEAD
    loss = 0.0
    for weight, head in zip(weights, heads):
        stride = labels.shape[1] // head.shape[2]
        nearest = (slice(stride // 2, None, stride),) * (head.dim() - 2)
        loss = loss + weight / sum(weights) * dice_and_cross_entropy(head, labels[(slice(None), *nearest)], NNUNET_SMOOTH)
    return loss


def tokens_loss(logits, labels):
    return functional.cross_entropy(logits.flatten(0, 1), labels.flatten())


def mlperf_loss(logits, labels):
    return 0.5 * dice_and_cross_entropy(logits, labels, MLPERF_SMOOTH)


def loss_function(network):
    """The loss that neap's network has, of outputs and labels."""
    if network.kind == VOLUMES:
        return mlperf_loss if network.neap == "unet3d" else deep_supervision
    return tokens_loss if network.kind == TOKENS else functional.cross_entropy


class WithLoss(torch.nn.Module):
    """A network and its loss, which are compiled together."""

    def __init__(self, network, model):
        super().__init__()
        self.model, self.loss = model, loss_function(network)

    def forward(self, inputs, labels):
        return self.loss(self.model(inputs), labels)
