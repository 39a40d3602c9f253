// The files of a folder that are images, and their classes.
//
// A folder seldom holds only what its user thinks of: notebooks and file managers leave hidden
// folders in it, links lead back to a folder above them, so that images come again and again, and
// the folders of classes lie one level deeper, in train/ and val/. Training would go on with what
// this looks like, and learn to tell train from val. So hidden folders and files (whose names begin
// with a dot) are left out, and so are links that close a loop; the user is told. A folder of
// splits is one:
//
//   DIR/train/cat/1.jpg    a class in a split, because DIR/train has nothing but folders, and there
//   DIR/val/cat/7.jpg      is another split beside it: val, valid, validation or test
//
//   ASSIGN_OR_RETURN(const std::string folder, SplitFolder("DIR", Split::kTrain));  // DIR/train
//   std::vector<std::string> notices;
//   ASSIGN_OR_RETURN(const std::vector<std::string> classes, ClassFolders(folder, notices));
//   ASSIGN_OR_RETURN(const std::vector<std::string> files, ImageFiles(folder + "/cat", notices));
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "neap/core/vision/dataset.h"

namespace neap {

// Whether the folder has a folder for each split.
bool HasSplits(const std::string& directory);
// The folder of the split, or the directory itself if it has none. For kTest and kValidation the
// other one serves where there is only one of them. Errors: NOT_FOUND if there is no such folder.
absl::StatusOr<std::string> SplitFolder(const std::string& directory, Split split);

// The names of the folders within, sorted, at least one. Errors: NOT_FOUND.
absl::StatusOr<std::vector<std::string>> ClassFolders(const std::string& directory,
                                                      std::vector<std::string>& notices);
// The images in the folder and those within it, by folder and name. Errors: INVALID_ARGUMENT for a
// file with the name of an image in a format that is not read; the operating system's.
absl::StatusOr<std::vector<std::string>> ImageFiles(const std::string& folder,
                                                    std::vector<std::string>& notices);

}  // namespace neap
