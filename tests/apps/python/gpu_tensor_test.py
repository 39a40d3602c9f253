"""Images in a GPU's memory: what a session on the CPU makes of them, and on a machine with a GPU and PyTorch, training on them."""
import ctypes
import json

import numpy
import pytest

import neap

CUDA = 2  # of DLDeviceType


class _Tensor(ctypes.Structure):  # DLTensor
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
                ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
                ("byte_offset", ctypes.c_uint64)]


class _Managed(ctypes.Structure):  # DLManagedTensor
    _fields_ = [("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


class PretendedTensor:
    """Says that the values are in the memory of a GPU, where they are not: for what never reads them there."""

    def __init__(self, values, gpu=1):
        self.values = values
        self._shape = (ctypes.c_int64 * values.ndim)(*values.shape)
        self._managed = _Managed(_Tensor(values.ctypes.data, CUDA, gpu, values.ndim, 2, 32, 1, self._shape, None, 0))

    def __dlpack_device__(self):
        return CUDA, self._managed.tensor.device_id

    def __dlpack__(self, **_):
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return new(ctypes.addressof(self._managed), b"dltensor", None)

    def cpu(self):
        return self.values


def test_a_session_does_not_read_images_in_the_memory_of_another_device(small_net, batches):
    images, labels = batches[0]
    tensor = PretendedTensor(numpy.ascontiguousarray(images, "f4"))
    with neap.Session(small_net, device="cpu") as session:
        with pytest.raises(neap.Error, match="the images are in the memory of cuda:1, but the session's device is cpu"):
            session.step(tensor, labels)
        with pytest.raises(neap.Error, match="images have the shape"):
            session.begin(PretendedTensor(numpy.zeros((16, 2, 8, 8), "f4")), labels)
        assert session.step(images, labels) > 0


def test_labels_and_evaluated_images_are_copied_to_the_host(small_net, batches):
    images, labels = batches[0]
    labels = numpy.asarray(labels, "i4")
    tensor = PretendedTensor(numpy.ascontiguousarray(images, "f4"))
    with neap.Session(small_net, device="cpu") as session, neap.Session(small_net, device="cpu") as other:
        assert session.step(images, PretendedTensor(labels)) == other.step(images, labels)
        assert session.evaluate(tensor, PretendedTensor(labels)) == other.evaluate(images, labels)
        assert (session.predict(tensor) == other.predict(images)).all()


@pytest.fixture
def torch():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    if not torch.cuda.is_available():
        pytest.skip("there is no GPU")
    return torch


def trained(net, batches):
    with neap.Session(net, device="cuda:0", strict=True) as session:
        losses = [session.step(images, labels) for images, labels in batches]
        session.fit(batches, on_step=lambda result: losses.append(result.loss))
        return losses, session.state_dict()


def test_tensors_on_the_gpu_train_to_the_same_bits(torch, small_net, batches):
    on_gpu = [(torch.from_numpy(images).cuda(), torch.from_numpy(labels).cuda()) for images, labels in batches]
    losses, state = trained(small_net, batches)
    others, other_state = trained(small_net, on_gpu)
    assert losses == others
    for name, values in state.items():
        assert (values == other_state[name]).all(), name


def test_tensors_of_another_type_or_order_are_read_as_they_are_given(torch, small_net, batches):
    def copies():
        for images, labels in batches * 4:
            tensor = torch.from_numpy(images).cuda()
            for given in (tensor.double(), tensor.to(memory_format=torch.channels_last), tensor.half()):
                yield given, labels

    expected = []
    with neap.Session(small_net, device="cuda:0", strict=True) as session:
        for images, labels in batches * 4:
            halves = numpy.asarray(images, "f2").astype("f4")
            expected += [session.step(values, labels) for values in (images, images, halves)]
    losses = []
    with neap.Session(small_net, device="cuda:0", strict=True) as session:
        session.fit(copies(), on_step=lambda result: losses.append(result.loss))
    assert losses == expected


def test_a_step_reads_what_pytorch_has_enqueued_before(torch, small_net, batches):
    images, labels = batches[0]
    with neap.Session(small_net, device="cuda:0") as session, neap.Session(small_net, device="cuda:0") as other:
        product = torch.rand(4096, 4096, device="cuda")
        late = torch.zeros(images.shape, device="cuda")
        given = torch.from_numpy(images).cuda()
        for _ in range(20):  # keeps the GPU busy for longer than a step takes to be enqueued
            product = product @ product.clamp(0, 1e-3)
        late += given
        assert session.step(late, labels) == other.step(images, labels)


def bytes_to_the_gpu(torch, call, trace):
    """What the host sends while `call` runs, by CUPTI's trace."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        call()
    profile.export_chrome_trace(str(trace))
    events = json.loads(trace.read_text())["traceEvents"]
    return sum(event["args"]["bytes"] for event in events if event.get("cat") == "gpu_memcpy" and "HtoD" in event["name"])


def test_images_on_the_gpu_do_not_pass_through_the_host(torch, tmp_path):
    net = neap.nets.resnet18(batch=16)
    images, labels = numpy.random.default_rng(1).random((16, 3, 224, 224), "f4"), numpy.arange(16)
    with neap.Session(net, device="cuda:0", dtype="bf16") as session:
        sent = []
        for given in (images, torch.from_numpy(images).cuda()):
            session.step(given, labels)
            sent.append(bytes_to_the_gpu(torch, lambda given=given: session.step(given, labels), tmp_path / "trace.json"))
    assert images.nbytes // 2 <= sent[0] < images.nbytes  # as bf16
    assert 0 < sent[1] < 4096  # labels, learning rate, seed
