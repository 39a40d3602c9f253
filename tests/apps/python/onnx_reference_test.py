"""Every operator of docs/onnx.md, in random small models, computes what ONNX's own reference implementation does."""
import re

import numpy
import onnx
import onnx.reference
import pytest
from onnx import TensorProto, helper, numpy_helper

import neap
from conftest import TREE
from onnx_models import Model

MODELS = 12  # of each operator
TOLERANCE = 1e-4
CASES = {}  # by operator: a function that adds nodes to a Model and returns the name of the scores


def case(*operators):
    def add(build):
        CASES.update(dict.fromkeys(operators, build))
        return build
    return add


@case("Conv")
def conv(model):
    channels, window = model.shape[1], model.window(dilates=True)
    groups = model.pick(1, channels)
    outputs = groups * model.pick(1, 2, 3) + (groups == 1)
    inputs = ["x", model.weight(outputs, channels // groups, *window["kernel_shape"])]
    if model.pick(True, False):
        inputs.append(model.weight(outputs))
    return model.add("Conv", *inputs, group=groups, **window)


@case("ConvTranspose")
def conv_transpose(model):
    kernel = [int(k) for k in model.random.integers(2, 5, 2)]
    outputs = model.pick(2, 3)
    inputs = ["x", model.weight(model.shape[1], outputs, *kernel)]
    if model.pick(True, False):
        inputs.append(model.weight(outputs))
    strides, pads = [model.pick(1, 2), model.pick(1, 2)], [model.pick(0, 1, 2) for _ in range(4)]
    more = [model.pick(0, min(stride - 1, pad)) for stride, pad in zip(strides, pads[2:])]
    return model.add("ConvTranspose", *inputs, kernel_shape=kernel, strides=strides, pads=pads, output_padding=more)


@case("Gemm")
def gemm(model):
    x, length = model.flat()
    transposed = model.pick(0, 1)
    weight = model.weight(5, length) if transposed else model.weight(length, 5)
    bias = [model.weight(5)] if model.pick(True, False) else []
    return model.add("Gemm", x, weight, *bias, transB=transposed)


@case("MatMul")
def mat_mul(model):
    x, length = model.flat()
    x = model.add("MatMul", x, model.weight(length, 4))
    return model.add("Add", x, model.weight(4)) if model.pick(True, False) else x


@case("BatchNormalization")
def batch_normalization(model):
    channels = model.shape[1]
    vectors = [model.weight(channels) for _ in range(3)] + [model.tensor(model.values(channels) + 1.5)]
    return model.add("BatchNormalization", "x", *vectors, epsilon=model.pick(1e-5, 1e-3), momentum=model.pick(0.9, 0.99))


@case("InstanceNormalization")
def instance_normalization(model):
    """Of the images, or of groups of their channels, behind which are constants for each channel."""
    channels = model.shape[1]
    attributes = model.pick({}, {"epsilon": 1e-3})
    if model.pick(True, False):
        return model.add("InstanceNormalization", "x", model.weight(channels), model.weight(channels), **attributes)
    groups = model.divisor(channels)
    x = model.add("Reshape", "x", model.vector(0, groups, -1))
    ones, zeros = (model.tensor(numpy.full(groups, value, "f4")) for value in (1, 0))
    x = model.add("InstanceNormalization", x, ones, zeros, **attributes)
    x = model.add("Reshape", x, model.add("Shape", "x"))
    return model.add("Add", model.add("Mul", x, model.weight(channels, 1, 1)), model.weight(channels, 1, 1))


@case("GroupNormalization")
def group_normalization(model):
    model.opset, model.ir_version = 21, 10  # before, parameters are those of groups
    channels = model.shape[1]
    return model.add("GroupNormalization", "x", model.weight(channels), model.weight(channels),
                     num_groups=model.divisor(channels), **model.pick({}, {"epsilon": 1e-3}))


@case("LayerNormalization")
def layer_normalization(model):
    model.opset, model.ir_version = model.pick((17, 8), (21, 10))
    inputs = [model.weight(model.shape[1]) for _ in range(model.pick(1, 2))]
    x = model.add("Transpose", "x", perm=[0, 2, 3, 1])
    x = model.add("LayerNormalization", x, *inputs, axis=model.pick(-1, 3), **model.pick({}, {"epsilon": 1e-3}))
    return model.add("Transpose", x, perm=[0, 3, 1, 2])


@case("Relu", "Sigmoid", "Tanh", "HardSwish")
def activation(model):
    scaled = model.add("Conv", "x", model.tensor(5 * model.values(4, model.shape[1], 1, 1)))
    return model.add(model.operator, scaled)


@case("Gelu", "Mish", "Elu", "Softplus")
def newer_activation(model):
    if model.operator in ("Gelu", "Mish"):  # of opsets 20 and 18
        model.opset, model.ir_version = 21, 10
    attributes = {"Gelu": model.pick({}, {"approximate": "tanh"}, {"approximate": "none"}),
                  "Elu": model.pick({}, {"alpha": float(model.random.uniform(0, 2))})}
    scaled = model.add("Conv", "x", model.tensor(5 * model.values(4, model.shape[1], 1, 1)))
    return model.add(model.operator, scaled, **attributes.get(model.operator, {}))


@case("Erf")
def gelu_by_erf(model):
    """x * 0.5 * (1 + erf(x / sqrt(2))), with its factors in any order."""
    x = model.add("Conv", "x", model.tensor(5 * model.values(4, model.shape[1], 1, 1)))
    half, one, root = (model.tensor(numpy.float32(number)) for number in (0.5, 1, 2 ** 0.5))
    erf = model.add("Erf", model.add("Div", x, root))
    gate = model.add("Add", *model.pick((erf, one), (one, erf)))
    first, second, third = map(str, model.random.permutation([x, half, gate]))
    return model.add("Mul", model.add("Mul", first, second), third)


@case("PRelu")
def prelu(model):
    channels = model.shape[1]
    return model.add("PRelu", "x", model.weight(*model.pick((), (1,), (channels, 1, 1), (1, channels, 1, 1))))


@case("LeakyRelu")
def leaky_relu(model):
    attributes = {"alpha": float(model.random.uniform(0, 0.5))} if model.pick(True, False) else {}
    return model.add("LeakyRelu", "x", **attributes)


@case("Clip")
def clip(model):
    low = model.tensor(numpy.float32(model.random.uniform(-1, 0)))
    high = model.tensor(numpy.float32(model.random.uniform(0, 1)))
    return model.add("Clip", *model.pick(("x", low, high), ("x", low), ("x", "", high)))


@case("LRN")
def lrn(model):
    # The reference implementation of onnx 1.23 normalises as many channels as there are images, and leaves out the others.
    model.shape = (model.shape[1], *model.shape[1:])
    model.images = model.values(*model.shape)
    return model.add("LRN", "x", size=model.pick(1, 3, 5), alpha=float(model.random.uniform(0.01, 0.5)),
                     beta=model.pick(0.5, 0.75), bias=model.pick(1.0, 2.0))


@case("HardSigmoid")
def hard_sigmoid(model):
    scaled = model.add("Conv", "x", model.tensor(5 * model.values(4, model.shape[1], 1, 1)))
    return model.add("HardSigmoid", scaled, **model.pick({"alpha": 1 / 6}, {}, {"alpha": 0.3, "beta": 0.4}))


@case("Dropout")
def dropout(model):
    return model.add("Dropout", "x", *model.pick((), (model.tensor(numpy.float32(0.3)),)))


def is_even(window):
    pads = window.get("pads", [0] * 4)
    return pads[:2] == pads[2:]


@case("MaxPool")
def max_pool(model):
    window = model.window()
    # The reference implementation of onnx 1.23 mixes up pads without strides, and the sides of SAME_LOWER with some.
    if not is_even(window) or window.get("auto_pad") == "SAME_UPPER":
        window["strides"] = [2, 1]
        window["kernel_shape"][0] = max(2, window["kernel_shape"][0])
    if window.get("auto_pad") == "SAME_LOWER":
        window["strides"] = [1, 1]
    if "pads" in window and window["strides"] == [1, 1]:
        window["strides"] = [1, 2]
    if "auto_pad" not in window and is_even(window):
        window["ceil_mode"] = model.pick(0, 1)
    return model.add("MaxPool", "x", **window)


@case("AveragePool")
def average_pool(model):
    window = model.window()
    window["count_include_pad"] = model.pick(0, 1)
    # The reference moves windows that pass the padding by two pixels, as with strides of three. An uneven padding that is not
    # counted has no layer where rounding up adds a window.
    if "auto_pad" not in window and (window["count_include_pad"] or is_even(window)):
        window["ceil_mode"] = model.pick(0, 1)
    return model.add("AveragePool", "x", **window)


@case("GlobalAveragePool")
def global_average_pool(model):
    return model.add("Flatten", model.pooled()) if model.pick(True, False) else model.pooled()


def mean(model, x, axes, keep=1):
    if model.opset < 18:
        return model.add("ReduceMean", x, axes=axes, keepdims=keep)
    return model.add("ReduceMean", x, model.vector(*axes), keepdims=keep)


@case("ReduceMean")
def reduce_mean(model):
    """Over height and width, or over the channels as in a layer norm."""
    if model.pick(True, False):
        return mean(model, "x", model.pick([2, 3], [-1, -2]), model.pick(0, 1))
    centred = model.add("Sub", "x", mean(model, "x", [1]))
    variance = mean(model, model.add("Pow", centred, model.tensor(numpy.float32(2))), [1])
    shifted = model.add("Add", variance, model.tensor(numpy.float32(model.pick(1e-5, 1e-3))))
    return model.add("Div", centred, model.add("Sqrt", shifted))


@case("Add", "Sum")
def add(model):
    others = [model.add("Sigmoid", "x"), model.add("Tanh", "x")]
    return model.add(model.operator, *others[:1 if model.operator == "Add" else model.pick(1, 2)], "x")


@case("Sub", "Div", "Neg")
def with_constant(model):
    x = model.add("Sigmoid", "x")
    if model.operator == "Neg":
        return model.add("Neg", x)
    if model.operator == "Sub" and model.pick(True, False):
        return model.add("Sub", x, "x")
    shape = model.pick((), (1,), (1, 1, 1, 1), (model.shape[1], 1, 1), (1, model.shape[1], 1, 1))
    constant = model.tensor(model.values(*shape) + numpy.float32(1.5))
    swapped = model.operator == "Sub" and model.pick(True, False)
    return model.add(model.operator, *((constant, x) if swapped else (x, constant)))


@case("Split")
def split(model):
    axis = model.pick(1, 2, 3)
    first = int(model.random.integers(1, model.shape[axis]))
    parts = [f"part{i}" for i in range(2)]
    model.nodes.append(helper.make_node("Split", ["x", model.vector(first, model.shape[axis] - first)], parts, "split", axis=axis))
    return model.add("Concat", *[model.add("Flatten", part) for part in parts], axis=1) if model.shape[2:] == (1, 1) else model.pick(*parts)


@case("Concat")
def concat(model):
    return model.add("Concat", "x", model.add("Sigmoid", "x"), model.add("Tanh", "x"), axis=model.pick(1, -3))


@case("Mul")
def mul(model):
    gate = model.pick(lambda: model.add("Sigmoid", "x"), lambda: model.add("HardSigmoid", "x", alpha=1 / 6),
                      lambda: model.add("Tanh", "x"), model.pooled)()
    return model.add("Mul", *model.pick((gate, "x"), ("x", gate)))


@case("Slice")
def slice_(model):
    axes = model.pick([2], [3], [2, 3], [-1, -2])
    first = [model.pick(0, 1, -4) for _ in axes]
    last = [model.pick(3, -1, 1 << 40) if begin >= 0 else -1 for begin in first]
    steps = model.pick((), (model.vector(*[1] * len(axes)),))
    return model.add("Slice", "x", model.vector(*first), model.vector(*last), model.vector(*axes), *steps)


@case("Resize")
def resize(model):
    """The reference rounds positions, so it may take the neighbour of the nearest element, and does not round extents for the corners."""
    mode, coordinates = model.pick("nearest", "linear", "cubic"), model.pick("half_pixel", "pytorch_half_pixel", "align_corners",
                                                                             "asymmetric")
    attributes = {"mode": mode, "coordinate_transformation_mode": coordinates}
    if mode == "nearest":
        attributes["nearest_mode"] = model.pick("floor", "ceil", "round_prefer_floor", "round_prefer_ceil")
    if mode == "cubic":
        attributes["cubic_coeff_a"] = model.pick(-0.75, -0.5)
    axes = {"axes": model.pick([2, 3], [3, 2])} if model.opset >= 18 and model.pick(True, False) else {}
    if mode != "nearest" and model.pick(True, False):
        sizes = [int(size) for size in model.random.integers(2, 13, 2)]
        return model.add("Resize", "x", "", "", model.vector(*(() if axes else model.shape[:2]), *sizes), **axes, **attributes)
    whole = mode == "nearest" or coordinates == "align_corners"
    scales = model.pick((2, 2), (2, 3), (1, 2)) if whole else model.pick((2, 2), (1, 2), (0.5, 1), (1.5, 1.25))
    return model.add("Resize", "x", "", model.tensor(numpy.array([*(() if axes else (1, 1)), *scales], "f4")), **axes, **attributes)


@case("DepthToSpace", "SpaceToDepth")
def shuffle(model):
    block = model.pick(2, 3)
    x = model.add("Conv", "x", model.weight(2 * block**2, model.shape[1], 1, 1))
    deep = model.add("DepthToSpace", x, blocksize=block, mode=model.pick("DCR", "CRD"))
    return deep if model.operator == "DepthToSpace" else model.add("SpaceToDepth", deep, blocksize=block)


@case("Pad")
def pad(model):
    top, left, bottom, right = model.pick((1, 1, 1, 1), (0, 1, 0, 1), (1, 0, 2, 0), (0, 0, 1, 1), (2, 1, 0, 1))
    if model.opset >= 18 and model.pick(True, False):
        padded = model.add("Pad", "x", model.vector(top, left, bottom, right), "", model.vector(2, -1))
    else:
        padded = model.add("Pad", "x", model.vector(0, 0, top, left, 0, 0, bottom, right))
    reader = model.pick("AveragePool", "Conv", "MaxPool", "Relu", "Add")
    window = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 0, model.pick(0, 1), model.pick(0, 1)]}
    if reader == "AveragePool":
        return model.add(reader, padded, **window, count_include_pad=model.pick(0, 1))
    if reader == "Conv":
        return model.add(reader, padded, model.weight(3, model.shape[1], 3, 3), **window)
    if reader == "MaxPool":
        return model.add(reader, padded, **window)
    return model.add(reader, *[padded] * (1 + (reader == "Add")))


