// NIfTI files, written byte by byte.
#include "neap/core/data/nifti.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <string>
#include <vector>

#include "tests/core/data/data_files.h"

namespace neap {
namespace {

using testing::LittleEndian;
using testing::NiftiBytes;
using testing::StoredGzip;

TEST_CASE("x is the last axis of a volume, z the first, and further ones are channels") {
  const ScratchDirectory directory;
  const std::string path = directory.File("a.nii");
  std::vector<float> voxels(2 * 3 * 4 * 2);
  for (size_t i = 0; i < voxels.size(); ++i) voxels[i] = static_cast<float>(i) + 0.5F;
  WriteText(path, NiftiBytes({4, 3, 2, 2}, LittleEndian(voxels)));
  const Volume volume = ReadNifti(path).value();
  CHECK(volume.shape == ImageShape{.c = 2, .h = 3, .w = 4, .d = 2});
  CHECK(volume.values == voxels);
  const VolumeForm form = ReadVolumeForm(path).value();
  CHECK(form.shape == volume.shape);
  CHECK(form.stored_bytes == std::ssize(voxels) * 4);
}

TEST_CASE("compressed integers are scaled as the header says") {
  const ScratchDirectory directory;
  const std::string path = directory.File("a.nii.gz");
  const std::string voxels = LittleEndian<int16_t>({-3, 0, 4, 1000});
  WriteText(path, StoredGzip(NiftiBytes({2, 2, 1}, voxels,
                                        {.datatype = 4, .bits = 16, .slope = 0.5F, .shift = 10})));
  CHECK(ReadNifti(path)->values == std::vector<float>{8.5F, 10, 12, 510});
  WriteText(path, StoredGzip(NiftiBytes({2, 2, 1}, voxels, {.datatype = 4, .bits = 16})));
  CHECK(ReadNifti(path)->values == std::vector<float>{-3, 0, 4, 1000});
}

TEST_CASE("a header and voxels of the other byte order are swapped, and NaN stays NaN") {
  const ScratchDirectory directory;
  const std::string path = directory.File("a.nii");
  const std::vector<float> voxels = {1.5F, -2, std::numeric_limits<float>::quiet_NaN()};
  std::string bytes = NiftiBytes({3, 1, 1}, LittleEndian(voxels));
  const auto swap = [&](size_t begin, size_t size, size_t count) {
    for (size_t i = 0; i < count; ++i)
      std::reverse(bytes.begin() + static_cast<int64_t>(begin + i * size),
                   bytes.begin() + static_cast<int64_t>(begin + (i + 1) * size));
  };
  swap(0, 4, 1);    // sizeof_hdr
  swap(40, 2, 8);   // dim
  swap(70, 2, 2);   // datatype, bitpix
  swap(76, 4, 11);  // pixdim, vox_offset, scl_slope, scl_inter
  swap(352, 4, 3);
  WriteText(path, bytes);
  const Volume volume = ReadNifti(path).value();
  REQUIRE(volume.values.size() == 3);
  CHECK(volume.values[0] == 1.5F);
  CHECK(volume.values[1] == -2);
  CHECK(std::isnan(volume.values[2]));
  const absl::Status status = ReadVolume({path}).status();
  CHECK(absl::IsDataLoss(status));
  CHECK(std::string(status.message()).find(path + ": slice 0, row 0, column 2: the voxel is nan") ==
        0);
}

TEST_CASE("labels may be floating-point numbers, if they are whole") {
  const ScratchDirectory directory;
  const std::string path = directory.File("a.nii");
  WriteText(path, NiftiBytes({3, 1, 1}, LittleEndian<float>({0, 2, 255})));
  CHECK(ReadVolumeLabels(path, 3)->labels == std::vector<uint8_t>{0, 2, 255});
  WriteText(path, NiftiBytes({3, 1, 1}, LittleEndian<float>({0, 1.5F, 2})));
  const absl::Status status = ReadVolumeLabels(path, 3).status();
  CHECK(absl::IsDataLoss(status));
  CHECK(std::string(status.message()).find("column 1: 1.5 is not the number of a class") !=
        std::string::npos);
}

TEST_CASE("a header of text is refused, whatever file it says has the voxels") {
  const ScratchDirectory directory;
  const std::string path = directory.File("a.nii"), other = directory.File("other");
  WriteText(other, std::string(8, '\1'));
  for (const std::string& voxels : {std::string(), "  image_filename = '" + other + "'\n"}) {
    WriteText(path, "<nifti_image\n  ndim = '3'\n  nx = '2'\n  ny = '2'\n  nz = '2'\n" + voxels +
                        "  datatype = '2'\n/>\n" + std::string(8, '\1'));
    for (const absl::Status& status : {ReadNifti(path).status(), ReadNiftiForm(path).status()}) {
      CHECK_FALSE(status.ok());
      CHECK(std::string(status.message()).find(path + ": not a NIfTI-1 file") == 0);
    }
  }
}

TEST_CASE("damaged files and other types are refused, naming the file") {
  const ScratchDirectory directory;
  const std::string path = directory.File("a.nii");
  const std::string good = NiftiBytes({3, 2, 2}, std::string(48, '\1'));
  CHECK(absl::IsNotFound(ReadNifti(path).status()));
  WriteText(path, "no volume");
  CHECK(absl::IsDataLoss(ReadNifti(path).status()));
  WriteText(path, good.substr(0, good.size() - 1));
  const absl::Status status = ReadNifti(path).status();
  CHECK(absl::IsDataLoss(status));
  CHECK(status.message() == path +
                                ": byte 399: the file ends here; the header says 1x2x2x3 "
                                "voxels, 48 bytes");
  WriteText(directory.File("a.nii.gz"), StoredGzip(good.substr(0, good.size() - 1)));
  CHECK(absl::IsDataLoss(ReadNifti(directory.File("a.nii.gz")).status()));
  WriteText(path, NiftiBytes({3, 2, 2}, std::string(96, '\1'), {.datatype = 32, .bits = 64}));
  CHECK(absl::IsInvalidArgument(ReadNifti(path).status()));  // complex
  WriteText(path, NiftiBytes({32000, 32000, 32000}, ""));
  CHECK(absl::IsInvalidArgument(ReadNifti(path).status()));
}

}  // namespace
}  // namespace neap
