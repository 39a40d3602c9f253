#include "bench/photographs.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <mutex>
#include <string>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"
#include "neap/core/base/parallel.h"
#include "tests/image_files.h"

namespace neap {
namespace {

namespace fs = std::filesystem;

constexpr int kClasses = 10;
constexpr int kQuality = 92;

struct Size {
  int width;
  int height;
  int scale;  // of the pixels' sizes; a larger photograph shows no more
};

Size SizeOf(int photograph) {
  constexpr std::array<Size, 5> kUsual = {
      {{500, 375, 1}, {375, 500, 1}, {500, 375, 1}, {500, 333, 1}, {480, 360, 1}}};
  if (photograph % 64 == 31) return {1600, 1200, 3};
  if (photograph % 16 == 7) return {1024, 768, 2};
  return kUsual[static_cast<size_t>(photograph) % kUsual.size()];
}

using Plane = std::vector<float>;

// Values from -1 to 1, by a linear congruential generator.
class Random {
 public:
  explicit Random(int photograph) : state_(static_cast<uint32_t>(photograph) * 2654435761U + 1) {}
  float Next() {
    state_ = state_ * 1664525U + 1013904223U;
    return static_cast<float>(state_ >> 8) / static_cast<float>(1 << 23) - 1;
  }

 private:
  uint32_t state_;
};

// Adds noise: random values at the corners of squares of `side` pixels, and between them a surface.
void AddNoise(const Size& size, int side, float amplitude, Random& random, Plane& plane) {
  const int across = size.width / side + 2;
  std::vector<float> corners(static_cast<size_t>(across * (size.height / side + 2)));
  for (float& corner : corners) corner = amplitude * random.Next();
  float* to = plane.data();
  for (int y = 0; y < size.height; ++y) {
    const float* const above = corners.data() + y / side * across;
    const float down = static_cast<float>(y % side) / static_cast<float>(side);
    for (int x = 0; x < size.width; ++x) {
      const float* const top = above + x / side;
      const float* const bottom = top + across;
      const float right = static_cast<float>(x % side) / static_cast<float>(side);
      const float upper = top[0] + right * (top[1] - top[0]);
      const float lower = bottom[0] + right * (bottom[1] - bottom[0]);
      *to++ += upper + down * (lower - upper);
    }
  }
}

// Noise of all wavelengths from `least` pixels on.
Plane Noise(const Size& size, int least, float amplitude, Random& random) {
  Plane plane(static_cast<size_t>(size.width * size.height));
  for (int side = least; side <= 128; side *= 2) {
    const float share = std::pow(static_cast<float>(side) / 128, 0.27F);
    AddNoise(size, side * size.scale, amplitude * share, random, plane);
  }
  return plane;
}

testing::TestImage Photograph(int number) {
  const Size size = SizeOf(number);
  Random random(number);
  const Plane light = Noise(size, 1, 62, random);
  const Plane red = Noise(size, 8, 24, random);
  const Plane blue = Noise(size, 8, 24, random);
  testing::TestImage image = {.width = size.width, .height = size.height, .rgb = {}};
  image.rgb.reserve(3 * light.size());
  for (size_t i = 0; i < light.size(); ++i) {
    for (const float color : {red[i], -(red[i] + blue[i]) / 2, blue[i]}) {
      const float value = 120 + light[i] + color;
      image.rgb.push_back(static_cast<uint8_t>(std::clamp(value, 0.0F, 255.0F)));
    }
  }
  return image;
}

absl::Status SystemError(const fs::path& path, const std::error_code& error) {
  return absl::UnknownError(absl::StrCat(path.string(), ": ", error.message()));
}

// Returns whether the file was written.
bool Write(const fs::path& path, const std::string& bytes) {
  std::ofstream file(path, std::ios::binary);
  file << bytes;
  file.close();
  return file.good();
}

}  // namespace

absl::Status MakePhotographs(const fs::path& folder, int count) {
  const fs::path incomplete = folder.string() + ".incomplete";
  std::error_code error;
  fs::remove_all(incomplete, error);  // of a run that was interrupted
  if (error) return SystemError(incomplete, error);
  for (int c = 0; c < kClasses; ++c) {
    fs::create_directories(incomplete / absl::StrCat("class", c), error);
    if (error) return SystemError(incomplete, error);
  }
  std::mutex mutex;
  absl::Status status;
  EachInParallel(static_cast<size_t>(count), AvailableCores(), [&] {
    return [&](size_t i) {
      const int number = static_cast<int>(i);
      const fs::path path =
          incomplete / absl::StrCat("class", number % kClasses) / absl::StrCat(number, ".jpg");
      if (Write(path, testing::JpegBytes(Photograph(number), {.quality = kQuality}))) return;
      const std::lock_guard lock(mutex);
      status = absl::UnknownError(absl::StrCat(path.string(), ": the file cannot be written"));
    };
  });
  if (!status.ok()) return status;
  fs::rename(incomplete, folder, error);
  return error ? SystemError(folder, error) : absl::OkStatus();
}

}  // namespace neap
