"""ONNX's own backend tests of the operators that docs/onnx.md names: none is wrong, and those that pass are listed.

The package `onnx` makes them. Each is a graph of one or a few nodes with several inputs. It is tried twice: with the first input as
images and the others as constants, and with all of them as constants, whose result is then added to images of zeros. What neap
refuses is no fault; a wrong number is, and so is a test that is in onnx_backend_passed.txt and no longer passes.
NEAP_WRITE_PASSED=1 writes that list.
"""
import os
import pathlib
import warnings

import numpy
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import neap
from onnx_reference_test import documented_operators

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of numbers that overflow, which some of the tests are about
    from onnx.backend.test.case.node import collect_testcases

    CASES = [case for case in collect_testcases(None) if case.model is not None]
PASSED = pathlib.Path(__file__).parent / "onnx_backend_passed.txt"
READ = (TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.BFLOAT16)


def documented(model):
    """Not a batch norm or dropout that trains: neap predicts with the running statistics, and without dropout."""
    trains = any(attribute.name == "training_mode" and attribute.i for node in model.graph.node for attribute in node.attribute)
    trains = trains or any(node.op_type == "Dropout" and len(node.input) > 2 for node in model.graph.node)
    return not trains and {node.op_type for node in model.graph.node} <= documented_operators()


def with_constants(model, values, first):
    """The model, whose inputs from `first` on are constants."""
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    for given, value in list(zip(changed.graph.input, values))[first:]:
        if isinstance(value, TensorProto):
            tensor = value
        else:
            tensor = numpy_helper.from_array(numpy.asarray(value), given.name)
        tensor.name = given.name
        changed.graph.initializer.append(tensor)
    del changed.graph.input[first:]
    del changed.graph.output[1:]
    return changed


def added_to_zeros(model, length):
    """The model, whose constant result is added to vectors of zeros."""
    graph, result = model.graph, model.graph.output[0].name
    graph.initializer.append(numpy_helper.from_array(numpy.array([length], "i8"), "all_of_it"))
    graph.node.append(helper.make_node("Cast", [result], ["as_floats"], "as_floats", to=TensorProto.FLOAT))
    graph.node.append(helper.make_node("Reshape", ["as_floats", "all_of_it"], ["as_vector"], "as_vector"))
    graph.node.append(helper.make_node("Add", ["zeros", "as_vector"], ["sum"], "sum"))
    graph.input.append(helper.make_tensor_value_info("zeros", TensorProto.FLOAT, [1, length]))
    del graph.output[:]
    graph.output.append(helper.make_tensor_value_info("sum", TensorProto.FLOAT, None))
    return model


def computed(model, images, path):
    """What neap computes; None if it refuses the network."""
    onnx.save(model, path)
    try:
        net = neap.from_onnx(path, batch=len(images), loss=neap.MeanSquaredError())
        with neap.Session(net, device="cpu", inference_only=True) as session:
            found = session.predict(images.reshape(*images.shape, 1, 1) if images.ndim == 2 else images, probabilities=True)
    except neap.Error as error:
        assert error.code in ("UNIMPLEMENTED", "INVALID_ARGUMENT"), error
        return None
    return found


def outcome(case, found, wanted):
    if found is None:
        return False
    assert found.size == wanted.size, case.name
    if found.ndim == wanted.ndim > 2 and found.shape != wanted.shape and found.shape == numpy.moveaxis(wanted, -1, 1).shape:
        wanted = numpy.moveaxis(wanted, -1, 1)  # the channels are the last axis, and the second one of the layer
    numpy.testing.assert_allclose(found.reshape(wanted.shape), wanted.astype("f4"), rtol=max(case.rtol, 1e-4), atol=1e-5,
                                  err_msg=case.name)
    return True


def passes(case, constant, path):
    for inputs, outputs in case.data_sets:
        wanted = outputs[0]
        if isinstance(wanted, TensorProto) or not isinstance(wanted, numpy.ndarray) or wanted.dtype.kind not in "fiub":
            return False
        if constant:
            if wanted.size == 0:
                return False
            model = added_to_zeros(with_constants(case.model, inputs, 0), wanted.size)
            images, wanted = numpy.zeros((1, wanted.size), "f4"), wanted.reshape(1, -1)
        else:
            images = inputs[0] if inputs else None
            if not isinstance(images, numpy.ndarray) or images.dtype != numpy.float32 or not 2 <= images.ndim <= 5:
                return False
            model = with_constants(case.model, inputs, 1)
        if not outcome(case, computed(model, images, path), wanted):
            return False
    return True


def test_no_backend_test_is_wrong_and_those_that_passed_still_do(tmp_path):
    passed = []
    for case in CASES:
        if documented(case.model):
            passed += [case.name + suffix for suffix, constant in (("", False), (" of constants", True))
                       if passes(case, constant, tmp_path / "model.onnx")]
    if os.environ.get("NEAP_WRITE_PASSED"):
        PASSED.write_text("\n".join(passed) + "\n")
    assert not set(PASSED.read_text().splitlines()) - set(passed)


def test_the_list_is_long_enough():
    assert len(PASSED.read_text().splitlines()) > 250
