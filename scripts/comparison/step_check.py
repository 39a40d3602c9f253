"""One training step of neap and of PyTorch, from the same weights and the same batch, against PyTorch in float64.

fp32 runs in NCHW, other types channels-last; 16-bit types are PyTorch's autocast with fp32 weights. In fp16 the two sides
multiply the loss by different factors: PyTorch by --loss-scale, neap by 65536, with which it begins every training. Dropout is
disabled on both sides. A batch file holds fp32 images in N, C, H, W order or volumes in N, C, D, H, W order, then int32 labels;
tokens are a file (--data tokens:) that has one window, so that all sequences of the batch are the same. neap trains its own
network, or with --onnx what PyTorch exports. The optimizer is SGD for all networks: the first step of AdamW changes parameters by
the signs of their gradients, which says little about these.

An instance norm right behind a convolution cancels what its bias changes: the gradient of the bias is 0, and what a program
computes of it is rounding. The errors of such biases are taken relative to the change of the convolution's weight.

Weights as they are initialised, and images of noise, are of no use in 16 bits: rounding flips so many ReLUs that PyTorch's own
gradients of ResNet-50 in bf16 have an error of 1.3, more than that of no gradients at all. Fewer flip if each residual block
adds little to its input, as after zero-initialisation, if the biases of batch norms are rather positive, and if images differ in
more than noise.
"""

import copy
import inspect
import os
import tempfile
from dataclasses import replace

import torch
from safetensors.torch import load_file, save_file
from torchvision.models.resnet import BasicBlock, Bottleneck
from torchvision.ops import StochasticDepth

from .cases import IMAGES, SGD, TOKENS, VOLUMES, network_of
from .models import autocast, make_network, make_optimizer, memory_format, set_precision
from .processes import Failure, field, run_neap
from .speed import Results, networks_of_neap, write_tokens
from .step_rule import Row, Step, check, described, print_rows, summary_table
from .training import draw_batch, loss_function, placed
from .volumes import cancelled_biases

DEFAULT_NETWORKS = {"fp32": "resnet18,alexnet"}
DEFAULT_NETWORKS_16 = "resnet50,densenet121,vgg16,alexnet"
NETWORKS_IN_ONNX = ("alexnet,resnet18,resnext50_32x4d,densenet121,googlenet,squeezenet1_1,mnasnet0_5,mobilenet_v2,"
                    "mobilenet_v3_small,efficientnet_b0,regnet_y_400mf,dla34,lcnet_050,repvgg_a0,resnet26d,selecsls42")
WITH_DROPOUT = ("alexnet", "vgg16", "vgg19", "googlenet", "inception_v3", "inception_v4", "mobilenet_v2", "mobilenet_v3_small",
                "mobilenet_v3_large", "efficientnet_b0")
WITH_STOCHASTIC_DEPTH = ("convnext_tiny", "swin_t")  # which neap can leave out of ONNX files only
WITH_ADAPTIVE_POOLING = ("alexnet", "vgg16", "vgg19")  # in front of the classifier: nothing to do at 224x224
BLOCK_SCALE = 0.2  # of the last batch norm of a residual block, in types less exact than fp32
BIAS_SHIFTS = {True: 0.25, False: 0.5}  # of the biases of batch norms, with and without residual blocks, likewise
OPTIMIZER = replace(SGD, learning_rate=0.1)  # large, so that rounding of the weights does not hide the gradients
BATCHES = {IMAGES: 32, VOLUMES: 2, TOKENS: 2}  # their sizes, unless one is given


def default_networks(dtype, onnx):
    return NETWORKS_IN_ONNX if onnx else DEFAULT_NETWORKS.get(dtype, DEFAULT_NETWORKS_16)


def reduce_noise(model):
    """Moves the parameters to where rounding flips few ReLUs."""
    blocks = [module for module in model.modules() if isinstance(module, (BasicBlock, Bottleneck))]
    for block in blocks:
        (block.bn3 if isinstance(block, Bottleneck) else block.bn2).weight.mul_(BLOCK_SCALE)
    for module in model.modules():
        if isinstance(module, (torch.nn.BatchNorm2d, torch.nn.InstanceNorm3d)):
            module.bias.add_(BIAS_SHIFTS[bool(blocks)])


def make_inputs(network, batch, dtype):
    """The inputs and labels of a batch, on the host."""
    inputs, labels = draw_batch(network, batch)
    if network.kind == TOKENS:
        return inputs[:1].expand(batch, -1), labels[:1].expand(batch, -1)
    if network.kind == VOLUMES:  # labels of single voxels would cancel each other's gradients
        regions = torch.randint(0, network.classes, (batch, 1, 4, 4, 4)).float()
        labels = torch.nn.functional.interpolate(regions, size=inputs.shape[2:], mode="nearest")[:, 0].long()
    if dtype == "fp32":
        return inputs, labels
    axes, mode = inputs.dim() - 2, "trilinear" if network.kind == VOLUMES else "bicubic"
    patterns = torch.nn.functional.interpolate(torch.randn(*inputs.shape[:2], *axes * (7,)), size=inputs.shape[2:], mode=mode)
    return patterns + 0.3 * inputs, labels


