#include "neap/core/data/nifti.h"

#include <nifti1_io.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <memory>
#include <new>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "neap/core/base/file.h"
#include "neap/core/base/gzip.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/data/stored_number.h"

namespace neap {
namespace {

struct NiftiDeleter {
  void operator()(nifti_image* image) const { nifti_image_free(image); }
};
using NiftiImage = std::unique_ptr<nifti_image, NiftiDeleter>;

// The library prints what it finds wrong, unless it is told not to.
void QuietenLibrary() {
  [[maybe_unused]] static const bool quiet = (nifti_set_debug_level(0), true);
}

absl::StatusOr<ImageShape> NiftiShape(const nifti_image& image, const std::string& path) {
  std::array<int64_t, 7> extents = {};
  int64_t voxels = 1;
  for (size_t axis = 0; axis < extents.size(); ++axis) {
    const bool is_used = static_cast<int>(axis) < image.dim[0];
    extents[axis] = is_used ? image.dim[axis + 1] : 1;
    if (extents[axis] < 1 || __builtin_mul_overflow(voxels, extents[axis], &voxels) ||
        voxels > kMaxNiftiVoxels) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": no voxels, or more than ", kMaxNiftiVoxels));
    }
  }
  const int64_t channels = extents[3] * extents[4] * extents[5] * extents[6];
  return ImageShape{.c = channels, .h = extents[1], .w = extents[0], .d = extents[2]};
}

// `bytes` are the voxels as the file has them.
template <typename Stored>
void ConvertVoxels(const nifti_image& image, const std::byte* bytes, std::vector<float>& values) {
  const bool scales = std::isfinite(image.scl_slope) && image.scl_slope != 0;
  const double slope = scales ? static_cast<double>(image.scl_slope) : 1;
  const double shift =
      scales && std::isfinite(image.scl_inter) ? static_cast<double>(image.scl_inter) : 0;
  const bool is_swapped = image.byteorder != nifti_short_order();
  for (size_t i = 0; i < values.size(); ++i) {
    const auto stored = LoadStored<Stored>(bytes + i * sizeof(Stored), is_swapped);
    values[i] = static_cast<float>(static_cast<double>(stored) * slope + shift);
  }
}

// The voxels' bytes, decompressed if the file is.
absl::StatusOr<std::vector<std::byte>> VoxelBytes(const nifti_image& image, const std::string& path,
                                                  const ImageShape& shape) {
  ASSIGN_OR_RETURN(const ReadableFile file, ReadableFile::Open(path));
  const int64_t begin = image.iname_offset, count = shape.elements() * image.nbyper;
  if (begin < 0) return file.Corrupt(0, "the header says that voxels begin before the file");
  std::vector<std::byte> bytes;
  if (absl::EndsWithIgnoreCase(file.path(), ".gz")) {
    ASSIGN_OR_RETURN(bytes, ReadGzip(file, begin + count));
    bytes.erase(bytes.begin(), bytes.begin() + std::min(begin, std::ssize(bytes)));
    if (std::ssize(bytes) == count) return bytes;
    return absl::DataLossError(absl::StrCat(file.path(), ": ", std::ssize(bytes),
                                            " bytes of voxels; the header says ", ToString(shape),
                                            ", ", count));
  }
  if (file.size_bytes() < begin + count) {
    return file.Corrupt(file.size_bytes(),
                        absl::StrCat("the file ends here; the header says ", ToString(shape),
                                     " voxels, ", count, " bytes"));
  }
  try {
    bytes.resize(static_cast<size_t>(count));
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError(
        absl::StrCat(file.path(), ": no memory for ", count, " bytes"));
  }
  RETURN_IF_ERROR(file.ReadAt(begin, absl::MakeSpan(bytes)));
  return bytes;
}

// Null for a type that is not read.
using NiftiConversion = void (*)(const nifti_image&, const std::byte*, std::vector<float>&);
NiftiConversion ConversionOf(int datatype) {
  switch (datatype) {
    case NIFTI_TYPE_UINT8:
      return ConvertVoxels<uint8_t>;
    case NIFTI_TYPE_INT8:
      return ConvertVoxels<int8_t>;
    case NIFTI_TYPE_UINT16:
      return ConvertVoxels<uint16_t>;
    case NIFTI_TYPE_INT16:
      return ConvertVoxels<int16_t>;
    case NIFTI_TYPE_UINT32:
      return ConvertVoxels<uint32_t>;
    case NIFTI_TYPE_INT32:
      return ConvertVoxels<int32_t>;
    case NIFTI_TYPE_UINT64:
      return ConvertVoxels<uint64_t>;
    case NIFTI_TYPE_INT64:
      return ConvertVoxels<int64_t>;
    case NIFTI_TYPE_FLOAT32:
      return ConvertVoxels<float>;
    case NIFTI_TYPE_FLOAT64:
      return ConvertVoxels<double>;
    default:
      return nullptr;
  }
}

absl::StatusOr<NiftiImage> ReadNiftiHeader(const std::string& path) {
  RETURN_IF_ERROR(ReadableFile::Open(path).status());  // the library would not say why it fails
  QuietenLibrary();
  NiftiImage image(nifti_image_read(path.c_str(), /*read_data=*/0));
  if (image == nullptr)
    return absl::DataLossError(absl::StrCat(path, ": not a NIfTI-1 file, or a damaged header"));
  // The library also reads older files, and headers of text, whose voxels may be in any file.
  if (image->nifti_type == NIFTI_FTYPE_NIFTI1_1) return image;
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": not a NIfTI-1 file with header and voxels in one"));
}

}  // namespace

absl::StatusOr<VolumeForm> ReadNiftiForm(const std::string& path) {
  ASSIGN_OR_RETURN(const NiftiImage image, ReadNiftiHeader(path));
  ASSIGN_OR_RETURN(const ImageShape shape, NiftiShape(*image, path));
  return VolumeForm{.shape = shape, .stored_bytes = shape.elements() * image->nbyper};
}

absl::StatusOr<Volume> ReadNifti(const std::string& path) {
  ASSIGN_OR_RETURN(const NiftiImage image, ReadNiftiHeader(path));
  ASSIGN_OR_RETURN(const ImageShape shape, NiftiShape(*image, path));
  const NiftiConversion convert = ConversionOf(image->datatype);
  if (convert == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": voxels of the type ", nifti_datatype_string(image->datatype),
                     " are not read; integers and floating-point numbers of up to 8 bytes are"));
  }
  ASSIGN_OR_RETURN(const std::vector<std::byte> bytes, VoxelBytes(*image, path, shape));
  Volume volume = {.shape = shape};
  try {
    volume.values.resize(static_cast<size_t>(shape.elements()));
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError(
        absl::StrCat(path, ": no memory for ", ToString(shape), " voxels"));
  }
  convert(*image, bytes.data(), volume.values);
  return volume;
}

}  // namespace neap
