"""One training step of neap and of PyTorch, from the same weights and the same batch, against PyTorch in float64.

fp32 runs in NCHW, other types channels-last; 16-bit types are PyTorch's autocast with fp32 weights. In fp16 the two sides
multiply the loss by different factors: PyTorch by --loss-scale, neap by 65536, with which it begins every training. Dropout is
disabled on both sides. A batch file holds fp32 images in N, C, H, W order, then int32 labels. neap trains its own network, or
with --onnx what PyTorch exports.

Weights as they are initialised, and images of noise, are of no use in 16 bits: rounding flips so many ReLUs that PyTorch's own
gradients of ResNet-50 in bf16 have an error of 1.3, more than that of no gradients at all. Fewer flip if each residual block
adds little to its input, as after zero-initialisation, if the biases of batch norms are rather positive, and if images differ in
more than noise.
"""

import copy
import inspect
import os
import tempfile

import torch
from safetensors.torch import load_file, save_file
from torchvision.models.resnet import BasicBlock, Bottleneck
from torchvision.ops import StochasticDepth

from .cases import NETWORKS
from .models import MOMENTUM, WEIGHT_DECAY, autocast, make_network, memory_format, set_precision, sgd
from .processes import Failure, field, run_neap
from .speed import Results
from .step_rule import Row, Step, check, described, print_rows, summary_table

DEFAULT_NETWORKS = {"fp32": "resnet18,alexnet"}
DEFAULT_NETWORKS_16 = "resnet50,densenet121,vgg16,alexnet"
NETWORKS_IN_ONNX = ("alexnet,resnet18,resnext50_32x4d,densenet121,googlenet,squeezenet1_1,mnasnet0_5,mobilenet_v2,"
                    "mobilenet_v3_small,efficientnet_b0,regnet_y_400mf,dla34,lcnet_050,repvgg_a0,resnet26d,selecsls42")
WITH_DROPOUT = ("alexnet", "vgg16", "vgg19", "googlenet", "inception_v3", "inception_v4", "mobilenet_v2", "mobilenet_v3_small",
                "mobilenet_v3_large", "efficientnet_b0")
WITH_ADAPTIVE_POOLING = ("alexnet", "vgg16", "vgg19")  # in front of the classifier: nothing to do at 224x224
BLOCK_SCALE = 0.2  # of the last batch norm of a residual block, in types less exact than fp32
BIAS_SHIFTS = {True: 0.25, False: 0.5}  # of the biases of batch norms, with and without residual blocks, likewise
LEARNING_RATE = 0.1  # large, so that rounding of the weights does not hide the gradients
CLASSES = 1000


def default_networks(dtype, onnx):
    return NETWORKS_IN_ONNX if onnx else DEFAULT_NETWORKS.get(dtype, DEFAULT_NETWORKS_16)


def reduce_noise(model):
    """Moves the parameters to where rounding flips few ReLUs."""
    blocks = [module for module in model.modules() if isinstance(module, (BasicBlock, Bottleneck))]
    for block in blocks:
        (block.bn3 if isinstance(block, Bottleneck) else block.bn2).weight.mul_(BLOCK_SCALE)
    for module in model.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.bias.add_(BIAS_SHIFTS[bool(blocks)])


def make_images(batch, side, dtype):
    noise = torch.randn(batch, 3, side, side)
    if dtype == "fp32":
        return noise
    patterns = torch.nn.functional.interpolate(torch.randn(batch, 3, 7, 7), size=(side, side), mode="bicubic")
    return patterns + 0.3 * noise


def make_model(network, dtype):
    """The network without parameters at 0 or 1, which would hide mistakes, and with dropout disabled."""
    torch.manual_seed(1)
    model = make_network(network).train()
    if network in WITH_ADAPTIVE_POOLING:
        model.avgpool = torch.nn.Identity()  # whose backward is deterministic, unlike that of adaptive pooling
    for module in model.modules():
        if isinstance(module, (torch.nn.Dropout, StochasticDepth)):
            module.eval()
        if isinstance(module, torch.nn.BatchNorm2d):
            module.running_mean.normal_(0, 0.1)
            module.running_var.uniform_(0.5, 1.5)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
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


