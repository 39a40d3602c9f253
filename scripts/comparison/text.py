"""Training of a small GPT-2 by neap and by PyTorch, from the same initial weights, with the same batches.

The network is that of 124M parameters with fewer blocks, on windows of the sentences of examples/data/sentences. Both train in
fp32 with AdamW. Rounding makes the two diverge in time, so single losses may differ; their means over some steps may not.
"""

import array
import pathlib
import random
import sys

import torch

import neap

from .gpt2 import SIZES, Gpt2
from .training import tokens_loss

DATA = pathlib.Path(__file__).resolve().parents[2] / "examples/data/sentences"
BLOCKS, TOKENS, BATCH, STEPS = 4, 64, 16, 300
LEARNING_RATE = 3e-4
REPORTED = 50  # a row of the table is the mean over so many steps
MAX_DIFFERENCE = 0.01  # of the mean losses, as a part of PyTorch's
MAX_FIRST_DIFFERENCE = 1e-4  # of the loss of the first step


def read_text():
    """All tokens, and the number of words."""
    text = array.array("H")
    text.frombytes((DATA / "train.bin").read_bytes())
    if sys.byteorder == "big":
        text.byteswap()
    return torch.tensor(text.tolist()), len((DATA / "words.txt").read_text().splitlines())


def draw_batches(text):
    """Windows at random places: the tokens of each, and the same one further."""
    places = random.Random(1)
    for _ in range(STEPS):
        windows = torch.stack([text[first:first + TOKENS + 1]
                               for first in (places.randrange(len(text) - TOKENS) for _ in range(BATCH))])
        yield windows[:, :-1].contiguous(), windows[:, 1:].contiguous()


def losses_of_pytorch(model, batches, device):
    model = model.to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, weight_decay=0.0)
    losses = []
    for tokens, labels in batches:
        optimizer.zero_grad(set_to_none=True)
        loss = tokens_loss(model(tokens.to(device)), labels.to(device))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def losses_of_neap(weights, words, batches, device):
    net = neap.nets.gpt2(batch=BATCH, image=TOKENS, classes=words, depth=BLOCKS, layout="nhwc")
    with neap.Session(net, device=device, optimizer="adamw", lr=LEARNING_RATE) as session:
        session.load_state_dict(weights)
        return [session.step_feeds({"input": tokens.numpy(), "labels": labels.numpy()}).loss for tokens, labels in batches]


def difference(expected, actual):
    return abs(actual - expected) / expected


def compare(device):
    """Prints the losses; the exit code."""
    torch.manual_seed(1)
    torch.backends.cuda.matmul.allow_tf32 = False
    text, words = read_text()
    _, heads, width = SIZES["gpt2"]
    model = Gpt2(BLOCKS, heads, width, words, TOKENS)
    weights = {name: tensor.detach().clone().numpy() for name, tensor in model.state_dict().items()}
    batches = list(draw_batches(text))
    actual = losses_of_neap(weights, words, batches, device)
    expected = losses_of_pytorch(model, batches, device)
    print("| steps | PyTorch | neap | difference |\n|---|---|---|---|")
    passed = difference(expected[0], actual[0]) <= MAX_FIRST_DIFFERENCE
    print(f"| 1 | {expected[0]:.5f} | {actual[0]:.5f} | {difference(expected[0], actual[0]):.1e} |")
    for first in range(0, STEPS, REPORTED):
        means = [sum(losses[first:first + REPORTED]) / REPORTED for losses in (expected, actual)]
        passed = passed and difference(*means) <= MAX_DIFFERENCE
        print(f"| {first + 1} to {first + REPORTED} | {means[0]:.4f} | {means[1]:.4f} | {100 * difference(*means):.2f}% |")
    return 0 if passed else 1
