"""300 random graphs, with constants behind nodes that change nothing, compute what ONNX Runtime computes of them.

The files that neap makes of the networks are computed by ONNX Runtime, too.
"""
import numpy
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import neap

onnxruntime = pytest.importorskip("onnxruntime")
GRAPHS, GROUPS = 300, 10
TOLERANCE = 1e-4


class RandomGraph:
    """A graph of images whose values are named with their shapes (channels, height, width)."""

    def __init__(self, seed):
        self.random = numpy.random.default_rng(seed)
        self.nodes, self.tensors = [], []
        self.opset = int(self.random.choice([9, 11, 12, 13, 17, 18, 19]))
        self.shape = (int(self.random.integers(2, 5)), int(self.random.integers(4, 8)), int(self.random.integers(4, 8)))
        self.values = [("x", self.shape)]
        for _ in range(int(self.random.integers(3, 10))):
            self.values.append(self.random.choice([self.layer, self.layer, self.constant, self.constant, self.join])())

    def pick(self, *choices):
        return choices[self.random.integers(len(choices))]

    def divisor(self, count):
        return self.pick(*[divisor for divisor in range(1, count + 1) if count % divisor == 0])

    def node(self, op, *inputs, **attributes):
        name = f"{op.lower()}{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(inputs), [name], name, **attributes))
        return name

    def tensor(self, values):
        name = f"tensor{len(self.tensors)}"
        values = numpy.asarray(values)
        self.tensors.append(numpy_helper.from_array(values, name))
        return name

    def weight(self, *shape):
        return self.tensor(self.random.uniform(-1, 1, shape).astype("f4"))

    def axes(self, op, x, *axes):
        if self.opset < 13:
            return self.node(op, x, axes=list(axes))
        return self.node(op, x, self.tensor(numpy.array(axes, "i8")))

    def reshape(self, x, *shape):
        """The same images with other axes."""
        return self.node("Reshape", x, self.tensor(numpy.array([0, *shape], "i8")))

    def value(self, chosen=None):
        """One of the last values, or a chosen one, often behind nodes that change nothing."""
        name, shape = chosen or self.values[-1 - int(self.random.integers(min(3, len(self.values))))]
        while self.pick(True, False):
            name = self.alias(name, shape)
        return name, shape

    def alias(self, x, shape):
        op = self.pick("Identity", "Cast", "Sum", "AveragePool", "Pad", "Reshape", "Slice", "Transpose", "Dropout")
        if op == "Cast":
            return self.node(op, x, to=TensorProto.FLOAT)
        if op == "AveragePool":
            return self.node(op, x, kernel_shape=[1, 1])
        if op == "Pad":
            return self.node(op, x, pads=[0] * 8) if self.opset < 11 else self.node(op, x, self.tensor(numpy.zeros(8, "i8")))
        if op == "Reshape":
            return self.node(op, x, self.tensor(numpy.array([0, *self.pick(shape, (-1, *shape[1:]))], "i8")))
        if op == "Slice":
            if self.opset < 10:
                return self.node(op, x, starts=[0], ends=[shape[1]], axes=[2])
            return self.node(op, x, *[self.tensor(numpy.array([value], "i8")) for value in (0, 1 << 30, 1)])
        if op == "Transpose":
            return self.node(op, self.node(op, x, perm=[0, 2, 3, 1]), perm=[0, 3, 1, 2])
        return self.node(op, x)

    def layer(self):
        x, (channels, height, width) = self.value()
        op = self.pick("Conv", "Conv", "Relu", "Sigmoid", "MaxPool", "BatchNormalization", "HardSigmoid", "Clip", "Split", "Shuffle",
                       "PRelu", "Gelu", "Mish", "Resize", "Pixels", "InstanceNormalization", "GroupNorm", "LayerNorm")
        if op == "Conv":
            outputs = int(self.random.integers(2, 6))
            bias = [self.weight(outputs)] if self.pick(True, False) else []
            kernel = self.pick(1, 3)
            weight = self.computed_weight(outputs, channels, kernel, kernel)
            return self.node(op, x, weight, *bias, pads=[kernel // 2] * 4), (outputs, height, width)
        if op == "MaxPool":
            pads = [int(self.random.integers(0, 2)) for _ in range(4)]
            strides = [self.pick(1, 2), self.pick(1, 2)]
            dilations = [1, 1] if self.opset < 10 else [self.pick(1, 1, 2), self.pick(1, 1, 2)]
            attributes = {} if dilations == [1, 1] else {"dilations": dilations}
            if self.opset >= 19 and self.pick(True, False):
                op, attributes["count_include_pad"] = "AveragePool", self.pick(0, 1)
            reach = [1 + dilations[0], 1 + 2 * dilations[1]]
            size = [(extent + pads[i] + pads[i + 2] - reach[i]) // strides[i] + 1 for i, extent in enumerate((height, width))]
            if min(size) <= 1 or height < reach[0] or width < reach[1]:
                return self.node("Relu", x), (channels, height, width)
            return self.node(op, x, kernel_shape=[2, 3], strides=strides, pads=pads, **attributes), (channels, *size)
        if op == "BatchNormalization":
            vectors = [self.weight(channels) for _ in range(3)]
            variance = self.tensor(self.random.uniform(0.5, 1.5, channels).astype("f4"))
            return self.node(op, x, *vectors, variance), (channels, height, width)
        # A large epsilon, so that values that are all alike stay so.
        if op == "InstanceNormalization":
            return self.node(op, x, self.weight(channels), self.weight(channels), epsilon=0.1), (channels, height, width)
        if op == "GroupNorm":
            groups = self.divisor(channels)
            ones, zeros = (self.tensor(numpy.full(groups, value, "f4")) for value in (1, 0))
            norm = self.node("InstanceNormalization", self.reshape(x, groups, -1), ones, zeros, epsilon=0.1)
            return self.scaled(self.reshape(norm, channels, height, width), channels, 1, 1), (channels, height, width)
        if op == "LayerNorm":
            return self.layer_norm(x, channels), (channels, height, width)
        if op == "Shuffle":
            groups = self.divisor(channels)
            axes, last = [groups, channels // groups], self.pick(True, False)
            if last:
                x = self.node("Transpose", x, perm=[0, 2, 3, 1])
            x = self.reshape(x, *((height, width, *axes) if last else (*axes, height, width)))
            x = self.node("Transpose", x, perm=[0, 1, 2, 4, 3] if last else [0, 2, 1, 3, 4])
            x = self.reshape(x, *((height, width, -1) if last else (-1, height, width)))
            return self.node("Transpose", x, perm=[0, 3, 1, 2]) if last else x, (channels, height, width)
        if op == "Resize" and height * width <= 64:
            return self.resized(x, (channels, height, width))
        if op == "Pixels":
            return self.shuffled(x, (channels, height, width))
        if op == "PRelu":
            return self.node(op, x, self.weight(*self.pick((1,), (channels, 1, 1)))), (channels, height, width)
        if op == "Gelu":
            root, one, half = (self.tensor(numpy.float32(number)) for number in (2 ** 0.5, 1, 0.5))
            product = self.node("Mul", x, self.node("Add", self.node("Erf", self.node("Div", x, root)), one))
            return self.node("Mul", product, half), (channels, height, width)
        if op == "Mish":
            return self.node("Mul", x, self.node("Tanh", self.node("Softplus", x))), (channels, height, width)
        if op == "HardSigmoid":
            return self.node(op, x, **self.pick({}, {"alpha": 1 / 6})), (channels, height, width)
        if op == "Clip":
            bounds = (-0.5, 0.75)
            if self.opset < 11:
                return self.node(op, x, min=bounds[0], max=bounds[1]), (channels, height, width)
            return self.node(op, x, *[self.tensor(numpy.float32(bound)) for bound in bounds]), (channels, height, width)
        if op == "Split" and channels > 1 and self.opset < 18:
            first = int(self.random.integers(1, channels))
            names = [f"part{len(self.nodes)}_{i}" for i in range(2)]
            parts = [first, channels - first]
            attributes = {"split": parts} if self.opset < 13 else {}
            inputs = [x] if self.opset < 13 else [x, self.tensor(numpy.array(parts, "i8"))]
            self.nodes.append(helper.make_node(op, inputs, names, names[0], axis=1, **attributes))
            side = self.pick(0, 1)
            return names[side], (parts[side], height, width)
        return self.node(self.pick("Relu", "Sigmoid", "Tanh", "Elu", "Softplus"), x), (channels, height, width)

    def scaled(self, norm, *shape):
        """A norm with its weight and bias, of which it may have none."""
        for op in self.pick((), ("Mul",), ("Mul", "Add")):
            norm = self.node(op, norm, self.weight(*shape))
        return norm

    def layer_norm(self, x, channels):
        """Over the channels, step by step before opset 17."""
        if self.opset >= 17:
            last = self.node("Transpose", x, perm=[0, 2, 3, 1])
            norm = self.node("LayerNormalization", last, self.weight(channels), self.weight(channels), epsilon=0.1)
            return self.node("Transpose", norm, perm=[0, 3, 1, 2])
        centred = self.node("Sub", x, self.node("ReduceMean", x, axes=[1]))
        variance = self.node("ReduceMean", self.node("Pow", centred, self.tensor(numpy.float32(2))), axes=[1])
        deviation = self.node("Sqrt", self.node("Add", variance, self.tensor(numpy.float32(0.1))))
        return self.scaled(self.node("Div", centred, deviation), channels, 1, 1)

    def resized(self, x, shape):
        mode, scales = self.pick("nearest", "linear"), self.pick((2, 2), (1, 2), (1.5, 1), (1.5, 1.5))
        extents = [int(extent * scale) for extent, scale in zip(shape[1:], scales)]
        tensor = self.tensor(numpy.array([1, 1, *scales], "f4"))
        if self.opset < 11:
            return self.node("Upsample" if self.opset < 10 else "Resize", x, tensor, mode=mode), (shape[0], *extents)
        mode = self.pick(mode, "cubic")
        coordinates = self.pick("half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners")
        if coordinates == "align_corners" and any(extent * scale % 1 for extent, scale in zip(shape[1:], scales)):
            coordinates = "asymmetric"
        attributes = {"mode": mode, "coordinate_transformation_mode": coordinates}
        if mode == "nearest":
            attributes["nearest_mode"] = self.pick("floor", "ceil", "round_prefer_floor", "round_prefer_ceil")
        if self.opset < 13 or mode == "nearest" or self.pick(True, False):
            return self.node("Resize", x, self.tensor(numpy.zeros(0, "f4")), tensor, **attributes), (shape[0], *extents)
        extents = [int(extent) for extent in self.random.integers(2, 9, 2)]
        batch = self.node("Slice", self.node("Shape", x), *[self.tensor(numpy.array([i], "i8")) for i in (0, 2)])
        sizes = self.node("Concat", batch, self.tensor(numpy.array(extents, "i8")), axis=0)
        return self.node("Resize", x, "", "", sizes, **attributes), (shape[0], *extents)

    def shuffled(self, x, shape):
        """Channels become blocks of pixels, or blocks channels, by an operator or by reshapes."""
        channels, height, width = shape
        if channels % 4 == 0:
            shape = (channels // 4, 2 * height, 2 * width)
            if self.opset >= 11 and self.pick(True, False):
                return self.node("DepthToSpace", x, blocksize=2, mode=self.pick("DCR", "CRD")), shape
            blocks, order = self.pick(((channels // 4, 2, 2), [0, 1, 4, 2, 5, 3]), ((2, 2, channels // 4), [0, 3, 4, 1, 5, 2]))
            return self.reshape(self.node("Transpose", self.reshape(x, *blocks, height, width), perm=order), *shape), shape
        if height % 2 or width % 2:
            return self.node("Relu", x), shape
        shape = (4 * channels, height // 2, width // 2)
        if self.pick(True, False):
            return self.node("SpaceToDepth", x, blocksize=2), shape
        x = self.reshape(x, channels, height // 2, 2, width // 2, 2)
        return self.reshape(self.node("Transpose", x, perm=self.pick([0, 1, 3, 5, 2, 4], [0, 3, 5, 1, 2, 4])), *shape), shape

    def computed_weight(self, *shape):
        """A weight that is computed of another tensor."""
        kind = self.pick("given", "Reshape", "Transpose", "Identity", "Unsqueeze", "Mul")
        if kind == "Reshape":
            return self.node(kind, self.weight(int(numpy.prod(shape))), self.tensor(numpy.array(shape, "i8")))
        if kind == "Transpose":
            order = [2, 0, 3, 1]
            return self.node(kind, self.weight(*[shape[order.index(axis)] for axis in range(4)]), perm=order)
        if kind == "Identity":
            return self.node(kind, self.weight(*shape))
        if kind == "Unsqueeze" and shape[2:] == (1, 1):
            return self.axes(kind, self.weight(*shape[:2]), 2, 3)
        if kind == "Mul":
            return self.node(kind, self.weight(*shape), self.weight(shape[0], 1, 1, 1))
        return self.weight(*shape)

    def constant(self):
        """x combined with a number, or with one for each channel, that may be computed."""
        x, shape = self.value()
        dims = self.pick((), (1,), (shape[0], 1, 1), (shape[0], 1, 1), (1, shape[0], 1, 1))
        value = self.tensor(self.random.uniform(0.5, 1.5, dims).astype("f4"))
        kind = self.pick("given", "Identity", "Neg", "Cast", "Unsqueeze", "Sqrt")
        if kind == "Cast":
            value = self.node(kind, self.node(kind, value, to=self.pick(TensorProto.FLOAT16, TensorProto.BOOL, TensorProto.INT32)),
                              to=TensorProto.FLOAT)
            op = self.pick("Add", "Sub", "Mul")
        else:
            if kind in ("Identity", "Neg", "Sqrt"):
                value = self.node(kind, value)
            elif kind == "Unsqueeze" and len(dims) < 4:
                value = self.axes(kind, value, 0)
            op = self.pick("Add", "Sub", "Mul", "Div", "Add")
        swaps = op != "Div" and self.pick(True, False)
        return self.node(op, *((value, x) if swaps else (x, value))), shape

    def join(self):
        # Layers do not read one input twice.
        first, second = self.random.permutation(len(self.values))[:2] if len(self.values) > 1 else (0, 0)
        (a, shape), (b, other) = self.value(self.values[first]), self.value(self.values[second])
        if first == second or shape[1:] != other[1:]:
            return self.node("Tanh", a), shape
        if shape == other:
            return self.node(self.pick("Add", "Sub", "Sum"), a, b), shape
        return self.node("Concat", a, b, axis=1), (shape[0] + other[0], *shape[1:])

    def model(self):
        """All values that nothing reads are pooled and joined."""
        read = {name for node in self.nodes for name in node.input}
        ends = [name for name, _ in self.values if name not in read] or [self.values[-1][0]]
        pooled = [self.node("GlobalAveragePool", end) for end in ends]
        output = self.node("Concat", *pooled, axis=1) if len(pooled) > 1 else pooled[0]
        graph = helper.make_graph(self.nodes, "graph", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", *self.shape])],
                                  [helper.make_tensor_value_info(output, TensorProto.FLOAT, ["n", "c", 1, 1])], self.tensors)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=8)


def run(model, images):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return session.run(None, {session.get_inputs()[0].name: images})[0]


@pytest.mark.parametrize("group", range(GROUPS))
def test_random_graphs_compute_what_onnx_runtime_does(group, tmp_path):
    path, written = tmp_path / "model.onnx", tmp_path / "written.onnx"
    for seed in range(group, GRAPHS, GROUPS):
        graph = RandomGraph(seed)
        onnx.save(graph.model(), path)
        images = graph.random.uniform(-1, 1, (2, *graph.shape)).astype("f4")
        wanted = run(str(path), images)
        net = neap.from_onnx(path, batch=2, loss=neap.MeanSquaredError())
        with neap.Session(net, device="cpu", inference_only=True) as session:
            found = session.predict(images)
            session.save_onnx(written)
        limit = TOLERANCE * max(1, numpy.abs(wanted).max())
        assert numpy.abs(found.reshape(wanted.shape) - wanted).max() <= limit, f"seed {seed}"
        onnx.checker.check_model(onnx.load(written), full_check=True)
        assert numpy.abs(run(str(written), images).reshape(wanted.shape) - wanted).max() <= limit, f"seed {seed}, written"
