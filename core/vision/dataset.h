// Labelled images in the form that a network reads: floats, normalised, of the network's size, in
// any order.
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
  constexpr int64_t elements() const { return c * h * w; }
  friend bool operator==(const ImageShape&, const ImageShape&) = default;
};
std::string ToString(const ImageShape& shape);  // "3x32x32"

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
  // The number of labels of an image: 1, or H x W if every pixel is labelled.
  virtual int64_t labels() const { return 1; }
  // Image `index` in [0, size): shape().elements() floats, C x H x W, and its labels().
  // Errors: DATA_LOSS naming file and byte; INVALID_ARGUMENT for an index outside.
  virtual absl::Status Read(int64_t index, float* pixels, int32_t* labels) const = 0;

  // Whether images are decoded from files of their own, which takes milliseconds for each, so that
  // every image is worth a thread; and whether there is a ReadView().
  virtual bool decodes() const { return false; }
  // Like Read(), but a random crop of the image, for training. Errors: also UNIMPLEMENTED.
  virtual absl::Status ReadView(int64_t index, const RandomView& view, float* pixels,
                                int32_t* labels) const;
};

// Formats without a part for validation take the one for tests.
enum class Split : uint8_t { kTrain, kTest, kValidation };
// "train", "test" or "val". INVALID_ARGUMENT for any other text.
absl::StatusOr<Split> ParseSplit(std::string_view text);

struct DatasetOptions {
  Split split = Split::kTrain;
  std::optional<ImageShape> shape = {};  // images are resized to it; nullopt: they keep their shape
  // "imagefolder" only. If it is set, a file that cannot be read or decoded is no error: it is
  // called with the error, from any thread and for each time that the file is read, and the next
  // image of the dataset takes the place of the file's.
  std::function<void(const absl::Status&)> on_bad_file = {};
  bool allow_empty_classes = false;  // also "imagefolder": a class without images is no error
  bool apply_orientation = false;    // also "imagefolder": turn photographs as their EXIF data says
  // The remaining options apply to "synthetic" only.
  bool label_pixels = false;  // one label for each pixel instead of each image
  int64_t classes = 10;
  int64_t size = 0;  // 0: 50,000 to train, 10,000 to test
  uint64_t seed = 1;
};

// `spec` is one of
//   idx:DIR       MNIST's format: {train,t10k or test}-{images-idx3,labels-idx1}-ubyte, any size
//   cifar10:DIR   data_batch_{1..5}.bin, test_batch.bin
//   cifar100:DIR  {train,test}.bin, the 100 fine classes
//   imagefolder:DIR  a folder of JPEG and PNG files for each class (core/vision/image_folder.h),
//                 3x224x224 unless `shape` is given; splits are DIR/train and DIR/val, if there are
//   DIR           a folder, whose format its files tell (DatasetSpec())
//   synthetic     generated from a seed (core/vision/synthetic.h), 3x32x32 unless `shape` is given
// Errors: INVALID_ARGUMENT for another spec or shape, or for `label_pixels` if the dataset has no
// such labels; NOT_FOUND naming a missing file; DATA_LOSS naming file and byte; UNIMPLEMENTED for
// imagefolder in a build without the libraries that decode images, naming their packages.
absl::StatusOr<std::unique_ptr<Dataset>> OpenDataset(std::string_view spec,
                                                     const DatasetOptions& options);

// The spec for the path of a folder: "idx:DIR" or the like if it has files of that format, and
// otherwise "imagefolder:DIR". Any other text is returned as it is.
std::string DatasetSpec(const std::string& text);

}  // namespace neap
