// open_dataset(), Dataset and the iteration of Loader.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "apps/python/arrays.h"
#include "apps/python/bindings.h"
#include "apps/python/errors.h"
#include "apps/python/released.h"
#include "neap/core/vision/loader.h"

namespace neap::python {
namespace {

namespace nb = nanobind;
using nb::literals::operator""_a;

constexpr double kForeground = 1.0 / 3;  // as in DatasetOptions

// {T}, {C, H, W} or {C, D, H, W}.
std::optional<ImageShape> ToImageShape(const std::optional<std::vector<int64_t>>& extents) {
  if (!extents.has_value()) return std::nullopt;
  const std::vector<int64_t>& of = *extents;
  if (of.size() == 1) return ImageShape{.w = of[0]};
  if (of.size() == 3) return ImageShape{.c = of[0], .h = of[1], .w = of[2]};
  if (of.size() == 4) return ImageShape{.c = of[0], .h = of[2], .w = of[3], .d = of[1]};
  throw nb::value_error(
      "shape: (channels, height, width), of volumes (channels, depth, height, width), or of tokens "
      "(tokens,)");
}

// Of the labels of a batch.
std::vector<int64_t> LabelShape(const Dataset& dataset, int64_t images) {
  std::vector<int64_t> shape = dataset.extents();
  if (dataset.tokens() > 0) {
    shape.insert(shape.begin(), images);
  } else if (dataset.labels() == 1) {
    shape = {images};
  } else {
    shape.front() = images;  // instead of the channels
  }
  return shape;
}

nb::tuple ToArrays(const Dataset& dataset, Batch batch) {
  std::vector<int64_t> shape = dataset.extents();
  shape.insert(shape.begin(), batch.size);
  auto labels = ToNumpy(std::move(batch.labels), LabelShape(dataset, batch.size));
  if (dataset.tokens() > 0) return nb::make_tuple(ToNumpy(std::move(batch.tokens), shape), labels);
  return nb::make_tuple(ToNumpy(std::move(batch.images), shape), labels);
}

std::shared_ptr<Dataset> Open(const std::string& spec, const std::string& split,
                              const std::optional<std::vector<int64_t>>& shape,
                              bool allow_empty_classes, bool apply_orientation, double foreground,
                              bool label_pixels, std::optional<int64_t> classes, int64_t size,
                              uint64_t seed) {
  const auto check = [&](const char* argument, bool is_given, const std::string& format) {
    if (!is_given || absl::StartsWith(DatasetSpec(spec), format)) return;
    Raise(absl::InvalidArgumentError(
        absl::StrCat("open_dataset: ", argument, " is for '", format, "DIR' alone")));
  };
  check("allow_empty_classes", allow_empty_classes, "imagefolder:");
  check("apply_orientation", apply_orientation, "imagefolder:");
  check("foreground", foreground != kForeground, "volumes:");
  const DatasetOptions options = {.split = Checked(ParseSplit(split)),
                                  .shape = ToImageShape(shape),
                                  .allow_empty_classes = allow_empty_classes,
                                  .apply_orientation = apply_orientation,
                                  .foreground = foreground,
                                  .label_pixels = label_pixels,
                                  .classes = classes,
                                  .size = size,
                                  .seed = seed};
  return Checked(Released([&] { return OpenDataset(spec, options); }));
}

nb::tuple Read(const Dataset& dataset, int64_t first, int64_t count) {
  return ToArrays(dataset, Checked(Released([&] { return ReadBatch(dataset, first, count); })));
}

// One image and its label, or the labels of its pixels. Throws IndexError, which ends iteration.
nb::tuple At(const Dataset& dataset, int64_t index) {
  const int64_t number = index < 0 ? index + dataset.size() : index;
  if (number < 0 || number >= dataset.size())
    throw nb::index_error("the dataset has no such image");
  const nb::tuple batch = Read(dataset, number, 1);
  return nb::make_tuple(batch[0][0], batch[1][0]);
}

// The endless sequence of batches; Loader in Python divides it into epochs.
class BatchStream {
 public:
  BatchStream(std::shared_ptr<const Dataset> dataset, int64_t batch, bool shuffle, uint64_t seed,
              int64_t shift, bool flip, bool crop, int64_t first_step)
      : dataset_(std::move(dataset)), loader_(Checked(Released([&] {
          return neap::Loader::Create(*dataset_, {.batch = batch,
                                                  .seed = seed,
                                                  .first_step = first_step,
                                                  .shuffle = shuffle,
                                                  .shift = shift,
                                                  .flip = flip,
                                                  .crop = crop});
        }))) {}
  ~BatchStream() {
    Released([&] { loader_.reset(); });
  }
  BatchStream(const BatchStream&) = delete;
  BatchStream& operator=(const BatchStream&) = delete;