@case("ConstantOfShape")
def computed_pads(model):
    """Pads as PyTorch's exporter by tracing computes them, from those of the last axis to those of the first."""
    sides = model.vector(*(model.pick(0, 1, 2) for _ in range(4)))  # left, right, top, bottom
    given = model.add("Gather", model.add("Shape", sides), model.vector(0))
    rest = model.add("Sub", model.add("Mul", model.tensor(numpy.int64(4)), model.tensor(numpy.int64(2))), given)
    zeros = model.add("ConstantOfShape", rest, value=numpy_helper.from_array(numpy.array([0], "i8")))
    pairs = model.add("Reshape", model.add("Concat", sides, zeros, axis=0), model.vector(-1, 2))
    first = model.add("Slice", pairs, model.vector(-1), model.vector(-(2**63) + 1), model.vector(0), model.vector(-1))
    pads = model.add("Reshape", model.add("Transpose", first, perm=[1, 0]), model.vector(-1))
    return model.add("Relu", model.add("Pad", "x", model.add("Cast", pads, to=TensorProto.INT64)))


@case("Flatten")
def flatten(model):
    return model.scores(model.add("Flatten", "x", axis=model.pick(1, -3)))


@case("Reshape")
def reshape(model):
    length = int(numpy.prod(model.shape[1:]))
    return model.scores(model.add("Reshape", "x", model.vector(*model.pick((0, -1), (model.shape[0], -1), (-1, length)))))


