// Which files of a folder are images, and of which class.
#include "neap/core/vision/image_files.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "neap/core/vision/image_folder.h"
#include "tests/core/vision/image_folders.h"
#include "tests/image_files.h"
#include "tests/scratch_directory.h"

namespace neap {
namespace {

using testing::MustOpen;
using testing::MustRead;
using testing::PngBytes;
using testing::Solid;
using testing::Write;

TEST_CASE("classes and images are in torchvision's order, and other files are left out") {
  const ScratchDirectory root;
  const std::string image = PngBytes(Solid(4, 4, 1, 2, 3));
  for (const char* name : {"dog/b.JPEG", "dog/a.png", "dog/deep/0.jpg", "dog/Z.PNG",
                           "dog/notes.txt", "Cat/1.jpg", "ant/x.jpeg", "labels.csv"})
    Write(root, name, image);
  const auto folder = MustOpen(root, {.shape = {{3, 2, 2}}});
  CHECK(folder->class_names() == std::vector<std::string>{"Cat", "ant", "dog"});
  CHECK(folder->classes() == 3);
  std::vector<std::string> paths;
  for (int64_t i = 0; i < folder->size(); ++i)
    paths.push_back(folder->file(i).substr(root.path().size() + 1));
  CHECK(paths == std::vector<std::string>{"Cat/1.jpg", "ant/x.jpeg", "dog/Z.PNG", "dog/a.png",
                                          "dog/b.JPEG", "dog/deep/0.jpg"});
  for (int64_t i = 0; i < 6; ++i)
    CHECK(MustRead(*folder, i).label == static_cast<int32_t>(std::min<int64_t>(i, 2)));
}

TEST_CASE("files and flat folders are read without labels, in the order in which they are given") {
  const ScratchDirectory root;
  for (const char* name : {"flat/b.png", "flat/a.png", "flat/more/0.png", "c.dat"})
    Write(root, name, PngBytes(Solid(4, 4, 1, 2, 3)));
  const auto open = [&](const std::vector<std::string>& names) {
    std::vector<std::string> paths;
    for (const std::string& name : names) paths.push_back(root.File(name));
    return ImageFolder::OpenFiles(paths, {.shape = {{3, 2, 2}}});
  };
  const auto folder = open({"c.dat", "flat"});
  REQUIRE(folder.ok());
  std::vector<std::string> files;
  for (int64_t i = 0; i < (*folder)->size(); ++i) {
    files.push_back((*folder)->file(i).substr(root.path().size() + 1));
    CHECK(MustRead(**folder, i).label == -1);
  }
  CHECK(files == std::vector<std::string>{"c.dat", "flat/a.png", "flat/b.png", "flat/more/0.png"});
  CHECK((*folder)->class_names().empty());
  CHECK(absl::IsNotFound(open({"none.png"}).status()));
  std::filesystem::create_directories(root.File("empty"));
  CHECK(absl::IsNotFound(open({"empty"}).status()));
  CHECK(absl::IsInvalidArgument(open({}).status()));
}

TEST_CASE("folders that are not there, are empty or have other images are errors that name them") {
  const ScratchDirectory root;
  const auto message = [&](const std::string& directory, const ImageFolderOptions& options = {}) {
    const auto status = ImageFolder::Open(root.File(directory), options).status();
    CHECK(!status.ok());
    return std::string(status.message());
  };
  CHECK(message("absent") == root.File("absent") + ": No such file or directory");
  Write(root, "flat/image.png", "");
  CHECK(message("flat") == root.File("flat") + ": there is no folder for a class of images");
  Write(root, "hollow/cat/readme.txt", "");
  CHECK(message("hollow") ==
        root.File("hollow/cat") + ": the class has no images; remove it, or allow empty classes");
  CHECK(message("hollow", {.allow_empty_classes = true}) ==
        root.File("hollow") + ": none of the classes has images");
  Write(root, "other/cat/1.webp", "");
  CHECK(message("other") ==
        root.File("other/cat/1.webp") + ": images of this format are not read; JPEG and PNG are");
  CHECK(message("flat", {.shape = {{2, 8, 8}}}).find("2x8x8") != std::string::npos);
}

// The paths of all images within the root, and the notices.
struct Listed {
  std::vector<std::string> files;
  std::vector<std::string> notices;
};

Listed List(const ScratchDirectory& root, ImageFolderOptions options = {}) {
  options.shape = {3, 2, 2};
  const auto folder = MustOpen(root, options);
  Listed listed = {.notices = folder->notices()};
  for (int64_t i = 0; i < folder->size(); ++i)
    listed.files.push_back(folder->file(i).substr(root.path().size() + 1));
  return listed;
}

using Strings = std::vector<std::string>;

TEST_CASE("hidden folders and files are neither classes nor images, which is said") {
  const ScratchDirectory root;
  for (const char* name : {".ipynb_checkpoints/1-checkpoint.png", "cat/1.png", "cat/._1.png",
                           "cat/.cache/2.png", "dog/1.png", "dog/.DS_Store"})
    Write(root, name, PngBytes(Solid(4, 4, 1, 2, 3)));
  const Listed listed = List(root);
  CHECK(listed.files == Strings{"cat/1.png", "dog/1.png"});
  REQUIRE(listed.notices.size() == 2);
  CHECK(listed.notices[0] == root.File(".ipynb_checkpoints") + " is hidden, and no class");
  CHECK(listed.notices[1].find(" and 1 more are hidden and left out") != std::string::npos);
}

TEST_CASE("a class without images keeps its number if that is allowed") {
  const ScratchDirectory root;
  for (const char* name : {"ant/1.png", "cat/1.png"})
    Write(root, name, PngBytes(Solid(4, 4, 1, 2, 3)));
  std::filesystem::create_directories(root.File("bee"));
  const auto folder = MustOpen(root, {.shape = {{3, 2, 2}}, .allow_empty_classes = true});
  CHECK(folder->class_names() == Strings{"ant", "bee", "cat"});
  CHECK(folder->classes() == 3);
  CHECK(MustRead(*folder, 1).label == 2);
  CHECK(folder->notices() == Strings{root.File("bee") + ": the class has no images"});
}

TEST_CASE("links are followed, but not back to a folder that led to them") {
  const ScratchDirectory root;
  for (const char* name : {"cat/1.png", "dog/1.png", "dog/old/2.png"})
    Write(root, name, PngBytes(Solid(4, 4, 1, 2, 3)));
  const ScratchDirectory elsewhere;
  Write(elsewhere, "3.png", PngBytes(Solid(4, 4, 1, 2, 3)));
  using std::filesystem::create_directory_symlink;
  create_directory_symlink(elsewhere.path(), root.File("cat/more"));
  create_directory_symlink(root.File("dog/old"), root.File("cat/again"));  // twice, as wanted
  const Strings files = {"cat/1.png", "cat/again/2.png", "cat/more/3.png", "dog/1.png",
                         "dog/old/2.png"};
  CHECK(List(root).files == files);
  CHECK(List(root).notices.empty());

  std::filesystem::create_directories(root.File("dog/deep"));
  create_directory_symlink(root.File("dog"), root.File("dog/deep/loop"));
  create_directory_symlink(root.path(), root.File("dog/everything"));
  create_directory_symlink(root.path(), root.File("all"));
  const Listed looped = List(root);
  CHECK(looped.files == files);
  REQUIRE(looped.notices.size() == 2);
  CHECK(looped.notices[0] ==
        root.File("all") + " leads back to " + root.path() + ", and is no class");
  CHECK(looped.notices[1].find(" and 1 more lead back to folders above them") != std::string::npos);
}

TEST_CASE("a folder with train and val is that of two splits, and not of two classes") {
  const ScratchDirectory root;
  for (const char* name :
       {"train/cat/1.png", "train/dog/1.png", "val/cat/2.png", "val/dog/2.png", "readme.png"})
    Write(root, name, PngBytes(Solid(4, 4, 1, 2, 3)));
  const Listed train = List(root);
  CHECK(train.files == Strings{"train/cat/1.png", "train/dog/1.png"});
  CHECK(train.notices == Strings{root.path() + " has a folder for each split, of which " +
                                 root.File("train") + " is read"});
  const Strings val = {"val/cat/2.png", "val/dog/2.png"};
  for (const Split split : {Split::kTest, Split::kValidation})
    CHECK(List(root, {.split = split}).files == val);
  CHECK(ImageClassesOf(root.path()).value() == Strings{"cat", "dog"});

  Write(root, "test/cat/3.png", PngBytes(Solid(4, 4, 1, 2, 3)));
  CHECK(List(root, {.split = Split::kTest}).files == Strings{"test/cat/3.png"});
  CHECK(List(root, {.split = Split::kValidation}).files == val);
  Write(root, "test/4.png", PngBytes(Solid(4, 4, 1, 2, 3)));  // a flat folder is no split
  CHECK(List(root, {.split = Split::kTest}).files == val);
}

TEST_CASE("classes that are called train or test are classes where images lie in them") {
  const ScratchDirectory root;
  for (const char* name : {"train/1.png", "train/old/2.png", "val/1.png"})
    Write(root, name, PngBytes(Solid(4, 4, 1, 2, 3)));
  CHECK(List(root).files == Strings{"train/1.png", "train/old/2.png", "val/1.png"});
  REQUIRE(List(root).notices.size() == 1);  // all the same, they may be meant as splits
  CHECK(List(root).notices[0].find(" has the classes train, val; if these are splits, ") !=
        std::string::npos);
  const ScratchDirectory vehicles;
  for (const char* name : {"car/1.png", "train/old/1.png"})
    Write(vehicles, name, PngBytes(Solid(4, 4, 1, 2, 3)));
  CHECK(List(vehicles).files == Strings{"car/1.png", "train/old/1.png"});
  CHECK(List(vehicles).notices.empty());
}

}  // namespace
}  // namespace neap
