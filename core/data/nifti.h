// NIfTI-1 files (.nii, .nii.gz), by the library of the format's authors.
//
// Read are integers of 1, 2, 4 and 8 bytes and floating-point numbers of 4 and 8, in both byte
// orders, with the scale that the header states: value * scl_slope + scl_inter. The library reads
// the header alone: it takes a truncated file for a whole one, and makes voxels that are infinite
// or NaN 0.
//
//   ASSIGN_OR_RETURN(const Volume scan, ReadNifti("scan.nii.gz"));
//
// *Errors*: NOT_FOUND and the like, as those of ReadableFile; DATA_LOSS naming the file for one
// that is damaged or shorter than its header says; INVALID_ARGUMENT for types that are not read,
// for a file whose voxels are in another or whose header is text, and for more than kMaxNiftiVoxels
// voxels; RESOURCE_EXHAUSTED; UNIMPLEMENTED, naming the package, in a build without the library.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "neap/core/data/volume.h"

namespace neap {

inline constexpr int64_t kMaxNiftiVoxels = int64_t{1} << 31;

// *Threads*: these are safe from several at once.
absl::StatusOr<VolumeForm> ReadNiftiForm(const std::string& path);
// Of voxels that are infinite or NaN, too.
absl::StatusOr<Volume> ReadNifti(const std::string& path);

}  // namespace neap
