"""PyTorch's reading of a folder of photographs for training, in images/s by number of workers.

The transforms are those of torchvision's recipe for ImageNet. Batches arrive in the memory of this process as fp32 in N, C, H, W
order, which is also what neap's loader makes; they are not copied to pinned memory, which would only add to the time.

Each worker makes batches of its own, so with n workers batches arrive about n at a time. The first n are not timed, and then a
multiple of n is.
"""

import time

import PIL
import torch
import torchvision
from torchvision import transforms

MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
ENDLESS = 10**9  # images


def open_loader(folder, batch, workers):
    dataset = torchvision.datasets.ImageFolder(folder, transforms.Compose([
        transforms.RandomResizedCrop(224), transforms.RandomHorizontalFlip(), transforms.ToTensor(),
        transforms.Normalize(MEAN, DEVIATION)]))
    images = torch.utils.data.RandomSampler(dataset, replacement=True, num_samples=ENDLESS)
    return torch.utils.data.DataLoader(dataset, batch_size=batch, sampler=images, num_workers=workers)


def speed(folder, batch, workers, seconds):
    """Images/s over at least so many seconds."""
    batches = iter(open_loader(folder, batch, workers))
    for _ in range(workers):
        next(batches)
    begin, count, elapsed = time.perf_counter(), 0, 0.0
    while elapsed < seconds:
        for _ in range(workers):
            count += len(next(batches)[1])
        elapsed = time.perf_counter() - begin
    return count / elapsed


def measure(request):
    """`request`: folder, batch, seconds, and threads, a list of numbers of workers. The record has their speeds in that order."""
    speeds = [speed(request["folder"], request["batch"], workers, request["seconds"]) for workers in request["threads"]]
    return {"images_per_second": speeds, "torch": torch.__version__, "torchvision": torchvision.__version__,
            "pillow": PIL.__version__}