def make_model(network, dtype):
    """The network without parameters at 0 or 1, or all of one small number, which would hide mistakes, and with dropout
    disabled."""
    torch.manual_seed(1)
    model = make_network(network).train()
    if network.partition("@")[0] in WITH_ADAPTIVE_POOLING:
        model.avgpool = torch.nn.Identity()  # whose backward is deterministic, unlike that of adaptive pooling
    for module in model.modules():
        if isinstance(module, (torch.nn.Dropout, StochasticDepth)):
            module.eval()
        if isinstance(module, torch.nn.BatchNorm2d):
            module.running_mean.normal_(0, 0.1)
            module.running_var.uniform_(0.5, 1.5)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1 or parameter.min() == parameter.max():
                parameter.add_(0.1 * torch.randn_like(parameter))
        if dtype != "fp32":
            reduce_noise(model)
    return model


def write_onnx(model, images, path):
    """The model as it trains, without dropout, for any number of images. By tracing, which keeps batch norms."""
    tracing = {"dynamo": False} if "dynamo" in inspect.signature(torch.onnx.export).parameters else {}
    model = copy.deepcopy(model)
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0  # neap trains with a file's dropout even if the file is for inference
    torch.onnx.export(model, (images,), path, training=torch.onnx.TrainingMode.PRESERVE, do_constant_folding=False,
                      input_names=["images"], dynamic_axes={"images": {0: "n"}}, **tracing)


def check_networks(networks, onnx):
    """ValueError for a network whose step neap cannot take."""
    only_onnx = [name for name in networks if network_of(name).neap is None and not onnx]
    if only_onnx:
        raise ValueError(f"neap reads {', '.join(only_onnx)} from ONNX files only: add --onnx")
    stochastic = [name for name in networks if name.partition("@")[0] in WITH_STOCHASTIC_DEPTH and not onnx]
    if stochastic:
        raise ValueError(f"neap's {', '.join(stochastic)} has stochastic depth, which ONNX files leave out: add --onnx")
    others = [name for name in networks if network_of(name).kind != IMAGES and onnx]
    if others:
        raise ValueError(f"{', '.join(others)} is not read from ONNX files here: leave out --onnx")


