"""Datasets and loaders."""
import shutil
import struct
import zlib

import numpy
import pytest

import neap
from conftest import DIGITS


def test_a_dataset_has_images_and_labels(digits):
    assert digits.shape == (1, 8, 8)
    assert digits.classes == 10
    images, labels = digits.read(3, 5)
    assert images.shape == (5, 1, 8, 8) and images.dtype == numpy.float32
    assert labels.shape == (5,) and labels.dtype == numpy.int32
    assert len(neap.open_dataset(DIGITS, "test")) < len(digits)
    assert neap.open_dataset(DIGITS, shape=(1, 12, 12)).read(0, 1)[0].shape == (1, 1, 12, 12)


def test_a_dataset_is_a_sequence_of_images_and_labels(digits):
    images, labels = digits.read(0, len(digits))
    image, label = digits[3]
    assert numpy.array_equal(image, images[3]) and label == labels[3]
    assert numpy.array_equal(digits[-1][0], images[-1])
    assert [int(label) for _, label in digits] == labels.tolist()
    for outside in (len(digits), -len(digits) - 1):
        with pytest.raises(IndexError):
            digits[outside]


def grey_png(rows):
    """A PNG file of grey pixels, whose rows are given."""
    def chunk(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    header = struct.pack(">IIBBBBB", len(rows[0]), len(rows), 8, 0, 0, 0, 0)
    pixels = b"".join(bytes([0, *row]) for row in rows)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(pixels)) +
            chunk(b"IEND", b""))


def png(shade):
    """A PNG file of one grey pixel."""
    return grey_png([[shade]])


def test_folders_of_images_have_splits_and_may_have_empty_classes(tmp_path):
    for split, shades in (("train", (10, 20, 30)), ("val", (40,)), ("test", (50, 60))):
        for number, shade in enumerate(shades):
            folder = tmp_path / split / "grey"
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f"{number}.png").write_bytes(png(shade))
        (tmp_path / split / "none").mkdir()
    spec = f"imagefolder:{tmp_path}"
    with pytest.raises(neap.Error, match="allow empty classes"):
        neap.open_dataset(spec)
    options = {"shape": (3, 4, 4), "allow_empty_classes": True}
    train = neap.open_dataset(spec, apply_orientation=True, **options)
    assert len(train) == 3 and train.classes == 2 and train.shape == (3, 4, 4)
    for split, size, shade in (("test", 2, 50), ("val", 1, 40)):
        held_out = neap.open_dataset(spec, split, **options)
        image, label = held_out[0]
        assert len(held_out) == size and label == 0
        # torchvision's normalisation of the first channel
        assert image[0] == pytest.approx(numpy.full((4, 4), (shade / 255 - 0.485) / 0.229), abs=1e-5)
    shutil.rmtree(tmp_path / "val")
    assert len(neap.open_dataset(spec, "val", **options)) == 2  # which is then that of "test"
    with pytest.raises(neap.Error, match="'train', 'test' and 'val'"):
        neap.open_dataset(spec, "validation")


@pytest.mark.parametrize("spec, argument", [("synthetic", "allow_empty_classes"), ("volumes:nowhere", "apply_orientation"),
                                            ("masks:nowhere", "apply_orientation"), ("masks:nowhere", "foreground")])
def test_an_argument_for_another_format_is_refused(spec, argument):
    with pytest.raises(neap.Error, match=f"{argument} is for "):
        neap.open_dataset(spec, **{argument: 1.0 if argument == "foreground" else True})


def test_pixels_can_be_labelled():
    dataset = neap.open_dataset("synthetic", shape=(3, 16, 24), label_pixels=True, classes=4, size=8)
    images, labels = dataset.read(0, 8)
    assert images.shape == (8, 3, 16, 24) and labels.shape == (8, 16, 24)


