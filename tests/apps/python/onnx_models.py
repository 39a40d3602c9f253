"""Random small models in the ONNX format, made node by node."""
import zlib

import numpy
from onnx import TensorProto, helper, numpy_helper


class Model:
    """A model with random shapes that reads one batch of images, `x`."""

    def __init__(self, operator, seed):
        self.operator = operator
        self.random = numpy.random.default_rng([zlib.crc32(operator.encode()), seed])
        self.shape = tuple(map(int, self.random.integers([1, 2, 4, 4], [4, 7, 10, 10])))
        self.images = self.values(*self.shape)
        self.opset = int(self.random.choice([14, 17, 21]))
        self.ir_version = {14: 7, 17: 8, 21: 10}[self.opset]
        self.nodes, self.tensors = [], []

    def pick(self, *choices):
        return choices[self.random.integers(len(choices))]

    def divisor(self, count):
        return self.pick(*[divisor for divisor in range(1, count + 1) if count % divisor == 0])

    def values(self, *shape):
        return self.random.uniform(-1, 1, shape).astype("f4")

    def tensor(self, values):
        name = f"tensor{len(self.tensors)}"
        self.tensors.append(numpy_helper.from_array(numpy.asarray(values), name))
        return name

    def weight(self, *shape):
        return self.tensor(self.values(*shape))

    def vector(self, *integers):
        return self.tensor(numpy.array(integers, "i8"))

    def add(self, operator, *inputs, **attributes):
        name = f"{operator}{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, inputs, [name], name, **attributes))
        return name

    def flat(self):
        """The images as vectors, and their length."""
        return self.add("Flatten", "x"), int(numpy.prod(self.shape[1:]))

    def scores(self, flat):
        """The scores of images that were made flat, which are no scores themselves."""
        return self.add("Gemm", flat, self.weight(int(numpy.prod(self.shape[1:])), 3))

    def pooled(self):
        """One value for each image and channel."""
        return self.add("GlobalAveragePool", "x")

    def window(self, dilates=False):
        """Attributes of a window that fits into every image."""
        kernel = [int(k) for k in self.random.integers(1, 4, 2)]
        strides = [int(s) for s in self.random.integers(1, 3, 2)]
        attributes = {"strides": strides}
        padding = self.pick("none", "pads", "uneven pads", "VALID", "SAME_UPPER", "SAME_LOWER")
        if padding == "pads":
            attributes["pads"] = [k // 2 for k in kernel] * 2
        elif padding == "uneven pads":
            attributes["pads"] = [int(self.random.integers(0, k // 2 + 1)) for k in kernel * 2]
        elif padding == "VALID":
            attributes["auto_pad"] = padding
        elif padding != "none":  # the reference's average pools have no strides that leave out pixels
            attributes.update(auto_pad=padding, strides=[min(s, k) for s, k in zip(strides, kernel)])
        if dilates and padding in ("none", "pads", "uneven pads"):
            attributes["dilations"] = [self.pick(1, 2) if k == 2 else 1 for k in kernel]
        return {"kernel_shape": kernel, **attributes}

    def proto(self, scores):
        batch = self.pick("n", self.shape[0])
        graph = helper.make_graph(
            self.nodes, "graph", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, *self.shape[1:]])],
            [helper.make_tensor_value_info(scores, TensorProto.FLOAT, None)], self.tensors)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=self.ir_version)