class StepCheck:
    """One network's step, from the same weights with every batch."""

    def __init__(self, arguments, name, dtype):
        self.arguments, self.name, self.dtype = arguments, name, dtype
        self.network = network_of(name)
        self.batch = arguments.batch or BATCHES[self.network.kind]
        self.layout = "nchw" if dtype == "fp32" else "nhwc"
        self.loss_scale = arguments.loss_scale if dtype == "fp16" else 1.0
        self.model = make_model(name, dtype)
        self.weights = {name: tensor.clone() for name, tensor in self.model.state_dict().items()
                        if tensor.is_floating_point()}  # without counts of batches, and places in windows
        self.parameters = [name for name, _ in self.model.named_parameters()]
        self.cancelled = cancelled_biases(self.model)
        self.draw_batch()

    def draw_batch(self):
        self.inputs, self.labels = make_inputs(self.network, self.batch, self.dtype)

    def pytorch(self, exact):
        """One step in float64 or in the type; returns the loss and the state afterwards, in float64 on the host."""
        device = self.arguments.device
        dtype = torch.float64 if exact else torch.float32
        layout = "nchw" if exact else self.layout
        model = copy.deepcopy(self.model).to(device, dtype, memory_format=memory_format(layout, self.network.kind))
        optimizer = make_optimizer(OPTIMIZER, model)
        inputs = placed(self.network, self.inputs, device, dtype, layout)
        with autocast(device, "fp32" if exact else self.dtype):
            loss = loss_function(self.network)(model(inputs), self.labels.to(device))
        scale = 1.0 if exact else self.loss_scale
        (loss * scale).backward()
        for parameter in model.parameters():
            parameter.grad.div_(scale)
        optimizer.step()
        state = {name: tensor.detach().double().cpu() for name, tensor in model.state_dict().items() if name in self.weights}
        for name, tensor in state.items():
            if not tensor.isfinite().all():
                raise Failure(f"PyTorch's '{name}' overflowed in {self.dtype}: try a smaller --loss-scale")
        return loss.item(), state

    def write_batch(self, folder):
        """Writes the batch, and returns the flags with which neap reads it."""
        if self.network.kind == TOKENS:
            write_tokens(folder, [*self.inputs[0].tolist(), self.labels[0, -1].item()])
            return ["--data", f"tokens:{folder}"]
        path = os.path.join(folder, "batch")
        with open(path, "wb") as file:
            file.write(self.inputs.contiguous().numpy().astype("<f4").tobytes())
            file.write(self.labels.to(torch.int32).contiguous().numpy().astype("<i4").tobytes())
        return ["--batch-file", path]

    def neap(self):
        """The loss and the weights after neap's step."""
        arguments = self.arguments
        with tempfile.TemporaryDirectory() as folder:
            weights_in, weights_out = (os.path.join(folder, name) for name in ("in.safetensors", "out.safetensors"))
            save_file(self.weights, weights_in)
            network = self.network.neap
            flags = [*self.network.flags, *(["--dropout", "0"] if self.name.partition("@")[0] in WITH_DROPOUT else [])]
            if arguments.onnx:
                network, flags = os.path.join(folder, "model.onnx"), []
                write_onnx(self.model, self.inputs[:2], network)
            record = run_neap(arguments.neap, [
                network, *flags, *self.write_batch(folder), "--device", arguments.device, "--batch", str(self.batch),
                "--dtype", self.dtype, "--layout", self.layout, "--weights-in", weights_in, "--weights-out", weights_out,
                "--steps", "1", *OPTIMIZER.flags(), *arguments.neap_arguments], arguments.measurement_limit)
            return field(record, "loss"), {name: tensor.double() for name, tensor in load_file(weights_out).items()}

    def row(self, name, exact, expected, actual):
        """The differences of one tensor: of its change, which a step makes small, or in fp32 of a statistic's value."""
        if name not in actual:
            raise Failure(f"neap's weights have no tensor '{name}'")
        if actual[name].shape == (*exact[name].shape, 1, 1):  # a linear layer, which is a convolution of neap's
            actual[name] = actual[name].reshape(exact[name].shape)
        if actual[name].shape != exact[name].shape:
            raise Failure(f"'{name}' has the shapes {tuple(actual[name].shape)} and {tuple(exact[name].shape)}")
        is_change = name in self.parameters or self.dtype != "fp32"
        before = self.weights[name].double() if is_change else torch.zeros_like(exact[name])
        kind = f"{name.rpartition('.')[2]} of {exact[name].dim()} axes"
        measure, start = name, before
        if name in self.cancelled:
            measure, kind = name.replace(".bias", ".weight"), "cancelled " + kind
            start = self.weights[measure].double()
        return Row(name, "change" if is_change else "value", kind, (exact[measure] - start).norm().item(),
                   (actual[name] - exact[name]).norm().item(), (expected[name] - exact[name]).norm().item())

    def differences(self):
        """Those of the loss, of all parameters and of all running statistics."""
        exact_loss, exact = self.pytorch(exact=True)
        pytorch_loss, expected = self.pytorch(exact=False)
        if torch.device(self.arguments.device).type == "cuda":
            torch.cuda.empty_cache()
        neap_loss, actual = self.neap()
        loss = Row("loss", "value", "loss", abs(exact_loss), abs(neap_loss - exact_loss), abs(pytorch_loss - exact_loss))
        rows = {name: self.row(name, exact, expected, actual) for name in self.weights}
        return Step(loss, [row for name, row in rows.items() if name in self.parameters],
                    [row for name, row in rows.items() if name not in self.parameters])


def compare(arguments, dtype, networks):
    """Prints every tensor and a summary; returns whether all networks passed that neap has."""
    torch.backends.cudnn.benchmark = False
    torch.use_deterministic_algorithms(True, warn_only=True)
    results, summaries, failed, missing = Results(arguments.results), [], [], []
    listed = None if arguments.onnx else networks_of_neap(arguments)
    for network in networks:
        name = network_of(network).neap
        if listed is not None and name not in listed:
            missing.append(f"{network}: missing: neap nets does not list {name}")
            continue
        set_precision(dtype)
        try:
            step = StepCheck(arguments, network, dtype)
            steps = [step.differences()]
            for _ in range(arguments.batches - 1):
                step.draw_batch()
                steps.append(step.differences())
            summary = check(network, dtype, steps)
        except Failure as failure:
            failed.append(f"{network}: FAILED: {failure}")
            print(f"\n{failed[-1]}", flush=True)
            continue
        print_rows(summary, step.batch, arguments.batches)
        results.add({"kind": "step", "batch": step.batch, "batches": arguments.batches, "onnx": arguments.onnx,
                     **{name: value for name, value in summary.items() if name != "rows"}})
        summaries.append(summary)
    batch = arguments.batch or ", ".join(str(size) for size in dict.fromkeys(BATCHES[network_of(n).kind] for n in networks))
    print(f"\nErrors of neap / PyTorch in {dtype}, one step, {described(batch, arguments.batches)}")
    print("\n".join([summary_table(summaries), *failed, *missing]), flush=True)
    return not failed and all(summary["passed"] for summary in summaries)
