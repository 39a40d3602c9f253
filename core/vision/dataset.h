// Labelled images in the form that a network reads: floats, normalised, of the network's size, in
// any order; and volumes, and sequences of tokens, which are read in the same way (core/data).
//
// The formats differ in byte order, colours, sizes and the encoding of classes, which a run must
// not notice, and a damaged file must not become a strange loss three hours later. Every dataset
// therefore checks what it can when it is opened and the rest as it is read, and names the file and
// the byte that is wrong.
//
//   ASSIGN_OR_RETURN(std::unique_ptr<Dataset> digits,
//                    OpenDataset("idx:examples/data/digits",
//                                {.split = Split::kTest, .shape = {{1, 28, 28}}}));
//   std::vector<float> pixels(digits->shape().elements());
//   int32_t label = 0;
//   RETURN_IF_ERROR(digits->Read(0, pixels.data(), &label));
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace neap {

struct ImageShape {
  int64_t c = 1;
  int64_t h = 1;
  int64_t w = 1;
  int64_t d = 1;  // of a volume, C x D x H x W
  constexpr int64_t positions() const { return d * h * w; }
  constexpr int64_t elements() const { return c * positions(); }
  friend bool operator==(const ImageShape&, const ImageShape&) = default;
};
std::string ToString(const ImageShape& shape);  // "3x32x32", "1x16x32x32"

struct RandomView;  // core/vision/image/random_view.h

// *Threads*: safe from several at once.
class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual int64_t size() const = 0;     // images, at least 1
  virtual int64_t classes() const = 0;  // labels are in [0, classes)
  virtual ImageShape shape() const = 0;
  // The names of the classes, by number. Empty if the dataset has only numbers.
  virtual std::vector<std::string> class_names() const { return {}; }
  // The file of an image, or "" if the dataset has no file for each.
  virtual std::string file(int64_t /*index*/) const { return ""; }
  // Sentences on what opening the dataset left out, or took otherwise than a user may expect.
  virtual std::vector<std::string> notices() const { return {}; }
  // The number of labels of an image: 1, or H x W if every pixel is labelled. They may be kNoLabel.
  virtual int64_t labels() const { return 1; }
  // The extents of an image: C, H, W. Of volumes C, D, H, W, and of tokens their number, whatever
  // these are; shape() has 1 for those that it lacks.
  virtual std::vector<int64_t> extents() const { return {shape().c, shape().h, shape().w}; }
  // Image `index` in [0, size): shape().elements() floats, C x H x W, and its labels().
  // Errors: DATA_LOSS naming file and byte; INVALID_ARGUMENT for an index outside.
  virtual absl::Status Read(int64_t index, float* pixels, int32_t* labels) const = 0;

  // Whether images are decoded from files of their own, which takes milliseconds for each, so that
  // every image is worth a thread.
  virtual bool decodes() const { return false; }
  // Whether there is a ReadView(), or ReadTokens() takes a view.
  virtual bool has_views() const { return decodes(); }
  // Like Read(), but a random crop of the image, for training. Errors: also UNIMPLEMENTED.
  virtual absl::Status ReadView(int64_t index, const RandomView& view, float* pixels,
                                int32_t* labels) const;

  // If examples are sequences of integers, such as the numbers of words: how many each has, and its
  // labels(). ReadTokens() then takes the place of Read(), and with a view that of ReadView().
  // Errors: also UNIMPLEMENTED.
  virtual int64_t tokens() const { return 0; }
  virtual absl::Status ReadTokens(int64_t index, const RandomView* view, int32_t* tokens,
                                  int32_t* labels) const;
};

// Formats without a part for validation take the one for tests.
enum class Split : uint8_t { kTrain, kTest, kValidation };
// "train", "test" or "val". INVALID_ARGUMENT for any other text.
absl::StatusOr<Split> ParseSplit(std::string_view text);

struct DatasetOptions {
  Split split = Split::kTrain;
  // Images are resized to it, and volumes are cut; nullopt: they keep their shape, or have that of
  // the dataset. The w of tokens is how many an example has.
  std::optional<ImageShape> shape = {};
  // "imagefolder" only. If it is set, a file that cannot be read or decoded is no error: it is
  // called with the error, from any thread and for each time that the file is read, and the next
  // image of the dataset takes the place of the file's.
  std::function<void(const absl::Status&)> on_bad_file = {};
  bool allow_empty_classes = false;  // also "imagefolder": a class without images is no error
  // Also "imagefolder": turn photographs as their EXIF data says. "masks" refuses it, because the
  // masks have none.
  bool apply_orientation = false;
  // "volumes" only: the share of random patches around a voxel of another class than 0.
  double foreground = 1.0 / 3;
  // One label for each pixel instead of each image, as masks and volumes always have.
  bool label_pixels = false;
  // "synthetic" only: sequences of tokens instead of images (core/data/synthetic_tokens.h).
  bool tokens = false;
  // The classes of "synthetic", 10 unless given. Of masks, volumes and tokens, those of the
  // network, beyond which a label is an error; unless given, opening the dataset reads all labels.
  std::optional<int64_t> classes = {};
  // The remaining options apply to "synthetic" only.
  int64_t size = 0;  // 0: 50,000 to train, 10,000 to test
  uint64_t seed = 1;
};

// `spec` is one of
//   idx:DIR       MNIST's format: {train,t10k or test}-{images-idx3,labels-idx1}-ubyte, any size
//   cifar10:DIR   data_batch_{1..5}.bin, test_batch.bin
//   cifar100:DIR  {train,test}.bin, the 100 fine classes
//   imagefolder:DIR  a folder of JPEG and PNG files for each class (core/vision/image_folder.h),
//                 3x224x224 unless `shape` is given; splits are DIR/train and DIR/val, if there are
//   masks:DIR     images and a mask with the class of each pixel for each of them
//                 (core/vision/mask_folder.h), 3x224x224 unless `shape` is given
//   volumes:DIR   .npy and NIfTI files, and the class of each voxel (core/data/volume_folder.h)
//   tokens:DIR    train.bin and val.bin, uint16; tokens32:DIR: uint32 (core/data/token_windows.h)
//   DIR           a folder, whose format its files tell (DatasetSpec())
//   synthetic     generated from a seed (core/vision/synthetic.h), 3x32x32 unless `shape` is given,
//                 or with `tokens` as core/data/synthetic_tokens.h says
// Errors: INVALID_ARGUMENT for another spec or shape, or for `label_pixels` if the dataset has no
// such labels; NOT_FOUND naming a missing file; DATA_LOSS naming file and byte; UNIMPLEMENTED for
// imagefolder and masks in a build without the libraries that decode images, and for NIfTI files
// in one without its library, naming their packages.
absl::StatusOr<std::unique_ptr<Dataset>> OpenDataset(std::string_view spec,
                                                     const DatasetOptions& options);

// The spec for the path of a folder: "idx:DIR" or the like if it has files of that format, and
// otherwise "imagefolder:DIR". Masks, volumes and tokens are never guessed. Any other text is
// returned as it is.
std::string DatasetSpec(const std::string& text);

}  // namespace neap