@case("Squeeze")
def squeeze(model):
    return model.add("Squeeze", model.pooled(), model.vector(*model.pick((2, 3), (-1, -2))))


@case("Unsqueeze")
def unsqueeze(model):
    x = model.add("Gemm", model.add("Flatten", model.pooled()), model.weight(model.shape[1], 4))
    image = model.add("Unsqueeze", x, model.vector(*model.pick((2, 3), (-1, -2))))
    return model.add("Conv", image, model.weight(3, 4, 1, 1))


@case("Identity", "Cast")
def same(model):
    attributes = {"to": TensorProto.FLOAT} if model.operator == "Cast" else {}
    return model.add("Relu", model.add(model.operator, "x", **attributes))


@case("Softmax", "LogSoftmax")
def softmax(model):
    return model.add("Neg", model.add(model.operator, "x", axis=model.pick(1, 2, -1)))


@case("Constant")
def constant(model):
    low = model.pick(dict(value_float=-0.5), dict(value=numpy_helper.from_array(numpy.float32(-0.5))))
    return model.add("Clip", "x", model.add("Constant", **low))


def batch_extent(model):
    """The batch as a vector of one element, computed from the shape of `x`."""
    shape = model.add("Shape", "x")
    if model.pick(True, False):
        return model.add("Slice", shape, model.vector(0), model.vector(1), model.vector(0))
    extent = model.add("Gather", shape, model.tensor(numpy.int64(0)))
    return model.add("Unsqueeze", extent, model.vector(0))


