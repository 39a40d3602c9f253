// Which files belong together, in the layouts that datasets have.
#include "neap/core/data/labelled_files.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/core/data/data_files.h"

namespace neap {
namespace {

using testing::WriteWithin;

const LabelledSuffixes kImages = {{".jpg", ".png"}, {".png"}};
const LabelledSuffixes kScans = {{".nii.gz", ".nii"}, {".nii.gz", ".nii"}};

// "1: images/1.jpg -> masks/1.png; ..."
std::string Found(const ScratchDirectory& root, Split split = Split::kTrain,
                  const LabelledSuffixes& suffixes = kImages) {
  const absl::StatusOr<LabelledFiles> found = FindLabelledFiles(root.path(), split, suffixes);
  if (!found.ok()) return std::string(found.status().message()).substr(root.path().size());
  const auto within = [&](const std::string& path) { return path.substr(root.path().size() + 1); };
  std::string text;
  for (const LabelledFile& file : found->files) {
    text += file.stem + ":";
    for (const std::string& example : file.examples) text += " " + within(example);
    text += " -> " + within(file.labels) + "; ";
  }
  for (const std::string& notice : found->notices) text += notice.substr(0, notice.find(' ')) + "!";
  return text;
}

TEST_CASE("files are paired by their stems, in order, and those without labels are left out") {
  const ScratchDirectory root;
  for (const std::string name : {"images/b.jpg", "images/a.PNG", "images/c.jpg", "images/.a.jpg",
                                 "images/note.txt", "masks/a.png", "masks/b.png"})
    WriteWithin(root, name, "");
  const std::string expected = "a: images/a.PNG -> masks/a.png; b: images/b.jpg -> masks/b.png; 1!";
  for (const Split split : {Split::kTrain, Split::kTest, Split::kValidation})
    CHECK(Found(root, split) == expected);
  CHECK(!HasLabelledSplits(root.path()));
}

TEST_CASE("splits are folders around or within those of images and labels") {
  const ScratchDirectory outside, inside;
  for (const std::string split : {"train", "val"}) {
    WriteWithin(outside, split + "/images/" + split + ".jpg", "");
    WriteWithin(outside, split + "/labels/" + split + ".png", "");
  }
  for (const std::string split : {"training", "validation"}) {
    WriteWithin(inside, "images/" + split + "/" + split + ".jpg", "");
    WriteWithin(inside, "annotations/" + split + "/" + split + ".png", "");
  }
  CHECK(HasLabelledSplits(outside.path()));
  CHECK(HasLabelledSplits(inside.path()));
  CHECK(Found(outside) == "train: train/images/train.jpg -> train/labels/train.png; ");
  CHECK(Found(outside, Split::kTest) == "val: val/images/val.jpg -> val/labels/val.png; ");
  CHECK(Found(inside) ==
        "training: images/training/training.jpg -> annotations/training/training.png; ");
  CHECK(Found(inside, Split::kValidation) ==
        "validation: images/validation/validation.jpg -> annotations/validation/validation.png; ");
}

TEST_CASE("Pascal VOC's lists say which files a split has") {
  const ScratchDirectory root;
  for (const std::string stem : {"1", "2", "3"}) {
    WriteWithin(root, "JPEGImages/" + stem + ".jpg", "");
    WriteWithin(root, "SegmentationClass/" + stem + ".png", "");
  }
  WriteWithin(root, "JPEGImages/4.jpg", "");
  WriteWithin(root, "ImageSets/Segmentation/train.txt", "3\n1\n");
  WriteWithin(root, "ImageSets/Segmentation/val.txt", "2\n");
  CHECK(Found(root) ==
        "1: JPEGImages/1.jpg -> SegmentationClass/1.png; "
        "3: JPEGImages/3.jpg -> SegmentationClass/3.png; ");
  CHECK(Found(root, Split::kTest) == "2: JPEGImages/2.jpg -> SegmentationClass/2.png; ");
  WriteWithin(root, "ImageSets/Segmentation/train.txt", "5\n");
  CHECK(Found(root) == "/ImageSets/Segmentation/train.txt: '5' has no file with labels");
}

TEST_CASE("channels are files of their own in nnU-Net's layout") {
  const ScratchDirectory root;
  for (const std::string name :
       {"imagesTr/p_1_0000.nii.gz", "imagesTr/p_1_0001.nii.gz", "labelsTr/p_1.nii.gz",
        "imagesTr/p_2.nii", "labelsTr/p_2.nii.gz", "imagesTs/q_0000.nii.gz", "labelsTs/q.nii.gz"})
    WriteWithin(root, name, "");
  CHECK(Found(root, Split::kTrain, kScans) ==
        "p_1: imagesTr/p_1_0000.nii.gz imagesTr/p_1_0001.nii.gz -> labelsTr/p_1.nii.gz; "
        "p_2: imagesTr/p_2.nii -> labelsTr/p_2.nii.gz; ");
  CHECK(Found(root, Split::kTest, kScans) == "q: imagesTs/q_0000.nii.gz -> labelsTs/q.nii.gz; ");
}

TEST_CASE("nnU-Net's folder without labels for tests has no splits") {
  const ScratchDirectory root;
  for (const std::string name : {"imagesTr/p_0000.nii", "labelsTr/p.nii", "imagesTs/q_0000.nii"})
    WriteWithin(root, name, "");
  CHECK(!HasLabelledSplits(root.path()));
  WriteWithin(root, "labelsTs/q.nii", "");
  CHECK(HasLabelledSplits(root.path()));
}

TEST_CASE("a channel before which one is missing is refused, rather than taken for another one") {
  for (const std::string missing : {"0000", "0001"}) {
    const ScratchDirectory root;
    for (const std::string channel : {"0000", "0001", "0002"}) {
      if (channel != missing) WriteWithin(root, "imagesTr/p_" + channel + ".nii", "");
    }
    WriteWithin(root, "labelsTr/p.nii", "");
    const bool is_first = missing == "0000";
    CHECK(Found(root, Split::kTrain, kScans) ==
          std::string("/imagesTr/p_000") + (is_first ? "1" : "2") + ".nii: this is channel " +
              (is_first ? "1 of 'p', of which there are 0" : "2 of 'p', of which there are 1") +
              " before it; channels are numbered from 0 without gaps");
  }
  const ScratchDirectory both;  // a file with all channels, and one more
  for (const std::string name : {"imagesTr/p.nii", "imagesTr/p_0000.nii", "labelsTr/p.nii"})
    WriteWithin(both, name, "");
  CHECK(absl::IsInvalidArgument(FindLabelledFiles(both.path(), Split::kTrain, kScans).status()));
}

TEST_CASE("labels without a file, files of one stem and other folders are refused") {
  const ScratchDirectory root;
  CHECK(Found(root).find(": there is no folder images with a folder masks") == 0);
  CHECK(absl::IsNotFound(FindLabelledFiles(root.File("none"), Split::kTrain, kImages).status()));
  WriteWithin(root, "images/a.jpg", "");
  WriteWithin(root, "masks/note.txt", "");
  CHECK(Found(root) == "/masks: there are no labels");
  WriteWithin(root, "masks/b.png", "");
  CHECK(Found(root) == "/masks/b.png: there is no file of this stem in " + root.path() + "/images");
  WriteWithin(root, "images/a.png", "");
  CHECK(Found(root) == "/images/a.jpg and " + root.path() + "/images/a.png have the same stem");
}

TEST_CASE("a list that is too large to be one is refused before it is read") {
  const ScratchDirectory root;
  WriteWithin(root, "classes.txt", "road\n");
  std::filesystem::resize_file(root.File("classes.txt"), uintmax_t{1} << 30);  // sparse
  const absl::Status status = NamesOfClasses(root.path()).status();
  CHECK(absl::IsInvalidArgument(status));
  CHECK(status.message() ==
        root.File("classes.txt") + ": has 1073741824 bytes; at most 268435456 are read");
}

TEST_CASE("classes.txt names the classes") {
  const ScratchDirectory root;
  CHECK(NamesOfClasses(root.path())->empty());
  WriteWithin(root, "classes.txt", "road\r\nside walk\n");
  CHECK(*NamesOfClasses(root.path()) == std::vector<std::string>{"road", "side walk"});
  for (const std::string bad : {"a\n\nb\n", "a\na\n"}) {
    WriteWithin(root, "classes.txt", bad);
    CHECK(absl::IsInvalidArgument(NamesOfClasses(root.path()).status()));
  }
}

}  // namespace
}  // namespace neap
