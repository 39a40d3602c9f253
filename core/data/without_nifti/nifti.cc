// In a build without NIfTI's library.
#include "neap/core/data/nifti.h"

#include "absl/strings/str_cat.h"

namespace neap {

namespace {

absl::Status WithoutNifti(const std::string& path) {
  return absl::UnimplementedError(absl::StrCat(
      path,
      ": this build of neap cannot read NIfTI files: their library was not found; install "
      "the Debian package libnifti2-dev, and build it again"));
}

}  // namespace

absl::StatusOr<VolumeForm> ReadNiftiForm(const std::string& path) { return WithoutNifti(path); }
absl::StatusOr<Volume> ReadNifti(const std::string& path) { return WithoutNifti(path); }

}  // namespace neap