@case("Shape", "Gather")
def computed_shape(model):
    """Reshapes to {batch, length}, both computed by a chain of operators that has every one that docs/onnx.md names."""
    shape = model.add("Shape", "x")
    extents = [model.add("Gather", shape, model.tensor(numpy.int64(axis))) for axis in (1, 2, 3)]
    length = model.add("Mul", model.add("Mul", *extents[:2]), extents[2])
    three = model.tensor(numpy.int64(3))
    length = model.add("Div", model.add("Mul", length, three), three)
    length = model.add("Sub", model.add("Add", length, three), three)
    length = model.add("Cast", model.add("Cast", length, to=TensorProto.FLOAT), to=TensorProto.INT64)
    length = model.add("Unsqueeze", model.add("Squeeze", model.add("Unsqueeze", length, model.vector(0))), model.vector(0))
    return model.scores(model.add("Reshape", "x", model.add("Concat", batch_extent(model), length, axis=0)))


@case("Transpose")
def transpose(model):
    x, length = model.flat()
    weight = model.add("Transpose", model.weight(4, length), perm=[1, 0])
    return model.add(*model.pick(("MatMul", x, weight), ("Gemm", x, weight)))


TYPES = {"And": "?", "Or": "?", "Not": "?", "Where": "?", "Exp": "f4", "Log": "f4", "Sqrt": "f4", "Reciprocal": "f4", "Ceil": "f4",
         "Floor": "f4", "Round": "f4", "Cos": "f4", "Sin": "f4"}
