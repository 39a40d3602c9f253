// A folder of volumes as a dataset, and the batches of a loader.
#include "neap/core/data/volume_folder.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "neap/core/data/patch.h"
#include "neap/core/vision/loader.h"
#include "tests/core/data/data_files.h"

namespace neap {
namespace {

using testing::LittleEndian;
using testing::NpyBytes;
using testing::WriteWithin;

constexpr ImageShape kCaseShape = {.c = 1, .h = 5, .w = 6, .d = 4};
constexpr ImageShape kPatchShape = {.c = 1, .h = 3, .w = 4, .d = 2};

std::vector<int16_t> VoxelsOf(int number) {
  std::vector<int16_t> voxels;
  for (int i = 0; i < 120; ++i) voxels.push_back(static_cast<int16_t>((i * (number + 3)) % 41));
  return voxels;
}

std::vector<uint8_t> ClassesOf(int number) {
  std::vector<uint8_t> classes;
  for (int i = 0; i < 120; ++i) classes.push_back(i % 17 == number ? 2 : i == 100 ? 255 : 0);
  return classes;
}

// Three volumes of 4x5x6.
void WriteCases(const ScratchDirectory& root) {
  for (int i = 0; i < 3; ++i) {
    const std::string name = std::to_string(i) + ".npy";
    WriteWithin(root, "images/" + name, NpyBytes("<i2", "(4, 5, 6)", LittleEndian(VoxelsOf(i))));
    WriteWithin(root, "labels/" + name, NpyBytes("|u1", "(4, 5, 6)", LittleEndian(ClassesOf(i))));
  }
}

std::unique_ptr<VolumeFolder> MustOpenVolumes(const ScratchDirectory& root,
                                              VolumeFolderOptions options = {}) {
  if (!options.shape.has_value()) options.shape = kPatchShape;
  auto folder = VolumeFolder::Open(root.path(), options);
  REQUIRE_MESSAGE(folder.ok(), folder.status().ToString());
  return *std::move(folder);
}

// What the example must be: of a volume that is normalised and cut here.
struct Expected {
  std::vector<float> voxels = std::vector<float>(static_cast<size_t>(kPatchShape.elements()));
  std::vector<int32_t> labels = std::vector<int32_t>(static_cast<size_t>(kPatchShape.positions()));

