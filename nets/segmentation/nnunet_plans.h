// nnU-Net's plans files: the networks that it has planned for a data set.
//
//   nnUNet_preprocessed/Dataset017_AbdominalMRI/
//     nnUNetPlans.json             configurations, of which each has a patch and a network
//     nnUNetResEncUNetLPlans.json
//     dataset.json                 the classes
//
//   ASSIGN_OR_RETURN(nets::NnUNetOptions options,
//                    nets::ReadNnUNetPlans("nnUNetPlans.json", {.configuration = "2d"}));
//   Graph net = nets::NnUNet(options);
//
// Read are PlainConvUNet and ResidualEncoderUNet, as nnU-Net's planners state them since version 2,
// also in the fields that they had before "architecture"; a configuration has what it inherits.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "neap/nets/segmentation/nnunet.h"

namespace neap::nets {

struct NnUNetPlansOptions {
  std::string configuration;            // "": "3d_fullres", or if there is none "2d"
  std::optional<int64_t> classes = {};  // with the background; else those of dataset.json
  // Of the network, in a cascade also those for its classes; else as the plan says.
  std::optional<int64_t> channels = {};
  // Also networks whose volumes are not normalised by the mean and deviation of all their voxels,
  // as a VolumeFolder does it.
  bool other_normalizations = false;
};

// The network of a plans file, with its batch. It has a channel for each of the plan's
// normalisations, and behind another configuration in a cascade a further one for each class but
// the background. `classes` are those of the file dataset.json in the same folder unless they are
// given, without the label "ignore", which a VolumeFolder with that file reads as kNoLabel.
// Errors: NOT_FOUND for a file that does not exist and for an unknown configuration, with those
// that there are; INVALID_ARGUMENT naming the field of a file that is not as expected, or if there
// is no dataset.json and no number of classes; UNIMPLEMENTED naming what neap's networks do not
// have: another architecture, another norm or activation, dropout, convolutions without bias,
// classes that are regions of several labels, also if their number is given, and, unless
// `other_normalizations`, another scheme than ZScoreNormalization for volumes, such as
// CTNormalization, or one of the voxels in a mask alone (use_mask_for_norm).
absl::StatusOr<NnUNetOptions> ReadNnUNetPlans(const std::string& path,
                                              const NnUNetPlansOptions& options);

}  // namespace neap::nets
