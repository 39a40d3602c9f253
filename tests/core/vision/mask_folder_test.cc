// Images and masks: pairs of both, their crops and what is refused.
#include "neap/core/vision/mask_folder.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "neap/core/program/feeds.h"
#include "neap/core/vision/image/random_view.h"
#include "neap/core/vision/loader.h"
#include "tests/core/data/data_files.h"
#include "tests/image_files.h"

namespace neap {
namespace {

using testing::PngBytes;
using testing::PngForm;
using testing::TestImage;
using testing::WriteWithin;

constexpr int kWidth = 23, kHeight = 17;

// The class of a pixel: of 4, or 255.
uint8_t ClassAt(int x, int y) {
  if (x == 5 && y % 3 == 0) return 255;
  return static_cast<uint8_t>((x / 6 + y / 5) % 4);
}

// An image of the classes' numbers times `factor`, in all channels.
TestImage Classes(int factor) {
  TestImage image = {.width = kWidth, .height = kHeight};
  for (int y = 0; y < kHeight; ++y) {
    for (int x = 0; x < kWidth; ++x)
      image.rgb.insert(image.rgb.end(), 3, static_cast<uint8_t>(ClassAt(x, y) * factor));
  }
  return image;
}

std::string MaskBytes(bool interlaced = false) {
  return PngBytes(Classes(1), {.form = PngForm::kGrey, .interlaced = interlaced});
}

struct MaskFiles {
  MaskFiles() {
    for (const std::string stem : {"a", "b"}) {
      WriteWithin(root, "images/" + stem + ".png", PngBytes(Classes(60)));
      WriteWithin(root, "masks/" + stem + ".png", MaskBytes());
    }
  }
  std::unique_ptr<MaskFolder> Open(MaskFolderOptions options = {}) const {
    if (!options.shape.has_value()) options.shape = {{3, kHeight, kWidth}};
    auto folder = MaskFolder::Open(root.path(), options);
    REQUIRE_MESSAGE(folder.ok(), folder.status().ToString());
    return *std::move(folder);
  }
  ScratchDirectory root;
};

std::vector<int32_t> LabelsOf(const MaskFolder& folder, const RandomView* view = nullptr) {
  std::vector<float> pixels(static_cast<size_t>(folder.shape().elements()));
  std::vector<int32_t> labels(static_cast<size_t>(folder.labels()));
  const absl::Status status = view == nullptr
                                  ? folder.Read(0, pixels.data(), labels.data())
                                  : folder.ReadView(0, *view, pixels.data(), labels.data());
  REQUIRE_MESSAGE(status.ok(), status.ToString());
  return labels;
}

int32_t LabelAt(int64_t x, int64_t y) {
  const uint8_t label = ClassAt(static_cast<int>(x), static_cast<int>(y));
  return label == 255 ? kNoLabel : label;
}

TEST_CASE("a mask's values are the classes of the image's pixels, and 255 is none") {
  const MaskFiles files;
  const auto folder = files.Open();
  CHECK(folder->size() == 2);
  CHECK(folder->classes() == 4);
  CHECK(folder->labels() == kWidth * kHeight);
  const std::vector<int32_t> labels = LabelsOf(*folder);
  for (int y = 0; y < kHeight; ++y) {
    for (int x = 0; x < kWidth; ++x)
      CHECK(labels[static_cast<size_t>(y * kWidth + x)] == LabelAt(x, y));
  }
  WriteWithin(files.root, "masks/a.png", MaskBytes(/*interlaced=*/true));
  CHECK(LabelsOf(*folder) == labels);
}

TEST_CASE("a palette's colours do not matter, but its places") {
  const MaskFiles files;
  TestImage mask = Classes(1);
  std::vector<uint8_t> colours;  // in the order in which they come up: the palette's
  std::vector<int32_t> expected;
  for (size_t i = 0; i < mask.rgb.size(); i += 3) {
    const uint8_t colour = mask.rgb[i];
    size_t place = 0;
    while (place < colours.size() && colours[place] != colour) ++place;
    if (place == colours.size()) colours.push_back(colour);
    expected.push_back(static_cast<int32_t>(place));
    mask.rgb[i + 1] = static_cast<uint8_t>(200 - 40 * place);
  }
  WriteWithin(files.root, "masks/a.png", PngBytes(mask, {.form = PngForm::kPalette}));
  CHECK(LabelsOf(*files.Open()) == expected);
}

TEST_CASE("masks are resized by the nearest pixel") {
  const MaskFiles files;
  for (const ImageShape& shape : {ImageShape{3, 7, 31}, ImageShape{1, 40, 5}}) {
    const std::vector<int32_t> labels = LabelsOf(*files.Open({.shape = shape}));
    for (int64_t y = 0; y < shape.h; ++y) {
      for (int64_t x = 0; x < shape.w; ++x) {
        const double row = (static_cast<double>(y) + 0.5) * kHeight / static_cast<double>(shape.h);
        const double column =
            (static_cast<double>(x) + 0.5) * kWidth / static_cast<double>(shape.w);
        CHECK(labels[static_cast<size_t>(y * shape.w + x)] ==
              LabelAt(static_cast<int64_t>(column), static_cast<int64_t>(row)));
      }
    }
  }
}

TEST_CASE("an image and its mask have the same random crop, mirrored or not") {
  const MaskFiles files;
  const auto folder = files.Open();
  std::vector<float> pixels(static_cast<size_t>(folder->shape().elements()));
  std::vector<int32_t> labels(static_cast<size_t>(folder->labels()));
  std::set<bool> mirrored;
  for (int64_t position = 0; position < 20; ++position) {
    const RandomView view = {.seed = 4, .position = position};
    REQUIRE(folder->ReadView(0, view, pixels.data(), labels.data()).ok());
    const PixelBox box = DrawCrop(view, {kWidth, kHeight});
    mirrored.insert(DrawMirror(view));
    for (int64_t y = 0; y < kHeight; ++y) {
      for (int64_t x = 0; x < kWidth; ++x) {
        const int64_t from_x = DrawMirror(view) ? kWidth - 1 - x : x;
        const int64_t row = box.top + (2 * y + 1) * box.height() / (2 * kHeight);
        const int64_t column = box.left + (2 * from_x + 1) * box.width() / (2 * kWidth);
        CHECK(labels[static_cast<size_t>(y * kWidth + x)] == LabelAt(column, row));
      }
    }
    // Where a crop is not resized, each pixel's colour tells its class.
    if (box.width() != kWidth || box.height() != kHeight) continue;
    for (size_t i = 0; i < labels.size(); ++i) {
      const int32_t label = labels[i] == kNoLabel ? (255 * 60) % 256 : labels[i] * 60;
      CHECK(pixels[i] == doctest::Approx((static_cast<double>(label) / 255 - 0.485) / 0.229));
    }
  }
  CHECK(mirrored.size() == 2);
}

TEST_CASE("pixels and labels agree in every crop, and batches do not depend on threads") {
  const MaskFiles files;
  const auto folder = files.Open({.shape = {{3, 64, 64}}});  // enlarged: pixels in the middle of a
                                                             // field have its colour
  const LoaderOptions options = {.batch = 6, .seed = 8, .crop = true};
  const Batch batch = BatchOfStep(*folder, options, 2).value();
  int64_t equal = 0, counted = 0;
  for (int64_t i = 0; i < 6 * 64 * 64; ++i) {
    const int32_t label = batch.labels[static_cast<size_t>(i)];
    if (label == kNoLabel) continue;
    const float red = batch.images[static_cast<size_t>(i / 4096 * 3 * 4096 + i % 4096)];
    const float shade = (red * 0.229F + 0.485F) * 255;
    ++counted;
    equal += std::abs(shade - static_cast<float>(60 * label)) < 30 ? 1 : 0;
  }
  CHECK(equal > counted * 8 / 10);
  for (const int64_t threads : {1, 4}) {
    LoaderOptions other = options;
    other.threads = threads;
    other.first_step = 2;
    const auto loader = Loader::Create(*folder, other).value();
    const Batch again = loader->Next().value();
    CHECK(again.images == batch.images);
    CHECK(again.labels == batch.labels);
  }
}

TEST_CASE("masks of another size, kind or number of classes are refused, naming the file") {
  const MaskFiles files;
  const auto folder = files.Open();
  std::vector<float> pixels(static_cast<size_t>(folder->shape().elements()));
  std::vector<int32_t> labels(static_cast<size_t>(folder->labels()));
  const auto error_with = [&](const std::string& mask) {
    WriteWithin(files.root, "masks/a.png", mask);
    const absl::Status status = folder->Read(0, pixels.data(), labels.data());
    CHECK(absl::IsDataLoss(status));
    const std::string text(status.message());
    CHECK(text.find(files.root.File("masks/a.png") + ": ") == 0);
    return text.substr(files.root.File("masks/a.png").size() + 2);
  };
  CHECK(error_with(PngBytes(Classes(1))) ==
        "the image has 3 channels of 8 bits, not one of up to 8 with numbers");
  CHECK(error_with(PngBytes(Classes(1), {.form = PngForm::kGrey16})) ==
        "the image has 1 channels of 16 bits, not one of up to 8 with numbers");
  CHECK(error_with(PngBytes(testing::Solid(4, 3, 0, 0, 0), {.form = PngForm::kGrey}))
            .find("the mask has 4 x 3 pixels, its image ") == 0);
  CHECK(error_with(MaskBytes().substr(0, 60)) != "");
  CHECK(error_with(PngBytes(testing::Solid(kWidth, kHeight, 9, 0, 0), {.form = PngForm::kGrey})) ==
        "row 0, column 0: label 9 of 4 classes");
  CHECK(absl::IsInvalidArgument(
      MaskFolder::Open(files.root.path(), {.shape = {{2, 8, 8}}}).status()));
  CHECK(files.Open({.classes = 30})->classes() == 30);
  WriteWithin(files.root, "classes.txt", "a\nb\nc\nd\ne\n");
  CHECK(files.Open({.classes = 30})->classes() == 5);
  CHECK(files.Open()->class_names()[4] == "e");
}

TEST_CASE("OpenDataset() opens masks, whose pixels have labels") {
  const MaskFiles files;
  const auto dataset =
      OpenDataset("masks:" + files.root.path(), {.shape = {{3, 8, 8}}, .label_pixels = true});
  REQUIRE(dataset.ok());
  CHECK((*dataset)->has_views());
  CHECK((*dataset)->labels() == 64);
  CHECK((*dataset)->extents() == std::vector<int64_t>{3, 8, 8});
  const absl::Status turned =
      OpenDataset("masks:" + files.root.path(), {.apply_orientation = true}).status();
  CHECK(absl::IsInvalidArgument(turned));
  CHECK(std::string(turned.message()).find("because their masks are not") != std::string::npos);
}

}  // namespace
}  // namespace neap