ARGUMENTS = {"And": 2, "Or": 2, "Equal": 2, "Greater": 2, "GreaterOrEqual": 2, "Less": 2, "LessOrEqual": 2, "Max": 3, "Min": 2,
             "Pow": 2, "Where": 3}


@case("Abs", "And", "Ceil", "Cos", "Equal", "Exp", "Floor", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Log", "Max", "Min",
      "Not", "Or", "Pow", "Reciprocal", "Round", "Sign", "Sin", "Sqrt", "Where")
def computed(model):
    """An operator on constants, whose result is added to the channels of images."""
    shape = (model.shape[1], 1, 1)
    given = TYPES.get(model.operator) or model.pick("f4", "f4", "i8")
    values = [(3 * model.values(*(shape if i == 0 else model.pick(shape, (), (1,))))).astype("f4")
              for i in range(ARGUMENTS.get(model.operator, 1))]
    if model.operator in ("Log", "Sqrt", "Reciprocal", "Pow"):
        values = [numpy.abs(value) + numpy.float32(0.5) for value in values]
    values = [value > 0 if given == "?" and (model.operator != "Where" or i == 0) else value.astype(given.replace("?", "f4"))
              for i, value in enumerate(values)]
    result = model.add(model.operator, *map(model.tensor, values))
    return model.add("Add", "x", model.add("Cast", result, to=TensorProto.FLOAT))


@case("Size", "Range")
def counted(model):
    """0, 1, 2 and so on, up to the number of a constant's elements."""
    count = model.add("Size", model.weight(model.shape[1]))
    numbers = model.add("Range", model.tensor(numpy.int64(0)), count, model.tensor(numpy.int64(1)))
    numbers = model.add("Unsqueeze", model.add("Cast", numbers, to=TensorProto.FLOAT), model.vector(1, 2))
    return model.add("Add", "x", model.add("Expand", numbers, model.vector(1, 1, 1, 1)))


