// Folders of images that tests write and open.
#pragma once

#include <doctest/doctest.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "neap/core/vision/image_folder.h"
#include "tests/scratch_directory.h"

namespace neap::testing {

inline void Write(const ScratchDirectory& root, const std::string& name, const std::string& bytes) {
  const std::filesystem::path path = root.File(name);
  std::filesystem::create_directories(path.parent_path());
  WriteText(path, bytes);
}

inline std::unique_ptr<ImageFolder> MustOpen(const ScratchDirectory& root,
                                             const ImageFolderOptions& options = {}) {
  absl::StatusOr<std::unique_ptr<ImageFolder>> folder = ImageFolder::Open(root.path(), options);
  REQUIRE_MESSAGE(folder.ok(), folder.status().ToString());
  return *std::move(folder);
}

struct Sample {
  std::vector<float> pixels;
  int32_t label = -1;
};

inline Sample MustRead(const ImageFolder& folder, int64_t index) {
  Sample sample = {.pixels = std::vector<float>(static_cast<size_t>(folder.shape().elements()))};
  REQUIRE(folder.Read(index, sample.pixels.data(), &sample.label).ok());
  return sample;
}

}  // namespace neap::testing
