#include "neap/core/vision/synthetic.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>

#include "absl/strings/str_cat.h"
#include "neap/core/base/philox.h"

namespace neap {
namespace {

// A pattern consists of kGrid x kGrid fields of one value each, in [-1, 1).
constexpr int64_t kGrid = 8;
// Noise has 256 levels, uniform in [-kNoise, kNoise]: one random byte per pixel, since large images
// take time.
constexpr float kNoise = 1.0F;
constexpr int64_t kNoiseBlock = sizeof(PhiloxBlock);  // pixels for one PhiloxBlock
constexpr int64_t kNoiseChunk = 64 * kNoiseBlock;     // pixels at a time
static_assert(std::endian::native == std::endian::little, "a block's bytes are its numbers' bytes");
// The position of the random numbers of patterns, far from those of noise.
constexpr uint64_t kPatternPosition = uint64_t{1} << 63;
// The position of the random numbers of the fields' classes.
constexpr uint64_t kClassPosition = uint64_t{1} << 62;

std::array<float, kGrid * kGrid> Fields(uint64_t seed, int64_t class_index, int64_t channel) {
  std::array<float, kGrid* kGrid> fields = {};
  const uint64_t stream = static_cast<uint64_t>(class_index) << 32 | static_cast<uint64_t>(channel);
  for (size_t i = 0; i < fields.size(); i += 4) {
    const PhiloxBlock block =
        Philox({.key = seed, .stream = stream, .position = kPatternPosition + i / 4});
    for (size_t j = 0; j < 4; ++j) fields[i + j] = 2.0F * ToUnitFloat(block[j]) - 1.0F;
  }
  return fields;
}

// One channel: H x W pixels of kGrid x kGrid fields, the same in each plane of a volume.
void DrawChannel(const ImageShape& shape, const std::array<float, kGrid * kGrid>& fields,
                 float* pixels) {
  for (int64_t row_of_all = 0; row_of_all < shape.d * shape.h; ++row_of_all) {
    const int64_t y = row_of_all % shape.h;
    const float* row = fields.data() + y * kGrid / shape.h * kGrid;
    for (int64_t x = 0, field = 0; field < kGrid; ++field) {
      const int64_t end = (shape.w * (field + 1) + kGrid - 1) / kGrid;
      for (; x < end; ++x) *pixels++ = row[field];
    }
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<SyntheticDataset>> SyntheticDataset::Create(
    SyntheticOptions options) {
  const ImageShape& shape = options.shape;
  if (shape.c < 1 || shape.d < 1 || shape.h < 1 || shape.w < 1 || options.classes < 1 ||
      options.size < 1 || options.classes > std::numeric_limits<int32_t>::max()) {
    return absl::InvalidArgumentError(absl::StrCat("cannot make ", options.size,
                                                   " synthetic images of ", ToString(shape), " in ",
                                                   options.classes, " classes"));
  }
  return std::unique_ptr<SyntheticDataset>(new SyntheticDataset(options));
}

absl::Status SyntheticDataset::Read(int64_t index, float* pixels, int32_t* labels) const {
  if (index < 0 || index >= options_.size) {
    return absl::InvalidArgumentError(
        absl::StrCat("synthetic: no image ", index, " among ", options_.size));
  }
  if (options_.label_pixels) {
    DrawFields(index, pixels, labels);
  } else {
    *labels = static_cast<int32_t>(index % options_.classes);
    DrawPattern(*labels, pixels);
  }
  AddNoise(index, pixels);
  return absl::OkStatus();
}

void SyntheticDataset::DrawPattern(int64_t class_index, float* pixels) const {
  const ImageShape& shape = options_.shape;
  for (int64_t c = 0; c < shape.c; ++c) {
    DrawChannel(shape, Fields(options_.seed, class_index, c), pixels + c * shape.positions());
  }
}

void SyntheticDataset::DrawFields(int64_t index, float* pixels, int32_t* labels) const {
  const ImageShape& shape = options_.shape;
  std::array<int32_t, kGrid* kGrid> classes = {};
  for (size_t f = 0; f < classes.size(); ++f) {
    const PhiloxBlock block =
        Philox({.key = options_.seed, .stream = StreamOf(index), .position = kClassPosition + f});
    classes[f] = static_cast<int32_t>(block[0] % static_cast<uint64_t>(options_.classes));
  }
  for (int64_t i = 0; i < shape.positions(); ++i) {
    const int64_t field =
        i / shape.w % shape.h * kGrid / shape.h * kGrid + i % shape.w * kGrid / shape.w;
    labels[i] = classes[static_cast<size_t>(field)];
  }
  for (int64_t c = 0; c < shape.c; ++c) {
    std::array<float, kGrid* kGrid> colours = {};
    for (size_t f = 0; f < colours.size(); ++f) {
      colours[f] = Fields(options_.seed, classes[f], c)[0];
    }
    DrawChannel(shape, colours, pixels + c * shape.positions());
  }
}

uint64_t SyntheticDataset::StreamOf(int64_t index) const {
  return static_cast<uint64_t>(index) << 1 | static_cast<uint64_t>(options_.split != Split::kTrain);
}

void SyntheticDataset::AddNoise(int64_t index, float* pixels) const {
  const uint64_t stream = StreamOf(index);
  const int64_t elements = options_.shape.elements();
  std::array<uint8_t, kNoiseChunk> noise;
  for (int64_t begin = 0; begin < elements; begin += kNoiseChunk) {
    const int64_t count = std::min(kNoiseChunk, elements - begin);
    for (int64_t i = 0; i < count; i += kNoiseBlock) {
      const auto position = static_cast<uint64_t>((begin + i) / kNoiseBlock);
      const PhiloxBlock block =
          Philox({.key = options_.seed, .stream = stream, .position = position});
      std::memcpy(noise.data() + i, block.data(), sizeof(block));
    }
    // Apart from the random numbers, so that the compiler vectorises it.
    for (int64_t i = 0; i < count; ++i) {
      const auto byte = static_cast<int32_t>(noise[static_cast<size_t>(i)]);
      pixels[begin + i] += kNoise * (static_cast<float>(byte) * (2.0F / 255.0F) - 1.0F);
    }
  }
}

}  // namespace neap