  Expected(int number, const RandomView* view) {
    Volume volume = {.shape = kCaseShape, .values = {}};
    for (const int16_t voxel : VoxelsOf(number)) volume.values.push_back(voxel);
    NormaliseVolume(volume);
    const VolumeLabels of_voxels = {.shape = kCaseShape, .labels = ClassesOf(number)};
    const Patch patch = view == nullptr ? CentralPatch(kCaseShape, kPatchShape)
                                        : DrawPatch(*view, 1.0 / 3, of_voxels,
                                                    CountClasses(of_voxels, 3), kPatchShape);
    CutPatch(volume, of_voxels, patch, kPatchShape, voxels.data(), labels.data());
  }
};

TEST_CASE("a folder of volumes has their patches, normalised, and as many classes as labels say") {
  const ScratchDirectory root;
  WriteCases(root);
  const auto folder = MustOpenVolumes(root);
  CHECK(folder->size() == 3);
  CHECK(folder->classes() == 3);
  CHECK(folder->extents() == std::vector<int64_t>{1, 2, 3, 4});
  CHECK(folder->labels() == 24);
  CHECK(folder->file(1) == root.path() + "/images/1.npy");
  for (int i = 0; i < 3; ++i) {
    const RandomView view = {.seed = 5, .position = 70 + i};
    for (const RandomView* const drawn : {static_cast<const RandomView*>(nullptr), &view}) {
      const Expected expected(i, drawn);
      std::vector<float> voxels(expected.voxels.size());
      std::vector<int32_t> labels(expected.labels.size());
      REQUIRE((drawn == nullptr ? folder->Read(i, voxels.data(), labels.data())
                                : folder->ReadView(i, *drawn, voxels.data(), labels.data()))
                  .ok());
      CHECK(voxels == expected.voxels);
      CHECK(labels == expected.labels);
    }
  }
  CHECK(absl::IsInvalidArgument(folder->Read(3, nullptr, nullptr)));
}

TEST_CASE("batches of volumes depend neither on threads nor on what is kept in memory") {
  const ScratchDirectory root;
  WriteCases(root);
  const auto kept = MustOpenVolumes(root);
  const auto read = MustOpenVolumes(root, {.keep_bytes = 0, .reading_bytes = 1});  // one by one
  for (const int64_t threads : {1, 4}) {
    const LoaderOptions options = {.batch = 4, .seed = 9, .crop = true, .threads = threads};
    const auto loader = Loader::Create(*read, options).value();
    for (int64_t step = 0; step < 3; ++step) {
      const Batch batch = loader->Next().value();
      const Batch expected = BatchOfStep(*kept, options, step).value();
      CHECK(batch.images == expected.images);
      CHECK(batch.labels == expected.labels);
      CHECK(batch.images.size() == 4 * 24);
    }
  }
}

TEST_CASE("the label that dataset.json ignores is no label and no class") {
  const ScratchDirectory root;
  WriteCases(root);
  CHECK(MustOpenVolumes(root)->classes() == 3);
  CHECK(MustOpenVolumes(root, {.ignored = 2})->classes() == 1);
  WriteWithin(root, "dataset.json", R"({"labels": {"background": 0, "one": 1, "ignore": 2}})");
  const auto folder = MustOpenVolumes(root);
  CHECK(folder->classes() == 1);
  std::vector<float> voxels(static_cast<size_t>(kPatchShape.elements()));
  std::vector<int32_t> labels(static_cast<size_t>(kPatchShape.positions()));
  REQUIRE(folder->Read(0, voxels.data(), labels.data()).ok());
  std::vector<int32_t> expected = Expected(0, nullptr).labels;
  std::replace(expected.begin(), expected.end(), 2, kNoLabel);
  CHECK(labels == expected);
  CHECK(MustOpenVolumes(root, {.classes = 2})->classes() == 2);
  WriteWithin(root, "dataset.json", R"({"labels": {"background": 0, "ignore": [1, 2]}})");
  CHECK(std::string(VolumeFolder::Open(root.path(), {}).status().message())
            .find("the label 'ignore' is [1,2], not a number from 0") != std::string::npos);
}

TEST_CASE("without a shape patches are 64 wide, with the volumes' channels") {
  const ScratchDirectory root;
  WriteWithin(root, "images/a.npy", NpyBytes("|u1", "(2, 1, 1, 1)", "ab"));
  WriteWithin(root, "labels/a.npy", NpyBytes("|u1", "(1, 1, 1)", std::string(1, '\1')));
  const auto folder = VolumeFolder::Open(root.path(), {}).value();
  CHECK(folder->extents() == std::vector<int64_t>{2, 64, 64, 64});
}

TEST_CASE("volumes that do not fit their labels, the classes or the patch are refused") {
  const ScratchDirectory root;
  WriteCases(root);
  const auto error_of = [&](const VolumeFolderOptions& options) {
    return VolumeFolder::Open(root.path(), options).status();
  };
  CHECK(absl::IsInvalidArgument(error_of({.shape = {{2, 3, 3, 3}}})));  // channels
  CHECK(absl::IsInvalidArgument(error_of({.shape = {{1, 0, 3, 3}}})));
  CHECK(absl::IsInvalidArgument(error_of({.shape = kPatchShape, .foreground = 1.5})));
  CHECK(absl::IsDataLoss(error_of({.shape = kPatchShape, .classes = 2})));
  WriteWithin(root, "classes.txt", "none\nleft\nright\nother\n");
  CHECK(MustOpenVolumes(root)->classes() == 4);
  CHECK(MustOpenVolumes(root)->class_names()[2] == "right");
  WriteWithin(root, "labels/0.npy", NpyBytes("|u1", "(1, 2, 2)", std::string(4, '\0')));
  const absl::Status status = error_of({.shape = kPatchShape});
  CHECK(absl::IsInvalidArgument(status));
  CHECK(std::string(status.message()).find("the volume is 1x4x5x6, its labels in ") !=
        std::string::npos);
}

TEST_CASE("OpenDataset() opens volumes, which have views and no shifts") {
  const ScratchDirectory root;
  WriteCases(root);
  const auto dataset = OpenDataset("volumes:" + root.path(), {.shape = kPatchShape}).value();
  CHECK(dataset->has_views());
  CHECK(absl::IsInvalidArgument(BatchOfStep(*dataset, {.batch = 1, .flip = true}, 0).status()));
  CHECK(absl::IsInvalidArgument(
      Loader::Create({{dataset.get()}, {dataset.get()}}, {.batch = 1}).status()));
}

}  // namespace
}  // namespace neap