class StepCheck:
    """One network's step, from the same weights with every batch."""

    def __init__(self, arguments, network, dtype):
        self.arguments, self.network, self.dtype = arguments, network, dtype
        self.layout = "nchw" if dtype == "fp32" else "nhwc"
        self.loss_scale = arguments.loss_scale if dtype == "fp16" else 1.0
        self.model = make_model(network, dtype)
        self.weights = {name: tensor.clone() for name, tensor in self.model.state_dict().items()
                        if not name.endswith("num_batches_tracked")}
        self.parameters = [name for name, _ in self.model.named_parameters()]
        self.draw_batch()

    def draw_batch(self):
        self.images = make_images(self.arguments.batch, NETWORKS[self.network].image, self.dtype)
        self.labels = torch.randint(0, CLASSES, (self.arguments.batch,))

    def pytorch(self, exact):
        """One step in float64 or in the type; returns the loss and the state afterwards, in float64 on the host."""
        device = self.arguments.device
        dtype = torch.float64 if exact else torch.float32
        layout = memory_format("nchw" if exact else self.layout)
        model = copy.deepcopy(self.model).to(device, dtype, memory_format=layout)
        optimizer = sgd(model, LEARNING_RATE)
        images = self.images.to(device, dtype).contiguous(memory_format=layout)
        with autocast(device, "fp32" if exact else self.dtype):
            loss = torch.nn.functional.cross_entropy(model(images), self.labels.to(device))
        scale = 1.0 if exact else self.loss_scale
        (loss * scale).backward()
        for parameter in model.parameters():
            parameter.grad.div_(scale)
        optimizer.step()
        state = {name: tensor.detach().double().cpu() for name, tensor in model.state_dict().items()}
        for name, tensor in state.items():
            if not tensor.isfinite().all():
                raise Failure(f"PyTorch's '{name}' overflowed in {self.dtype}: try a smaller --loss-scale")
        return loss.item(), state

    def neap(self):
        """The loss and the weights after neap's step."""
        arguments = self.arguments
        with tempfile.TemporaryDirectory() as folder:
            weights_in, weights_out, batch_file = (os.path.join(folder, name) for name in
                                                   ("in.safetensors", "out.safetensors", "batch"))
            save_file(self.weights, weights_in)
            with open(batch_file, "wb") as file:
                file.write(self.images.contiguous().numpy().astype("<f4").tobytes())
                file.write(self.labels.to(torch.int32).numpy().astype("<i4").tobytes())
            network = NETWORKS[self.network].neap
            flags = ["--dropout", "0"] if self.network in WITH_DROPOUT else []
            if arguments.onnx:
                network, flags = os.path.join(folder, "model.onnx"), []
                write_onnx(self.model, self.images[:2], network)
            record = run_neap(arguments.neap, [
                network, *flags, "--device", arguments.device, "--batch", str(arguments.batch),
                "--dtype", self.dtype, "--layout", self.layout, "--weights-in", weights_in, "--weights-out", weights_out,
                "--batch-file", batch_file, "--steps", "1", "--lr", str(LEARNING_RATE), "--momentum", str(MOMENTUM),
                "--weight-decay", str(WEIGHT_DECAY), *arguments.neap_arguments], arguments.measurement_limit)
            return field(record, "loss"), {name: tensor.double() for name, tensor in load_file(weights_out).items()}

    def row(self, name, exact, expected, actual):
        """The differences of one tensor: of its change, which a step makes small, or in fp32 of a statistic's value."""
        if name not in actual:
            raise Failure(f"neap's weights have no tensor '{name}'")
        if actual[name].shape != exact[name].shape:
            raise Failure(f"'{name}' has the shapes {tuple(actual[name].shape)} and {tuple(exact[name].shape)}")
        is_change = name in self.parameters or self.dtype != "fp32"
        before = self.weights[name].double() if is_change else torch.zeros_like(exact[name])
        kind = f"{name.rpartition('.')[2]} of {exact[name].dim()} axes"
        return Row(name, "change" if is_change else "value", kind, (exact[name] - before).norm().item(),
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
    """Prints every tensor and a summary; returns whether all networks passed."""
    torch.backends.cudnn.benchmark = False
    torch.use_deterministic_algorithms(True, warn_only=True)
    results, summaries, failed = Results(arguments.results), [], []
    for network in networks:
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
        print_rows(summary, arguments.batch, arguments.batches)
        results.add({"kind": "step", "batch": arguments.batch, "batches": arguments.batches, "onnx": arguments.onnx,
                     **{name: value for name, value in summary.items() if name != "rows"}})
        summaries.append(summary)
    print(f"\nErrors of neap / PyTorch in {dtype}, one step, {described(arguments.batch, arguments.batches)}")
    print("\n".join([summary_table(summaries), *failed]), flush=True)
    return not failed and all(summary["passed"] for summary in summaries)