def test_an_epoch_has_every_image_once(digits):
    loader = neap.Loader(digits, batch=len(digits) // 4)
    assert len(loader) == 4
    images = numpy.concatenate([x for x, _ in loader])
    distinct = {image.tobytes() for image in images}
    unshuffled = digits.read(0, len(digits))[0]
    assert len(distinct) >= len({image.tobytes() for image in unshuffled}) - len(digits) % 4


def test_batches_depend_on_the_arguments_alone(digits):
    def take(count, **options):
        loader = iter(neap.Loader(digits, batch=8, **options))
        return [next(loader)[0] for _ in range(count)]

    first = take(6, seed=5, shift=1)
    assert numpy.array_equal(first, take(6, seed=5, shift=1))
    assert numpy.array_equal(first[4:], take(2, seed=5, shift=1, first_step=4))
    assert not numpy.array_equal(first, take(6, seed=6, shift=1))
    assert numpy.array_equal(take(1, shuffle=False)[0], digits.read(0, 8)[0])


def test_a_loader_keeps_its_dataset():
    loader = neap.Loader(neap.open_dataset("synthetic", size=20, shape=(1, 4, 4)), batch=10)
    assert sum(len(labels) for _, labels in loader) == 20


@pytest.mark.parametrize("spec, arguments, text", [
    ("idx:nowhere", {}, "nowhere"),
    ("numbers", {}, "numbers"),
    ("synthetic", {"split": "validation"}, "validation"),
])
def test_datasets_that_do_not_exist(spec, arguments, text):
    with pytest.raises(neap.Error, match=text):
        neap.open_dataset(spec, **arguments)


def test_ranges_outside_are_refused(digits):
    with pytest.raises(neap.Error):
        digits.read(len(digits), 1)
    with pytest.raises(neap.Error):
        neap.Loader(digits, batch=0)


def test_masks_are_read_with_their_images(tmp_path):
    mask = [[0, 1, 2], [255, 1, 0]]
    for folder, rows in (("images", [[10, 20, 30], [40, 50, 60]]), ("masks", mask)):
        (tmp_path / folder).mkdir()
        for stem in "abc":
            (tmp_path / folder / f"{stem}.png").write_bytes(grey_png(rows))
    masks = neap.open_dataset(f"masks:{tmp_path}", shape=(3, 2, 3))
    assert len(masks) == 3 and masks.classes == 3 and masks.shape == (3, 2, 3)
    images, labels = masks.read(0, 2)
    assert images.shape == (2, 3, 2, 3) and labels.shape == (2, 2, 3)
    assert labels[1].tolist() == [[0, 1, 2], [-1, 1, 0]]
    assert images[0, 0, 1, 2] == pytest.approx((60 / 255 - 0.485) / 0.229, abs=1e-5)
    epoch = list(neap.Loader(masks, 1, crop=True))
    assert len(epoch) == 3 and all(labels.shape == (1, 2, 3) for _, labels in epoch)
    assert neap.open_dataset(f"masks:{tmp_path}", classes=7).classes == 7
    with pytest.raises(neap.Error, match="labelled pixels, and tokens, cannot be moved"):
        neap.Loader(masks, 1, flip=True)


def test_patches_of_volumes_are_normalised_and_drawn_at_random(tmp_path):
    voxels = numpy.random.default_rng(1).normal(3, 2, (2, 6, 7, 8)).astype(numpy.float32)  # C, D, H, W
    classes = numpy.zeros((6, 7, 8), numpy.uint8)
    classes[0, 0, 0] = 1
    for folder, values in (("images", voxels), ("labels", classes)):
        (tmp_path / folder).mkdir()
        numpy.save(tmp_path / folder / "case.npy", values)
    scans = neap.open_dataset(f"volumes:{tmp_path}", shape=(2, 4, 3, 6), foreground=1)
    assert len(scans) == 1 and scans.classes == 2 and scans.shape == (2, 4, 3, 6)
    wide = voxels.astype(numpy.float64)
    normal = (wide - wide.mean((1, 2, 3), keepdims=True)) / wide.std((1, 2, 3), keepdims=True)
    patch, labels = scans[0]
    assert patch == pytest.approx(normal[:, 1:5, 2:5, 1:7], abs=1e-5) and not labels.any()
    patches, labels = next(iter(neap.Loader(scans, 3)))
    assert patches.shape == (3, 2, 4, 3, 6) and labels.shape == (3, 4, 3, 6)
    assert (labels.reshape(3, -1).sum(1) == 1).all()  # all have the voxel of foreground
    numpy.save(tmp_path / "images/case.npy", numpy.asfortranarray(voxels))
    assert numpy.array_equal(neap.open_dataset(f"volumes:{tmp_path}", shape=(2, 4, 3, 6))[0][0], patch)


def test_windows_of_tokens_are_followed_by_their_labels(tmp_path):
    tokens = numpy.arange(100, 0, -1, dtype=numpy.uint16)
    tokens.tofile(tmp_path / "train.bin")
    tokens[:20].tofile(tmp_path / "val.bin")
    text = neap.open_dataset(f"tokens:{tmp_path}", shape=(8,))
    assert len(text) == 12 and text.classes == 101 and text.shape == (8,)
    windows, labels = text.read(0, 12)
    assert windows.dtype == labels.dtype == numpy.int32 and windows.shape == labels.shape == (12, 8)
    assert windows.ravel().tolist() == tokens[:96].tolist() and labels.ravel().tolist() == tokens[1:97].tolist()
    windows, labels = next(iter(neap.Loader(text, 50, seed=3)))
    assert (windows[:, 1:] == labels[:, :-1]).all() and (labels == windows - 1).all()
    assert len(set(windows[:, 0].tolist())) > 20  # they begin anywhere
    assert len(neap.open_dataset(f"tokens:{tmp_path}", "val", shape=(8,))) == 2
    with pytest.raises(ValueError, match="channels, height, width"):
        neap.open_dataset(f"tokens:{tmp_path}", shape=(8, 8))


def test_a_network_of_tokens_is_evaluated_on_a_text(tmp_path):
    tokens = numpy.random.default_rng(1).integers(0, 11, 81).astype(numpy.uint16)
    tokens.tofile(tmp_path / "train.bin")
    tokens.tofile(tmp_path / "val.bin")
    text = neap.open_dataset(f"tokens:{tmp_path}", "val", shape=(8,), classes=11)
    windows, labels = text.read(0, len(text))
    net = neap.nets.gpt2(batch=4, image=8, classes=11, depth=1)
    with neap.Session(net, device="cpu") as session:
        found = session.evaluate(text)
        of_arrays = session.evaluate((windows, labels))
        parts = [session.evaluate_feeds({"input": windows[first:first + 4], "labels": labels[first:first + 4]})
                 for first in range(0, len(windows), 4)]
        trained = session.fit(neap.Loader(text, 4), val=text)
    wanted = sum(part.loss * part.labels for part in parts) / sum(part.labels for part in parts)
    assert found.loss == pytest.approx(wanted, rel=1e-6)
    assert found == of_arrays
    assert len(trained.val) == 1
