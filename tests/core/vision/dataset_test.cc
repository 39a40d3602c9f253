#include "neap/core/vision/dataset.h"

#include <doctest/doctest.h>

#include <set>
#include <vector>

#include "absl/strings/match.h"
#include "neap/core/base/crc32.h"
#include "tests/scratch_directory.h"
#include "tests/source_tree.h"

namespace neap {
namespace {

struct StoredSample {
  absl::Status status;
  std::vector<float> pixels;
  int32_t label = -1;
};

StoredSample ReadSample(const Dataset& dataset, int64_t index) {
  StoredSample sample;
  sample.pixels.resize(static_cast<size_t>(dataset.shape().elements()));
  sample.status = dataset.Read(index, sample.pixels.data(), &sample.label);
  return sample;
}

std::unique_ptr<Dataset> MustOpen(const std::string& spec, const DatasetOptions& options = {}) {
  absl::StatusOr<std::unique_ptr<Dataset>> dataset = OpenDataset(spec, options);
  CAPTURE(std::string(dataset.status().message()));
  REQUIRE(dataset.ok());
  return *std::move(dataset);
}

// Checks that opening fails with this code, naming the file and the byte.
void CheckRefused(const std::string& spec, absl::StatusCode code, const std::string& complaint,
                  Split split = Split::kTrain) {
  const absl::Status status = OpenDataset(spec, {.split = split}).status();
  CAPTURE(std::string(status.message()));
  CHECK(status.code() == code);
  CHECK(absl::StrContains(std::string(status.message()), complaint));
}

std::string BigEndian(std::initializer_list<uint32_t> values) {
  std::string bytes;
  for (uint32_t value : values) {
    for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(value >> shift & 0xFF);
  }
  return bytes;
}

// Three training images of 2x2 with labels 0, 1, 4.
const std::string kImages =
    BigEndian({0x803, 3, 2, 2}) + std::string("\0\x33\x66\xff", 4) + "bbbbcccc";
const std::string kLabels = BigEndian({0x801, 3}) + std::string("\0\1\4", 3);

void WriteIdx(const ScratchDirectory& directory, std::string_view images, std::string_view labels) {
  WriteText(directory.File("train-images-idx3-ubyte"), images);
  WriteText(directory.File("train-labels-idx1-ubyte"), labels);
}

TEST_CASE("the digits that come with neap can be opened: 1437 to train, 360 to test, 8x8") {
  const std::string spec = "idx:" + (SourceTree() / "examples/data/digits").string();
  for (const auto& [split, size] : {std::pair{Split::kTrain, 1437}, std::pair{Split::kTest, 360}}) {
    const std::unique_ptr<Dataset> digits = MustOpen(spec, {.split = split});
    CHECK(digits->size() == size);
    CHECK(digits->classes() == 10);
    CHECK(digits->shape() == ImageShape{1, 8, 8});
    std::set<int32_t> labels;
    for (int64_t i = 0; i < digits->size(); ++i) {
      const StoredSample sample = ReadSample(*digits, i);
      REQUIRE(sample.status.ok());
      labels.insert(sample.label);
    }
    CHECK(labels.size() == 10);
  }
  CHECK(MustOpen(spec, {.shape = {{3, 28, 28}}})->shape() == ImageShape{3, 28, 28});
}

TEST_CASE("idx images and labels are read and normalised as MNIST's are") {
  const ScratchDirectory directory;
  WriteIdx(directory, kImages, kLabels);
  const std::unique_ptr<Dataset> dataset = MustOpen("idx:" + directory.path());
  CHECK(dataset->size() == 3);
  CHECK(dataset->classes() == 5);
  const StoredSample sample = ReadSample(*dataset, 0);
  REQUIRE(sample.status.ok());
  CHECK(sample.label == 0);
  CHECK(sample.pixels[1] == doctest::Approx((0.2 - 0.1307) / 0.3081).epsilon(1e-4));
  CHECK(ReadSample(*dataset, 2).label == 4);
  CHECK(absl::IsInvalidArgument(ReadSample(*dataset, 3).status));
  CHECK(absl::IsInvalidArgument(ReadSample(*dataset, -1).status));
}

TEST_CASE("the test split of idx is called t10k or test, and knows the classes of both splits") {
  for (const std::string prefix : {"t10k", "test"}) {
    const ScratchDirectory directory;
    WriteIdx(directory, kImages, kLabels);
    WriteText(directory.File(prefix + "-images-idx3-ubyte"), BigEndian({0x803, 1, 2, 2}) + "aaaa");
    WriteText(directory.File(prefix + "-labels-idx1-ubyte"), BigEndian({0x801, 1}) + "\1");
    const auto dataset = MustOpen("idx:" + directory.path(), {.split = Split::kTest});
    CHECK(dataset->size() == 1);
    CHECK(dataset->classes() == 5);
  }
}

TEST_CASE("damaged idx files are refused with file and byte") {
  const ScratchDirectory directory;
  const std::string spec = "idx:" + directory.path();
  constexpr auto kLoss = absl::StatusCode::kDataLoss;
  CheckRefused(spec, absl::StatusCode::kNotFound, "train-images-idx3-ubyte");
  WriteText(directory.File("train-images-idx3-ubyte"), kImages);
  CheckRefused(spec, absl::StatusCode::kNotFound, "train-labels-idx1-ubyte");
  CheckRefused(spec, absl::StatusCode::kNotFound, "test-images-idx3-ubyte", Split::kTest);
  WriteIdx(directory, "", kLabels);
  CheckRefused(spec, kLoss, "images-idx3-ubyte: byte 0: the file ends 4 bytes too early");
  WriteIdx(directory, kLabels, kLabels);
  CheckRefused(spec, kLoss, "images-idx3-ubyte: byte 0: not an IDX file of bytes with 3 extents");
  WriteIdx(directory, kImages.substr(0, 10), kLabels);
  CheckRefused(spec, kLoss, "images-idx3-ubyte: byte 10: the file ends 2 bytes too early");
  WriteIdx(directory, kImages.substr(0, 20), kLabels);
  CheckRefused(spec, kLoss, "images-idx3-ubyte: byte 20: the file holds 4 bytes of data, not 12");
  WriteIdx(directory, kImages + "x", kLabels);
  CheckRefused(spec, kLoss, "images-idx3-ubyte: byte 28: the file holds 13 bytes of data, not 12");
  WriteIdx(directory, BigEndian({0x803, 3, 0, 2}), kLabels);
  CheckRefused(spec, kLoss, "images-idx3-ubyte: byte 8: an extent of 0");
  WriteIdx(directory, BigEndian({0x803, 0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF}), kLabels);
  CheckRefused(spec, kLoss, "images-idx3-ubyte: byte ");
  WriteIdx(directory, kImages, kLabels.substr(0, 10));
  CheckRefused(spec, kLoss, "labels-idx1-ubyte: byte 10: the file holds 2 bytes of data, not 3");
  WriteIdx(directory, kImages, BigEndian({0x801, 2}) + "ab");
  CheckRefused(spec, kLoss, "labels-idx1-ubyte: byte 4: 2 labels for the 3 images of");
}

// Compressed by gzip, though not to fewer bytes.
std::string Gzipped(const std::string& bytes) {
  const auto little_endian = [](size_t value, int size) {
    std::string text;
    for (int i = 0; i < size; ++i) text += static_cast<char>(value >> 8 * i & 0xFF);
    return text;
  };
  Crc32 crc;
  crc.Add({reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()});
  return std::string("\x1f\x8b\x08\0\0\0\0\0\0\x03\x01", 11) + little_endian(bytes.size(), 2) +
         little_endian(~bytes.size(), 2) + bytes + little_endian(crc.value(), 4) +
         little_endian(bytes.size(), 4);
}

TEST_CASE("idx files compressed by gzip are read like those that are not, and as carefully") {
  const ScratchDirectory plain;
  WriteIdx(plain, kImages, kLabels);
  const ScratchDirectory directory;
  const std::string spec = "idx:" + directory.path();
  const auto write = [&](const std::string& images, const std::string& labels) {
    WriteText(directory.File("train-images-idx3-ubyte.gz"), images);
    WriteText(directory.File("train-labels-idx1-ubyte.gz"), labels);
  };
  write(Gzipped(kImages), Gzipped(kLabels));
  const auto expected = MustOpen("idx:" + plain.path());
  const auto dataset = MustOpen(spec);
  CHECK(dataset->size() == 3);
  CHECK(dataset->classes() == 5);
  for (int64_t i = 0; i < 3; ++i) {
    CHECK(ReadSample(*dataset, i).pixels == ReadSample(*expected, i).pixels);
    CHECK(ReadSample(*dataset, i).label == ReadSample(*expected, i).label);
  }

  constexpr auto kLoss = absl::StatusCode::kDataLoss;
  write(kImages, Gzipped(kLabels));
  CheckRefused(spec, kLoss, "images-idx3-ubyte.gz: byte ");
  write(Gzipped(kImages + "x"), Gzipped(kLabels));
  CheckRefused(spec, kLoss, "images-idx3-ubyte.gz: byte 28: the file holds 13 bytes of data");
  write(Gzipped(kImages.substr(0, 20)), Gzipped(kLabels));
  CheckRefused(spec, kLoss, "images-idx3-ubyte.gz: byte 20: the file holds 4 bytes of data");
  write(Gzipped(BigEndian({0x803, 0xFFFFFFFF, 0x7FFFFF, 1}) + "abc"), Gzipped(kLabels));
  CheckRefused(spec, kLoss, "images-idx3-ubyte.gz: byte 19: the file holds 3 bytes of data");
  std::string damaged = Gzipped(kImages);
  damaged[20] ^= 1;
  write(damaged, Gzipped(kLabels));
  CheckRefused(spec, kLoss, "incorrect data check");
}

TEST_CASE("an idx file cut while it is in use is DATA_LOSS for the missing images") {
  const ScratchDirectory directory;
  WriteIdx(directory, kImages, kLabels);
  const std::unique_ptr<Dataset> dataset = MustOpen("idx:" + directory.path());
  std::filesystem::resize_file(directory.File("train-images-idx3-ubyte"), 22);
  CHECK(ReadSample(*dataset, 0).status.ok());
  const StoredSample sample = ReadSample(*dataset, 1);
  CHECK(absl::IsDataLoss(sample.status));
  CHECK(absl::StrContains(std::string(sample.status.message()), "byte 22"));
}

std::string CifarRecord(std::string_view labels, char red, char green, char blue) {
  return std::string(labels) + std::string(1024, red) + std::string(1024, green) +
         std::string(1024, blue);
}

TEST_CASE("cifar10 reads five files as one") {
  const ScratchDirectory directory;
  for (char i = 0; i < 5; ++i) {
    std::string bytes;
    for (char j = 0; j <= i; ++j) bytes += CifarRecord(std::string(1, i), '\0', j, '\x7f');
    WriteText(directory.File("data_batch_" + std::to_string(i + 1) + ".bin"), bytes);
  }
  const std::unique_ptr<Dataset> dataset = MustOpen("cifar10:" + directory.path());
  CHECK(dataset->size() == 15);
  CHECK(dataset->classes() == 10);
  CHECK(dataset->shape() == ImageShape{3, 32, 32});
  const int32_t expected[] = {0, 1, 1, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 4};
  for (int64_t i = 0; i < 15; ++i) CHECK(ReadSample(*dataset, i).label == expected[i]);
  const StoredSample sample = ReadSample(*dataset, 14);
  CHECK(sample.pixels[0] == doctest::Approx(-0.4914 / 0.2470).epsilon(1e-4));
  CHECK(sample.pixels[1024] == doctest::Approx((4 / 255.0 - 0.4822) / 0.2435).epsilon(1e-4));
  CHECK(sample.pixels[3071] == doctest::Approx((127 / 255.0 - 0.4465) / 0.2616).epsilon(1e-4));
  CHECK(absl::IsInvalidArgument(ReadSample(*dataset, 15).status));
  CheckRefused("cifar10:" + directory.path(), absl::StatusCode::kNotFound, "test_batch.bin",
               Split::kTest);
}

TEST_CASE("cifar100 takes the fine class") {
  const ScratchDirectory directory;
  WriteText(directory.File("test.bin"), CifarRecord("\x07\x63", 1, 2, 3));
  const auto dataset = MustOpen("cifar100:" + directory.path(), {.split = Split::kTest});
  CHECK(dataset->classes() == 100);
  CHECK(ReadSample(*dataset, 0).label == 99);
}

TEST_CASE("damaged cifar files are refused with file and byte") {
  const ScratchDirectory directory;
  const std::string spec = "cifar100:" + directory.path();
  constexpr auto kLoss = absl::StatusCode::kDataLoss;
  CheckRefused(spec, absl::StatusCode::kNotFound, "train.bin");
  const std::string record = CifarRecord("ab", 1, 2, 3);
  WriteText(directory.File("train.bin"), "");
  CheckRefused(spec, kLoss, "train.bin: byte 0: ");
  WriteText(directory.File("train.bin"), record + record.substr(0, 100));
  CheckRefused(spec, kLoss,
               "train.bin: byte 3174: the file ends within the record of 3074 bytes "
               "that starts at 3074");
  WriteText(directory.File("train.bin"), record + CifarRecord("a\x64", 1, 2, 3));
  const StoredSample sample = ReadSample(*MustOpen(spec), 1);
  CHECK(absl::IsDataLoss(sample.status));
  CHECK(absl::StrContains(std::string(sample.status.message()), "byte 3075: label 100 of 100"));
}

// Classifies by the nearest mean image of each class, as learnt from `train`.
double NearestMeanAccuracy(const Dataset& train, const Dataset& test) {
  std::vector<std::vector<double>> means(
      static_cast<size_t>(train.classes()),
      std::vector<double>(static_cast<size_t>(train.shape().elements())));
  for (int64_t i = 0; i < train.size(); ++i) {
    const StoredSample sample = ReadSample(train, i);
    std::vector<double>& mean = means[static_cast<size_t>(sample.label)];
    for (size_t j = 0; j < mean.size(); ++j) {
      mean[j] += sample.pixels[j] * static_cast<double>(train.classes()) /
                 static_cast<double>(train.size());
    }
  }
  int64_t right = 0;
  for (int64_t i = 0; i < test.size(); ++i) {
    const StoredSample sample = ReadSample(test, i);
    double best = 1e30;
    int32_t guess = -1;
    for (size_t c = 0; c < means.size(); ++c) {
      double distance = 0;
      for (size_t j = 0; j < means[c].size(); ++j) {
        distance += (sample.pixels[j] - means[c][j]) * (sample.pixels[j] - means[c][j]);
      }
      if (distance < best) best = distance, guess = static_cast<int32_t>(c);
    }
    right += guess == sample.label ? 1 : 0;
  }
  return static_cast<double>(right) / static_cast<double>(test.size());
}

TEST_CASE("what is learnt from synthetic training images holds for the test images") {
  for (const ImageShape shape : {ImageShape{3, 32, 32}, ImageShape{1, 7, 13}}) {
    const DatasetOptions train = {.shape = shape, .classes = 10, .size = 300};
    DatasetOptions test = train;
    test.split = Split::kTest;
    CHECK(NearestMeanAccuracy(*MustOpen("synthetic", train), *MustOpen("synthetic", test)) > 0.95);
  }
}

TEST_CASE("a synthetic image depends on seed, split and index alone") {
  const DatasetOptions options = {.shape = {{3, 9, 5}}, .size = 40};
  const std::unique_ptr<Dataset> dataset = MustOpen("synthetic", options);
  CHECK(ReadSample(*dataset, 3).pixels == ReadSample(*MustOpen("synthetic", options), 3).pixels);
  CHECK(ReadSample(*dataset, 13).label == 3);
  CHECK(ReadSample(*dataset, 3).pixels != ReadSample(*dataset, 13).pixels);
  DatasetOptions other = options;
  other.seed = 2;
  CHECK(ReadSample(*dataset, 3).pixels != ReadSample(*MustOpen("synthetic", other), 3).pixels);
  other = options;
  other.split = Split::kTest;
  CHECK(ReadSample(*dataset, 3).pixels != ReadSample(*MustOpen("synthetic", other), 3).pixels);
  CHECK(absl::IsInvalidArgument(ReadSample(*dataset, 40).status));
}

TEST_CASE("synthetic has default sizes and refuses invalid options") {
  CHECK(MustOpen("synthetic")->size() == 50'000);
  CHECK(MustOpen("synthetic", {.split = Split::kTest})->size() == 10'000);
  CHECK(MustOpen("synthetic")->shape() == ImageShape{3, 32, 32});
  for (const DatasetOptions& bad : {DatasetOptions{.classes = 0}, DatasetOptions{.size = -1},
                                    DatasetOptions{.shape = {{0, 1, 1}}}}) {
    CHECK(absl::IsInvalidArgument(OpenDataset("synthetic", bad).status()));
  }
}

TEST_CASE("an unknown dataset is refused with a list of the known ones") {
  for (const std::string spec : {"imagenet:x", "idx", "idx:", "cifar10:", "masks:", "volumes",
                                 "tokens:", "synthetic:x", ""}) {
    const absl::Status status = OpenDataset(spec, {}).status();
    CHECK(absl::IsInvalidArgument(status));
    CHECK(std::string(status.message()) ==
          "no dataset '" + spec +
              "'; there are imagefolder:DIR, masks:DIR, volumes:DIR, tokens:DIR, tokens32:DIR, "
              "idx:DIR, cifar10:DIR, cifar100:DIR and synthetic");
  }
}

TEST_CASE("a shape that the images cannot take is refused") {
  const ScratchDirectory directory;
  WriteIdx(directory, kImages, kLabels);
  CHECK(absl::IsInvalidArgument(
      OpenDataset("idx:" + directory.path(), {.shape = {{1, 0, 0}}}).status()));
}

}  // namespace
}  // namespace neap
