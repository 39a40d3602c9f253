"""Which networks, batches and types are compared, and by which programs.

A case is written NET:BATCH:DTYPE or NET:BATCH:DTYPE:PROGRAM+PROGRAM, or is the name of a set of cases. NET is a network, or one of
another size of images, volumes or sequences: nnunet3d@192.
"""

from dataclasses import dataclass, replace
from typing import Optional

NEAP = "neap"
EAGER = "eager"
FLOOR = "floor"  # the convolutions alone
COMPILE = "compile"
REDUCE_OVERHEAD = "reduce-overhead"  # torch.compile with CUDA graphs
CHECKPOINT = "checkpoint"  # eager, with every block computed again in backward (torch.utils.checkpoint)
NEAP_IN_CHECKPOINT = "neap-in-checkpoint"  # neap in the bytes of PyTorch's peak with checkpoints
NEAP_IN_THIRD = "neap-in-third"  # neap in a third of the bytes of PyTorch's peak
SPEED_PROGRAMS = (NEAP, EAGER, FLOOR, COMPILE, REDUCE_OVERHEAD)
MEMORY_PROGRAMS = (NEAP, EAGER, COMPILE, CHECKPOINT, NEAP_IN_CHECKPOINT, NEAP_IN_THIRD)
PROGRAMS = tuple(dict.fromkeys(SPEED_PROGRAMS + MEMORY_PROGRAMS))
# The program whose peak is a program's budget, and the part of it.
BUDGETS = {NEAP_IN_CHECKPOINT: (CHECKPOINT, 1), NEAP_IN_THIRD: (EAGER, 3)}

DTYPES = ("fp32", "tf32", "bf16", "fp16")
LARGEST_SMALL_BATCH = 32  # up to here the CPU's launches may limit the speed, which reduce-overhead avoids

# What a network reads. Images have a label each, volumes one for each voxel, and tokens are predicted one by one.
IMAGES = "images"
VOLUMES = "volumes"
TOKENS = "tokens"


@dataclass(frozen=True)
class Optimizer:
    """The same on both sides, of all parameters."""
    rule: str = "sgd"
    learning_rate: float = 0.01
    momentum: float = 0.9
    nesterov: bool = False
    weight_decay: float = 1e-4

    def flags(self):
        """Those of neap train."""
        flags = ["--optimizer", self.rule, "--lr", str(self.learning_rate), "--weight-decay", str(self.weight_decay)]
        if self.rule == "sgd":
            flags += ["--momentum", str(self.momentum)] + ["--nesterov"] * self.nesterov
        return flags


SGD = Optimizer()
NNUNET_SGD = Optimizer(momentum=0.99, nesterov=True, weight_decay=3e-5)
ADAMW = Optimizer("adamw", 1e-3, weight_decay=0.05)


@dataclass(frozen=True)
class Network:
    neap: Optional[str]  # the network's name in `neap nets`; None: neap reads it from an ONNX file only
    library: str = "torchvision"  # or timm, or comparison: a module of these scripts
    image: int = 224  # the edge of images and volumes, or the tokens of a sequence
    options: tuple = ()  # of the library's constructor, where its defaults are not neap's
    kind: str = IMAGES
    channels: int = 3
    classes: int = 1000
    optimizer: Optimizer = SGD
    flags: tuple = ()  # of neap's network

    @property
    def layouts(self):
        """Those in which PyTorch is measured in 16 bits: channels-last alone, but for volumes, of which either may be faster."""
        return ("nhwc", "nchw") if self.kind == VOLUMES else ("nhwc",)

    @property
    def units(self):
        """What is counted per second: so many of each example."""
        return self.image if self.kind == TOKENS else 1

    @property
    def input_shape(self):
        """The shape of an example."""
        return {IMAGES: (self.channels, self.image, self.image), VOLUMES: (self.channels, *3 * (self.image,)),
                TOKENS: (self.image,)}[self.kind]


def volumes(neap, edge):
    """A network of volumes with one channel and three classes."""
    return Network(neap, "comparison", edge, kind=VOLUMES, channels=1, classes=3, optimizer=NNUNET_SGD,
                   flags=("--classes", "3"))


def tokens(neap):
    """A language model with GPT-2's vocabulary."""
    return Network(neap, "comparison", 1024, kind=TOKENS, classes=50257, optimizer=ADAMW,
                   flags=("--classes", "50257"))


# By PyTorch's names, behind which @SIZE may stand. neap's `alexnet` is another network, with local response normalisation.
NETWORKS = {
    "alexnet": Network("alexnet-torchvision"),
    "vgg16": Network("vgg16"),
    "vgg19": Network("vgg19"),
    "resnet18": Network("resnet18"),
    "resnet34": Network("resnet34"),
    "resnet50": Network("resnet50"),
    "resnet101": Network("resnet101"),
    "resnet152": Network("resnet152"),
    "densenet121": Network("densenet121"),
    "densenet169": Network("densenet169"),
    "densenet201": Network("densenet201"),
    "inception_v3": Network("inception_v3", "torchvision", 299, (("aux_logits", False), ("init_weights", False))),
    "inception_v4": Network("inception_v4", "timm", 299, (("drop_rate", 0.2),)),
    "googlenet": Network("googlenet", "torchvision", 224, (("aux_logits", False), ("init_weights", False))),
    "wide_resnet50_2": Network("wide_resnet50_2"),
    "resnext50_32x4d": Network("resnext50_32x4d"),
    "regnet_y_400mf": Network("regnet_y_400mf"),
    "mobilenet_v2": Network("mobilenet_v2"),
    "mobilenet_v3_small": Network("mobilenet_v3_small"),
    "mobilenet_v3_large": Network("mobilenet_v3_large"),
    "efficientnet_b0": Network("efficientnet_b0", "torchvision", 224, (("stochastic_depth_prob", 0.0),)),
    "convnext_tiny": Network("convnext_tiny", optimizer=ADAMW),
    "vit_b_16": Network("vit_b_16", optimizer=ADAMW),
    "swin_t": Network("swin_t", optimizer=ADAMW),
    "nnunet3d": volumes("nnunet3d", 128),
    "unet3d": volumes("unet3d", 128),
    "resenc-unet-xl": volumes("resenc-unet-xl", 224),
    "gpt2": tokens("gpt2"),
    "gpt2-medium": tokens("gpt2-medium"),
    # In ONNX files.
    "squeezenet1_1": Network(None),
    "mnasnet0_5": Network(None),
    "dla34": Network(None, "timm"),
    "lcnet_050": Network(None, "timm"),
    "repvgg_a0": Network(None, "timm"),
    "resnet26d": Network(None, "timm"),
    "selecsls42": Network(None, "timm"),
}


