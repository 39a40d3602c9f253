"""Which networks, batches and types are compared, and by which programs.

A case is written NET:BATCH:DTYPE or NET:BATCH:DTYPE:PROGRAM+PROGRAM, or is the name of a set of cases.
"""

from dataclasses import dataclass
from typing import Optional

NEAP = "neap"
EAGER = "eager"
FLOOR = "floor"  # the convolutions alone
COMPILE = "compile"
REDUCE_OVERHEAD = "reduce-overhead"  # torch.compile with CUDA graphs
PROGRAMS = (NEAP, EAGER, FLOOR, COMPILE, REDUCE_OVERHEAD)

DTYPES = ("fp32", "tf32", "bf16", "fp16")
LARGEST_SMALL_BATCH = 32  # up to here the CPU's launches may limit the speed, which reduce-overhead avoids


@dataclass(frozen=True)
class Network:
    neap: Optional[str]  # the network's name in `neap nets`; None: neap reads it from an ONNX file only
    library: str = "torchvision"
    image: int = 224
    options: tuple = ()  # of the library's constructor, where its defaults are not neap's


# By PyTorch's names. neap's `alexnet` is another network, with local response normalisation.
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
    # In ONNX files.
    "squeezenet1_1": Network(None),
    "mnasnet0_5": Network(None),
    "dla34": Network(None, "timm"),
    "lcnet_050": Network(None, "timm"),
    "repvgg_a0": Network(None, "timm"),
    "resnet26d": Network(None, "timm"),
    "selecsls42": Network(None, "timm"),
}


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
        return "nchw" if self.dtype == "fp32" else "nhwc"


# The networks of `nets` are in the order in which torch.compile takes longer, because the time limit ends the last ones.
NETS = ("vgg16", "resnet152", "densenet121", "inception_v4")
SETS = {
    "basic": "resnet50:128:fp32:neap+eager,resnet50:128:tf32:neap+eager",
    "headline": "resnet50:256:bf16,resnet50:256:fp16,resnet50:256:tf32",
    "nets": ",".join([f"{net}:128:bf16" for net in NETS] + [f"{net}:128:fp16:neap" for net in NETS]),
    "small-tf32": "resnet50:8:tf32,resnet50:16:tf32,resnet50:32:tf32",
    "small-bf16": "resnet50:8:bf16,resnet50:16:bf16,resnet50:32:bf16",
    "small": "small-tf32,small-bf16",
    "mobile": "mobilenet_v2:256:bf16,mobilenet_v3_large:256:bf16,efficientnet_b0:256:bf16,mobilenet_v2:128:fp32:neap+eager",
}


def default_programs(batch):
    return PROGRAMS if batch <= LARGEST_SMALL_BATCH else PROGRAMS[:-1]


def network_name(text):
    """PyTorch's name of a network, which may be given by neap's name too."""
    for name, network in NETWORKS.items():
        if text in (name, network.neap):
            return name
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
    programs = tuple(parts[3].split("+")) if len(parts) == 4 else default_programs(batch)
    for program in programs:
        if program not in PROGRAMS:
            raise ValueError(f"'{text}': no program '{program}', only: {', '.join(PROGRAMS)}")
    network = network_name(parts[0])
    if NETWORKS[network].neap is None:
        raise ValueError(f"'{text}': neap reads {network} from ONNX files only")
    return Case(network, batch, parts[2], programs)


def parse_cases(text):
    """The cases of a list separated by commas; a ValueError says what is wrong with it."""
    cases = []
    for part in text.split(","):
        cases += parse_cases(SETS[part]) if part in SETS else [parse_case(part)]
    return cases