@case("ReduceL1", "ReduceL2", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceSum", "ReduceSumSquare")
def reduced(model):
    """A constant for each channel, reduced of one with two axes more."""
    values, axes = model.weight(model.shape[1], 3, 2), model.pick([1, 2], [-1, 1])
    as_attribute = model.opset < (13 if model.operator == "ReduceSum" else 18)
    inputs, attributes = ([], {"axes": axes}) if as_attribute else ([model.vector(*axes)], {})
    keep = model.pick(0, 1)
    y = model.add(model.operator, values, *inputs, keepdims=keep, **attributes)
    return model.add("Add", "x", y if keep else model.add("Unsqueeze", y, model.vector(1, 2)))


@case("CumSum")
def summed(model):
    """Running sums of constants for the channels."""
    channels = model.shape[1]
    values = model.add("Tile", model.weight(1, 1, 1), model.vector(channels, 1, 1))
    values = model.add("Add", values, model.weight(channels, 1, 1))
    return model.add("Add", "x", model.add("CumSum", values, model.tensor(numpy.int64(model.pick(0, -3))), exclusive=model.pick(0, 1)))


@case("Tile")
def tiled(model):
    """Images, or their positions' channels, repeated along all axes but N, or their vectors."""
    axes = model.pick("images", "channels last", "vectors")
    if axes == "vectors":
        return model.add("Tile", model.flat()[0], model.vector(1, model.pick(2, 3)))
    x = "x" if axes == "images" else model.add("Transpose", "x", perm=[0, 2, 3, 1])
    x = model.add("Tile", x, model.vector(1, model.pick(1, 2), model.pick(1, 3), model.pick(2, 3)))
    return x if axes == "images" else model.add("Transpose", x, perm=[0, 3, 1, 2])


@case("Expand")
def expanded(model):
    """One value of each channel for all positions, every channel or pixel several times."""
    _, channels, height, width = model.shape
    form = model.pick("values", "channels", "rows", "columns")
    if form == "values":
        return model.add("Expand", model.pooled(), model.vector(1, *model.pick((channels, 1, 5), (1, 3, 2))))
    times = {"channels": (2, 1, 1), "rows": (1, 3, 1), "columns": (1, 1, 2)}[form]
    x = model.add("Reshape", "x", model.vector(0, channels, 1, height, 1, width, 1))
    x = model.add("Expand", x, model.vector(1, 1, times[0], 1, times[1], 1, times[2]))
    extents = (channels * times[0], height * times[1], width * times[2])
    return model.add("Reshape", x, model.vector(0, *extents))


def documented_operators():
    text = re.search(r"^## What is read\n(.*?)^## ", (TREE / "docs/onnx.md").read_text(), re.MULTILINE | re.DOTALL)[1]
    return {name for name in re.findall(r"`(\w+)`", text) if onnx.defs.has(name)}


# Those that tests/nets/onnx compares, in networks that have them: attention, and the masks of windows.
COMPARED_IN_NETWORKS = {"Attention", "Mod", "ScatterND"}


def test_every_operator_of_the_document_is_compared():
    assert documented_operators() == CASES.keys() | COMPARED_IN_NETWORKS


@pytest.mark.parametrize("operator", sorted(CASES))
def test_an_operator_computes_what_the_reference_does(operator, tmp_path):
    path = tmp_path / "model.onnx"
    for seed in range(MODELS):
        model = Model(operator, seed)
        proto = model.proto(CASES[operator](model))
        assert operator in {node.op_type for node in proto.graph.node}
        onnx.save(proto, path)
        wanted = onnx.reference.ReferenceEvaluator(proto).run(None, {"x": model.images})[0]
        net = neap.from_onnx(path, batch=model.shape[0])
        with neap.Session(net, device="cpu", inference_only=True) as session:
            found = session.predict(model.images)
        assert found.size == wanted.size, f"seed {seed}"
        numpy.testing.assert_allclose(found.reshape(wanted.shape), wanted, rtol=TOLERANCE, atol=TOLERANCE, err_msg=f"seed {seed}")
