// Volumes of .npy files, their labels and their normalisation.
#include "neap/core/data/volume.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "tests/core/data/data_files.h"

namespace neap {
namespace {

using testing::LittleEndian;
using testing::NpyBytes;

std::vector<float> CountedTo(size_t count) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), 0.0F);
  return values;
}

TEST_CASE("arrays of three axes have a channel, of four the channels come first") {
  const ScratchDirectory directory;
  const std::string path = directory.File("a.npy");
  WriteText(path, NpyBytes("<f4", "(2, 3, 4)", LittleEndian(CountedTo(24))));
  Volume volume = ReadVolume({path}).value();
  CHECK(volume.shape == ImageShape{.c = 1, .h = 3, .w = 4, .d = 2});
  CHECK(ToString(volume.shape) == "1x2x3x4");
  CHECK(volume.values == CountedTo(24));
  const std::string both = directory.File("b.npy");
  WriteText(both, NpyBytes("<f4", "(2, 2, 3, 4)", LittleEndian(CountedTo(48))));
  volume = ReadVolume({both, path}).value();  // and one more
  CHECK(volume.shape == ImageShape{.c = 3, .h = 3, .w = 4, .d = 2});
  std::vector<float> expected = CountedTo(48);
  for (const float value : CountedTo(24)) expected.push_back(value);
  CHECK(volume.values == expected);

  WriteText(both, NpyBytes("<f4", "(2, 4, 3)", LittleEndian(CountedTo(24))));
  CHECK(absl::IsInvalidArgument(ReadVolume({path, both}).status()));
  WriteText(both, NpyBytes("<f4", "(8, 3)", LittleEndian(CountedTo(24))));
  CHECK(absl::IsInvalidArgument(ReadVolume({both}).status()));
}

TEST_CASE("labels are classes, or none below 0 and at 255") {
  const ScratchDirectory directory;
  const std::string path = directory.File("a.npy");
  WriteText(path, NpyBytes("<i2", "(1, 2, 3)", LittleEndian<int16_t>({0, 2, 255, -1, 1, 0})));
  const VolumeLabels labels = ReadVolumeLabels(path, 3).value();
  CHECK(labels.labels == std::vector<uint8_t>{0, 2, 255, 255, 1, 0});
  CHECK(labels.shape == ImageShape{.c = 1, .h = 2, .w = 3, .d = 1});
  const absl::Status status = ReadVolumeLabels(path, 2).status();
  CHECK(absl::IsDataLoss(status));
  CHECK(status.message() == path + ": slice 0, row 0, column 1: label 2 of 2 classes");
}

TEST_CASE("labels of floating-point numbers are the same, if they are whole") {
  const ScratchDirectory directory;
  const std::string path = directory.File("a.npy");
  WriteText(path, NpyBytes("<f8", "(1, 1, 4)", LittleEndian<double>({0, 2, 255, -1})));
  CHECK(ReadVolumeLabels(path, 3)->labels == std::vector<uint8_t>{0, 2, 255, 255});
  WriteText(path, NpyBytes("<f4", "(1, 1, 2)", LittleEndian<float>({0, 1.5F})));
  CHECK(ReadVolumeLabels(path, 3).status() ==
        absl::DataLossError(path + ": slice 0, row 0, column 1: 1.5 is not the number of a class"));
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  WriteText(path, NpyBytes("<f4", "(1, 1, 2)", LittleEndian<float>({0, kNan})));
  CHECK(absl::IsDataLoss(ReadVolumeLabels(path, 3).status()));
}

TEST_CASE("a voxel without a value is refused by its place") {
  const ScratchDirectory directory;
  const std::string path = directory.File("a.npy");
  std::vector<double> voxels(24, 1);
  voxels[17] = std::numeric_limits<double>::quiet_NaN();
  WriteText(path, NpyBytes("<f8", "(2, 2, 2, 3)", LittleEndian(voxels)));
  const absl::Status status = ReadVolume({path}).status();
  CHECK(absl::IsDataLoss(status));
  CHECK(std::string(status.message())
            .find(path + ": channel 1, slice 0, row 1, column 2: the voxel is nan; ") == 0);
  voxels[17] = 1e300;  // no float
  WriteText(path, NpyBytes("<f8", "(2, 2, 2, 3)", LittleEndian(voxels)));
  CHECK(absl::IsDataLoss(ReadVolume({path}).status()));
  WriteText(path, NpyBytes("<f4", "(1, 2, 2)", LittleEndian<float>({0, 1, 2, INFINITY})));
  CHECK(std::string(ReadVolume({path}).status().message())
            .find(": slice 0, row 1, column 1: the voxel is inf; ") != std::string::npos);
}

TEST_CASE("headers say what reading takes") {
  const ScratchDirectory directory;
  const std::string path = directory.File("a.npy");
  WriteText(path, NpyBytes("<i2", "(2, 1, 3)", LittleEndian<int16_t>({1, 2, 3, 4, 5, 6})));
  const VolumeForm form = ReadVolumeForm(path).value();
  CHECK(form.shape == ImageShape{.c = 1, .h = 1, .w = 3, .d = 2});
  CHECK(form.stored_bytes == 12);
  CHECK(form.reading_bytes() == 36);
}

TEST_CASE("each channel is normalised by its own mean and deviation") {
  Volume volume = {.shape = {.c = 2, .h = 1, .w = 2, .d = 2}, .values = {1, 2, 3, 6, 5, 5, 5, 5}};
  NormaliseVolume(volume);
  const double deviation = std::sqrt((4 + 1 + 0 + 9) / 4.0);  // around 3
  const std::vector<double> expected = {
      -2 / deviation, -1 / deviation, 0, 3 / deviation, 0, 0, 0, 0};
  for (size_t i = 0; i < expected.size(); ++i)
    CHECK(static_cast<double>(volume.values[i]) == doctest::Approx(expected[i]));
}

}  // namespace
}  // namespace neap
