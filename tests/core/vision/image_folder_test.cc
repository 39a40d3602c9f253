#include "neap/core/vision/image_folder.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "neap/core/vision/image/random_view.h"
#include "neap/core/vision/loader.h"
#include "tests/core/vision/image_folders.h"
#include "tests/image_files.h"
#include "tests/scratch_directory.h"

namespace neap {
namespace {

using testing::Gradient;
using testing::JpegBytes;
using testing::MustOpen;
using testing::MustRead;
using testing::Photo;
using testing::PngBytes;
using testing::Sample;
using testing::Solid;
using testing::TestImage;
using testing::Write;

constexpr float kMean[] = {0.485F, 0.456F, 0.406F};
constexpr float kDeviation[] = {0.229F, 0.224F, 0.225F};

// As a number from 0 to 255.
float Denormalised(const Sample& sample, size_t i) {
  const size_t c = i / (sample.pixels.size() / 3);
  return 255 * (sample.pixels[i] * kDeviation[c] + kMean[c]);
}

// A folder of `images` photographs in two classes, of different sizes and formats.
void WritePhotos(const ScratchDirectory& root, int images) {
  for (int i = 0; i < images; ++i) {
    const TestImage photo = Photo(50 + 7 * i, 64 - i, static_cast<uint32_t>(i));
    const std::string name = (i % 2 == 0 ? "cat/" : "dog/") + std::to_string(10 + i);
    Write(root, name + (i % 3 == 0 ? ".png" : ".jpg"),
          i % 3 == 0 ? PngBytes(photo) : JpegBytes(photo));
  }
}

Batch MustBatch(const Dataset& dataset, const LoaderOptions& options, int64_t step) {
  absl::StatusOr<Batch> batch = BatchOfStep(dataset, options, step);
  REQUIRE_MESSAGE(batch.ok(), batch.status().ToString());
  return *std::move(batch);
}

// The pixels as a camera stores them if the 0th row and the 0th column of what it stores are at
// these sides of what it shows, as the EXIF standard describes the orientations.
TestImage StoredFor(const TestImage& shown, int orientation) {
  struct Sides {
    char row, column;
  };
  constexpr Sides kSides[] = {{'t', 'l'}, {'t', 'r'}, {'b', 'r'}, {'b', 'l'},
                              {'l', 't'}, {'r', 't'}, {'r', 'b'}, {'l', 'b'}};
  const Sides sides = kSides[orientation - 1];
  const bool turned = sides.row == 'l' || sides.row == 'r';
  TestImage stored =
      Solid(turned ? shown.height : shown.width, turned ? shown.width : shown.height, 0, 0, 0);
  for (int row = 0; row < stored.height; ++row) {
    for (int column = 0; column < stored.width; ++column) {
      int x = 0;
      int y = 0;
      for (const auto& [side, at] : {std::pair(sides.row, row), {sides.column, column}}) {
        if (side == 'l') x = at;
        if (side == 'r') x = shown.width - 1 - at;
        if (side == 't') y = at;
        if (side == 'b') y = shown.height - 1 - at;
      }
      const uint8_t* const pixel = shown.At(x, y);
      std::copy_n(pixel, 3, stored.rgb.begin() + 3 * (row * stored.width + column));
    }
  }
  return stored;
}

TEST_CASE("photographs are turned as their EXIF data says, if that is wanted, crops too") {
  const TestImage photo = Photo(90, 61, 4);
  const ScratchDirectory upright;
  Write(upright, "a/1.png", PngBytes(photo));
  ImageFolderOptions options = {.shape = {{3, 40, 56}}};  // JPEG files are not reduced
  const auto expected = MustOpen(upright, options);
  options.apply_orientation = true;
  for (int orientation = 1; orientation <= 8; ++orientation) {
    CAPTURE(orientation);
    for (const bool little_endian : {false, true}) {
      const TestImage stored = StoredFor(photo, orientation);
      const std::string exif = testing::ExifBytes(orientation, little_endian);
      const ScratchDirectory root;
      Write(root, "a/1.png", testing::WithExif(PngBytes(stored), exif));
      Write(root, "a/2.jpg",
            testing::WithExif(JpegBytes(stored, {.quality = 100, .sampling = 1}), exif));
      const auto folder = MustOpen(root, options);
      for (const int64_t index : {0, 1}) {
        const Sample shown = MustRead(*folder, index);
        const Sample same = MustRead(*expected, 0);
        float most = 0;
        for (size_t i = 0; i < shown.pixels.size(); ++i)
          most = std::max(most, std::abs(Denormalised(shown, i) - Denormalised(same, i)));
        CHECK(most < (index == 0 ? 0.01F : 16.0F));
      }
      Sample crop = MustRead(*folder, 0);
      Sample same = crop;
      for (int64_t position = 0; position < 4; ++position) {
        const RandomView view = {.seed = 5, .position = position};
        REQUIRE(folder->ReadView(0, view, crop.pixels.data(), &crop.label).ok());
        REQUIRE(expected->ReadView(0, view, same.pixels.data(), &same.label).ok());
        float most = 0;
        for (size_t i = 0; i < crop.pixels.size(); ++i)
          most = std::max(most, std::abs(crop.pixels[i] - same.pixels[i]));
        CHECK(most < 1e-3F);
      }
    }
  }
  // Without the option, the stored pixels are read, as torchvision reads them.
  const ScratchDirectory root;
  Write(root, "a/1.png", testing::WithExif(PngBytes(photo), testing::ExifBytes(3, false)));
  options.apply_orientation = false;
  CHECK(MustRead(*MustOpen(root, options), 0).pixels == MustRead(*expected, 0).pixels);
}

TEST_CASE("evaluation resizes the shorter side and crops the middle, normalised as for ImageNet") {
  const ScratchDirectory root;
  const TestImage wide = Gradient(100, 64);
  Write(root, "a/1.png", PngBytes(wide));
  // 56 of 64 rows, in their own size; columns 22 to 78.
  const auto folder = MustOpen(root, {.shape = {{3, 56, 56}}});
  const Sample sample = MustRead(*folder, 0);
  float most = 0;
  for (size_t i = 0; i < sample.pixels.size(); ++i) {
    const auto x = static_cast<int>(i % 56);
    const auto y = static_cast<int>(i / 56 % 56);
    const auto value = static_cast<float>(wide.At(22 + x, 4 + y)[i / 56 / 56]);
    most = std::max(most, std::abs(Denormalised(sample, i) - value));
  }
  CHECK(most < 0.01F);

  // Half of the size: means of gradients are gradients.
  const auto half = MustOpen(root, {.shape = {{3, 28, 28}}});
  const Sample reduced = MustRead(*half, 0);
  for (size_t x = 0; x < 28; ++x) {
    const double across = 255.0 / 99 * (22 + 2 * static_cast<double>(x) + 0.5);
    CHECK(static_cast<double>(Denormalised(reduced, x)) == doctest::Approx(across).epsilon(0.01));
  }
}

TEST_CASE("one channel is grey, as ITU-R 601 weights it") {
  const ScratchDirectory root;
  Write(root, "a/1.png", PngBytes(Solid(20, 30, 255, 128, 0)));
  const Sample grey = MustRead(*MustOpen(root, {.shape = {{1, 8, 8}}}), 0);
  const Sample color = MustRead(*MustOpen(root, {.shape = {{3, 8, 8}}}), 0);
  const float expected =
      0.299F * color.pixels[0] + 0.587F * color.pixels[64] + 0.114F * color.pixels[128];
  for (const float value : grey.pixels) CHECK(value == doctest::Approx(expected));
}

TEST_CASE("large JPEG files are decoded with fewer pixels, which hardly changes the result") {
  const ScratchDirectory jpeg;
  const ScratchDirectory png;
  const TestImage photo = Photo(900, 700, 3);
  Write(jpeg, "a/1.jpg", JpegBytes(photo, {.quality = 98}));
  Write(png, "a/1.png", PngBytes(photo));
  const ImageFolderOptions options = {.shape = {{3, 64, 48}}};
  const Sample a = MustRead(*MustOpen(jpeg, options), 0);
  const Sample b = MustRead(*MustOpen(png, options), 0);
  double sum = 0;
  for (size_t i = 0; i < a.pixels.size(); ++i)
    sum += std::abs(static_cast<double>(Denormalised(a, i) - Denormalised(b, i)));
  CHECK(sum / static_cast<double>(a.pixels.size()) < 2.5);
}

TEST_CASE("an image has the same bits after larger, smaller and damaged ones have been read") {
  const ScratchDirectory root;
  const std::string photo = JpegBytes(Photo(90, 70, 1));
  Write(root, "class/a.jpg", photo);
  Write(root, "class/b.png", PngBytes(Photo(200, 300, 2)));
  Write(root, "class/c.jpg", photo.substr(0, photo.size() / 2));
  Write(root, "class/d.jpg", JpegBytes(Photo(20, 30, 3)));
  const auto folder = MustOpen(root, {.shape = {{3, 32, 32}}});
  const std::vector<float> pixels = MustRead(*folder, 0).pixels;
  MustRead(*folder, 1);
  CHECK(MustRead(*folder, 0).pixels == pixels);
  Sample damaged = {.pixels = pixels};
  CHECK(folder->Read(2, damaged.pixels.data(), &damaged.label).message() ==
        root.File("class/c.jpg") + ": Premature end of JPEG file");
  MustRead(*folder, 3);
  CHECK(MustRead(*folder, 0).pixels == pixels);
}

TEST_CASE("training reads the crop that was drawn, and mirrors it") {
  const ScratchDirectory root;
  Write(root, "a/1.png", PngBytes(Gradient(256, 256)));
  const auto folder = MustOpen(root, {.shape = {{3, 16, 16}}});
  Sample sample = MustRead(*folder, 0);
  std::set<bool> mirrored;
  for (int64_t position = 0; position < 12; ++position) {
    const RandomView view = {.seed = 5, .position = position};
    REQUIRE(folder->ReadView(0, view, sample.pixels.data(), &sample.label).ok());
    const PixelBox crop = DrawCrop(view, {256, 256});
    const bool mirror = DrawMirror(view);
    mirrored.insert(mirror);
    const double step = static_cast<double>(crop.width()) / 16;
    for (size_t x = 1; x < 15; ++x) {
      const double at = static_cast<double>(mirror ? 15 - x : x) + 0.5;
      const double red = static_cast<double>(crop.left) + at * step - 0.5;
      CHECK(static_cast<double>(Denormalised(sample, x)) == doctest::Approx(red).epsilon(0.02));
    }
  }
  CHECK(mirrored.size() == 2);
}

TEST_CASE("batches have the same bits for 1 and 4 threads, and for one rank and two") {
  const ScratchDirectory root;
  WritePhotos(root, 10);
  const auto folder = MustOpen(root, {.shape = {{3, 32, 32}}});
  const LoaderOptions options = {.batch = 8, .seed = 3, .crop = true, .color_jitter = 0.4F};
  LoaderOptions one = options;
  one.threads = 1;
  LoaderOptions four = options;
  four.threads = 4;
  std::set<std::vector<float>> different;
  for (int64_t step = 0; step < 5; ++step) {
    const Batch batch = MustBatch(*folder, one, step);
    const Batch same = MustBatch(*folder, four, step);
    CHECK(batch.images == same.images);
    CHECK(batch.labels == same.labels);
    for (int64_t rank = 0; rank < 2; ++rank) {
      LoaderOptions part = options;
      part.batch = 4;
      part.whole_batch = 8;
      part.first_image = 4 * rank;
      CHECK(MustBatch(*folder, part, step).images == PartOf(batch, 4 * rank, 4).images);
    }
    different.insert(batch.images);
  }
  CHECK(different.size() == 5);  // crops differ from epoch to epoch
  CHECK(ReadBatch(*folder, 0, 10, 1)->images == ReadBatch(*folder, 0, 10, 4)->images);
}

TEST_CASE(
    "a file that cannot be decoded is an error that names it, or the next one takes its place") {
  const ScratchDirectory root;
  WritePhotos(root, 6);
  Write(root, "cat/11.jpg", "this is no image");
  Write(root, "dog/99.jpg", JpegBytes(Photo(64, 64, 1)).substr(0, 700));  // the last of all
  const ImageFolderOptions strict = {.shape = {{3, 16, 16}}};
  const auto folder = MustOpen(root, strict);
  std::vector<float> pixels(768);
  int32_t label = 0;
  const absl::Status status = folder->Read(1, pixels.data(), &label);
  CHECK(absl::IsDataLoss(status));
  CHECK(status.message() == root.File("cat/11.jpg") + ": the file is neither JPEG nor PNG");
  CHECK(folder->Read(7, pixels.data(), &label).message() ==
        root.File("dog/99.jpg") + ": Premature end of JPEG file");
  CHECK(BatchOfStep(*folder, {.batch = 8, .crop = true}, 0).status().code() ==
        absl::StatusCode::kDataLoss);

  std::mutex mutex;
  std::set<std::string> bad;
  ImageFolderOptions lenient = strict;
  lenient.on_bad_file = [&](const absl::Status& error) {
    const std::lock_guard lock(mutex);
    bad.insert(std::string(error.message()));
  };
  const auto good = MustOpen(root, lenient);
  CHECK(MustRead(*good, 1).pixels == MustRead(*good, 2).pixels);
  const Sample last = MustRead(*good, 7);
  CHECK(last.pixels == MustRead(*good, 0).pixels);
  CHECK(last.label == 0);
  CHECK(bad.size() == 2);
  const LoaderOptions options = {.batch = 8, .crop = true, .threads = 4};
  CHECK(MustBatch(*good, options, 0).images == MustBatch(*good, options, 0).images);
}

TEST_CASE("where no file can be decoded, skipping them ends in an error") {
  const ScratchDirectory root;
  Write(root, "a/1.png", "1");
  Write(root, "a/2.png", "2");
  int bad = 0;
  const auto folder = MustOpen(root, {.on_bad_file = [&](const absl::Status&) { ++bad; }});
  std::vector<float> pixels(static_cast<size_t>(folder->shape().elements()));
  int32_t label = 0;
  CHECK(folder->Read(1, pixels.data(), &label).message() ==
        "no image of " + root.path() + " can be read; the last: " + root.File("a/1.png") +
            ": the file is neither JPEG nor PNG");
  CHECK(bad == 2);
}

TEST_CASE("OpenDataset() opens folders of images, which alone have random crops") {
  const ScratchDirectory root;
  WritePhotos(root, 4);
  const auto dataset = OpenDataset("imagefolder:" + root.path(), {});
  REQUIRE(dataset.ok());
  CHECK((*dataset)->shape() == ImageShape{3, 224, 224});
  CHECK((*dataset)->classes() == 2);
  CHECK((*dataset)->decodes());
  const auto synthetic = OpenDataset("synthetic", {});
  REQUIRE(synthetic.ok());
  const absl::Status status = BatchOfStep(**synthetic, {.crop = true}, 0).status();
  CHECK(status.message() ==
        "loader: random crops are for datasets that have them, and exclude shift and flip");
}

}  // namespace
}  // namespace neap