def network_of(name):
    """The network of a name, such as nnunet3d, or nnunet3d@192: of images, volumes or sequences of this size."""
    base, _, size = name.partition("@")
    network = NETWORKS[base]
    if not size:
        return network
    return replace(network, image=int(size), flags=(*network.flags, "--image", size))


@dataclass(frozen=True)
class Case:
    network: str
    batch: int
    dtype: str
    programs: tuple

    @property
    def key(self):
        return self.network, self.batch, self.dtype

    @property
    def layout(self):
        """neap's, and PyTorch's where it is measured in one alone."""
        return "nchw" if self.dtype == "fp32" else "nhwc"

    def runs(self, among=PROGRAMS):
        """Each program with each of its layouts."""
        several = ("nchw",) if self.dtype == "fp32" else network_of(self.network).layouts
        return [(program, layout) for program in self.programs if program in among
                for layout in (several if program in (EAGER, COMPILE, REDUCE_OVERHEAD, CHECKPOINT) else (self.layout,))]


# The networks of `nets` are in the order in which torch.compile takes longer, because the time limit ends the last ones.
NETS = ("vgg16", "resnet152", "densenet121", "inception_v4")
IN_MEMORY = ":" + "+".join(MEMORY_PROGRAMS)
SETS = {
    "basic": "resnet50:128:fp32:neap+eager,resnet50:128:tf32:neap+eager",
    "headline": "resnet50:256:bf16,resnet50:256:fp16,resnet50:256:tf32",
    "nets": ",".join([f"{net}:128:bf16" for net in NETS] + [f"{net}:128:fp16:neap" for net in NETS]),
    "small-tf32": "resnet50:8:tf32,resnet50:16:tf32,resnet50:32:tf32",
    "small-bf16": "resnet50:8:bf16,resnet50:16:bf16,resnet50:32:bf16",
    "small": "small-tf32,small-bf16",
    "mobile": "mobilenet_v2:256:bf16,mobilenet_v3_large:256:bf16,efficientnet_b0:256:bf16,mobilenet_v2:128:fp32:neap+eager",
    "memory": "memory-volumes,memory-images,memory-tokens",
    "memory-volumes": "nnunet3d:2:bf16,nnunet3d@192:2:bf16,unet3d:7:fp16,unet3d:7:bf16,resenc-unet-xl:2:bf16",
    "memory-images": ",".join(f"{net}:128:bf16{IN_MEMORY}" for net in ("convnext_tiny", "vit_b_16", "swin_t")),
    "memory-tokens": "gpt2:16:bf16,gpt2-medium:8:bf16",
}


def default_programs(network, batch):
    if network_of(network).kind != IMAGES:
        return MEMORY_PROGRAMS
    return SPEED_PROGRAMS if batch <= LARGEST_SMALL_BATCH else SPEED_PROGRAMS[:-1]


def network_name(text):
    """PyTorch's name of a network, which may be given by neap's name too, with its size if that is given."""
    base, at, size = text.partition("@")
    if at and (not size.isdigit() or int(size) == 0):
        raise ValueError(f"'{text}': the size '{size}' is not a positive number")
    for name, network in NETWORKS.items():
        if base in (name, network.neap):
            return name + at + size
    raise ValueError(f"no network '{text}', only: {', '.join(NETWORKS)}")


def parse_case(text):
    parts = text.split(":")
    if len(parts) not in (3, 4):
        raise ValueError(f"'{text}' is neither NET:BATCH:DTYPE[:PROGRAMS] nor one of the sets {', '.join(SETS)}")
    if not parts[1].isdigit() or int(parts[1]) == 0:
        raise ValueError(f"'{text}': the batch '{parts[1]}' is not a positive number")
    if parts[2] not in DTYPES:
        raise ValueError(f"'{text}': no type '{parts[2]}', only: {', '.join(DTYPES)}")
    batch = int(parts[1])
    network = network_name(parts[0])
    programs = tuple(parts[3].split("+")) if len(parts) == 4 else default_programs(network, batch)
    for program in programs:
        if program not in PROGRAMS:
            raise ValueError(f"'{text}': no program '{program}', only: {', '.join(PROGRAMS)}")
    kind = network_of(network).kind
    if FLOOR in programs and kind != IMAGES:
        raise ValueError(f"'{text}': the floor is that of images, not of {kind}")
    if network_of(network).neap is None:
        raise ValueError(f"'{text}': neap reads {network} from ONNX files only")
    return Case(network, batch, parts[2], programs)


def parse_cases(text):
    """The cases of a list separated by commas; a ValueError says what is wrong with it."""
    cases = []
    for part in text.split(","):
        cases += parse_cases(SETS[part]) if part in SETS else [parse_case(part)]
    return cases