  nb::tuple Next() {
    return ToArrays(*dataset_, Checked(Released([&] {
      const std::lock_guard<std::mutex> lock(mutex_);
      return loader_->Next();
    })));
  }

 private:
  const std::shared_ptr<const Dataset> dataset_;
  std::mutex mutex_;  // several threads may take batches
  std::unique_ptr<neap::Loader> loader_;
};

}  // namespace

void BindData(nb::module_& module) {
  nb::class_<Dataset>(module, "Dataset", "Labelled images: open_dataset().")
      .def("__len__", &Dataset::size, "The number of images.")
      .def("__getitem__", At, "index"_a,
           nb::sig("def __getitem__(self, index: int) -> tuple[numpy.ndarray, numpy.ndarray]"),
           "An image and its label.")
      .def_prop_ro("classes", &Dataset::classes, "Labels are from 0 to classes - 1.")
      .def_prop_ro(
          "shape", [](const Dataset& dataset) { return nb::tuple(nb::cast(dataset.extents())); },
          nb::sig("def shape(self) -> tuple[int, ...]"),
          "Of an image: channels, height and width; of a volume channels, depth, height and width; "
          "the number of tokens.")
      .def("read", Read, "first"_a, "count"_a,
           nb::sig("def read(self, first: int, count: int) -> tuple[numpy.ndarray, numpy.ndarray]"),
           "Images and labels of `count` images from number `first` on, fewer at the end.");
  module.def(
      "open_dataset", Open, "spec"_a, "split"_a = "train", nb::kw_only(), "shape"_a = nb::none(),
      "allow_empty_classes"_a = false, "apply_orientation"_a = false, "foreground"_a = kForeground,
      "label_pixels"_a = false, "classes"_a = nb::none(), "size"_a = 0, "seed"_a = 1,
      "Opens 'idx:DIR' (MNIST's format), 'cifar10:DIR', 'cifar100:DIR', 'imagefolder:DIR', a "
      "folder of one of these\nformats, or 'synthetic'. The split is 'train', 'test' or 'val', of "
      "which formats without a part for validation\ntake that for tests. Images are resized to "
      "`shape` (channels, height, width), by default (3, 224, 224) for\nphotographs. In image "
      "folders, a class without images is an error unless `allow_empty_classes`, and\n"
      "`apply_orientation` turns photographs as their EXIF data says.\n\n"
      "With a label for each pixel, voxel or token: 'masks:DIR', images and masks; 'volumes:DIR', "
      "patches of\n.npy and NIfTI files, of `shape` (channels, depth, height, width), of which "
      "a loader draws the share\n`foreground` around a voxel of another class than 0; "
      "'tokens:DIR' (uint16) and 'tokens32:DIR' (uint32),\nwindows of `shape` (tokens,). They "
      "read all labels when they are opened to count the classes, unless\n`classes` says how "
      "many there are. For 'synthetic' that is 10 by default, and the other arguments are\nfor "
      "it alone.");
  nb::class_<BatchStream>(module, "BatchStream", "The endless batches of a Loader.")
      .def(nb::init<std::shared_ptr<const Dataset>, int64_t, bool, uint64_t, int64_t, bool, bool,
                    int64_t>(),
           "dataset"_a, "batch"_a, "shuffle"_a, "seed"_a, "shift"_a, "flip"_a, "crop"_a,
           "first_step"_a)
      .def("next", &BatchStream::Next,
           nb::sig("def next(self) -> tuple[numpy.ndarray, numpy.ndarray]"));
}

}  // namespace neap::python
