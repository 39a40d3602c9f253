// The files of a folder of which each has another one with its labels: images and masks, volumes
// and their segmentations.
//
// Datasets are laid out in a few ways. A file belongs to the one with the same stem, its name
// without the suffix, in the folder of labels:
//
//   DIR/train/images/7.jpg      DIR/train/masks/7.png        a folder for each split
//   DIR/images/train/7.jpg      DIR/annotations/train/7.png  the other way round (ADE20K)
//   DIR/images/7.jpg            DIR/masks/7.png              without splits
//   DIR/JPEGImages/7.jpg        DIR/SegmentationClass/7.png  the stems of each split are in
//                               DIR/ImageSets/Segmentation/train.txt, val.txt (Pascal VOC)
//   DIR/imagesTr/7_0000.nii.gz  DIR/labelsTr/7.nii.gz        channels 0, 1, ... in files of their
//   DIR/imagesTs/8_0000.nii.gz  DIR/labelsTs/8.nii.gz        own (nnU-Net, Medical Decathlon)
//
// The folder of labels is called masks, labels, annotations or SegmentationClass. A file without
// labels is left out, because some datasets label few of their images; labels without a file are
// an error, and so are two files of one stem. Hidden files are left out. Without a part for
// validation the one for tests serves, and the other way round; a folder without splits is its only
// one, for each.
//
//   ASSIGN_OR_RETURN(const LabelledFiles found,
//                    FindLabelledFiles("DIR", Split::kTrain, {{".jpg", ".png"}, {".png"}}));
//   const std::string& first = found.files[0].examples[0];  // DIR/train/images/7.jpg
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "neap/core/vision/dataset.h"

namespace neap {

struct LabelledFile {
  std::string stem;
  std::vector<std::string> examples;  // one, or one for each channel
  std::string labels;
};

struct LabelledFiles {
  std::vector<LabelledFile> files;   // by stem, at least one
  std::vector<std::string> notices;  // sentences on what was left out
};

// The suffixes of the files that are taken, in any case. ".nii.gz" comes before ".gz".
struct LabelledSuffixes {
  std::vector<std::string> examples;
  std::vector<std::string> labels;
};

// Errors: NOT_FOUND for a folder that is not there or has none of these layouts; INVALID_ARGUMENT
// naming labels without a file, files that share their stem, and a channel before which one is
// missing; the operating system's.
absl::StatusOr<LabelledFiles> FindLabelledFiles(const std::string& directory, Split split,
                                                const LabelledSuffixes& suffixes);

// Whether training and tests both have files, and each its own.
bool HasLabelledSplits(const std::string& directory);

// The names of the classes by number: the lines of DIR/classes.txt. Empty if there is no such file.
// Errors: INVALID_ARGUMENT for an empty line or a name that is there twice.
absl::StatusOr<std::vector<std::string>> NamesOfClasses(const std::string& directory);

}  // namespace neap
