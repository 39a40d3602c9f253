#include "tests/nets/onnx/reference_resize.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace neap::testing::reference {
namespace {

std::string Text(const Run& run, const std::string& name, const std::string& absent) {
  return run.Find(name) == nullptr ? absent : run.Find(name)->s();
}

// Output i of one axis: the elements that it has, and how much of each.
using Taps = std::vector<std::pair<int64_t, double>>;

double Original(const std::string& coordinates, double i, double in, double out, double scale) {
  if (coordinates == "asymmetric") return i / scale;
  if (coordinates == "align_corners") return out == 1 ? 0 : i * (in - 1) / (out - 1);
  if (coordinates == "pytorch_half_pixel" && out == 1) return 0;
  const double adjusted =
      coordinates == "half_pixel_symmetric" ? in / 2 * (1 - out / (in * scale)) : 0;
  return adjusted + (i + 0.5) / scale - 0.5;
}

double Nearest(const std::string& mode, double at) {
  if (mode == "floor") return std::floor(at);
  if (mode == "ceil") return std::ceil(at);
  return mode == "round_prefer_ceil" ? std::floor(at + 0.5) : std::ceil(at - 0.5);
}

double CubicWeight(double distance, double a) {
  const double t = std::abs(distance);
  if (t <= 1) return (a + 2) * t * t * t - (a + 3) * t * t + 1;
  return t < 2 ? a * t * t * t - 5 * a * t * t + 8 * a * t - 4 * a : 0;
}

Taps TapsOf(const Run& run, bool upsamples, int64_t i, int64_t in, int64_t out, double scale) {
  const std::string coordinates =
      upsamples ? "asymmetric" : Text(run, "coordinate_transformation_mode", "half_pixel");
  const std::string nearest =
      upsamples ? (scale < 1 ? "ceil" : "floor") : Text(run, "nearest_mode", "round_prefer_floor");
  const std::string mode = Text(run, "mode", "nearest");
  const double at = Original(coordinates, static_cast<double>(i), static_cast<double>(in),
                             static_cast<double>(out), scale);
  const double before = std::floor(at);
  Taps taps;
  const auto add = [&](double tap, double weight) {
    taps.emplace_back(std::clamp<int64_t>(static_cast<int64_t>(tap), 0, in - 1), weight);
  };
  if (mode == "nearest") {
    add(Nearest(nearest, at), 1);
  } else if (mode == "linear") {
    add(before, before + 1 - at);
    add(before + 1, at - before);
  } else {
    for (double tap = before - 1; tap <= before + 2; ++tap)
      add(tap, CubicWeight(at - tap, run.Float("cubic_coeff_a", -0.75)));
  }
  return taps;
}

// The extents of images before and after, and the scales of rows and columns.
struct Scaled {
  std::array<int64_t, 2> out;
  std::array<double, 2> scale;
};
Scaled ScaledOf(const Run& run, bool upsamples) {
  const T& x = run.in[0];
  const bool has_sizes = !upsamples && run.in.size() > 3 && !run.in[3].values.empty();
  const std::vector<double>& given = run.in[upsamples ? 1 : has_sizes ? 3 : 2].values;
  const size_t first = given.size() - 2;  // those of height and width are the last
  Scaled scaled = {};
  for (const size_t axis : {0, 1}) {
    const auto in = static_cast<double>(x.dims[2 + axis]);
    const double value = given[first + axis];
    scaled.scale[axis] = has_sizes ? value / in : value;
    const float product = static_cast<float>(in) * static_cast<float>(value);
    scaled.out[axis] = static_cast<int64_t>(has_sizes ? value : std::floor(product));
  }
  return scaled;
}

}  // namespace

T Resize(const Run& run, bool upsamples) {
  const T& x = run.in[0];
  const Scaled scaled = ScaledOf(run, upsamples);
  T y = Zeros({x.dims[0], x.dims[1], scaled.out[0], scaled.out[1]});
  Each(y, [&](int64_t n, int64_t c, int64_t h, int64_t w) {
    for (const auto& [row, of_row] :
         TapsOf(run, upsamples, h, x.dims[2], y.dims[2], scaled.scale[0])) {
      for (const auto& [column, of_column] :
           TapsOf(run, upsamples, w, x.dims[3], y.dims[3], scaled.scale[1]))
        At(y, n, c, h, w) += of_row * of_column * At(x, n, c, row, column);
    }
  });
  return y;
}

T DepthToSpace(const Run& run) {
  const T& x = run.in[0];
  const int64_t block = run.Int("blocksize", 0), channels = x.dims[1] / (block * block);
  const bool is_crd = Text(run, "mode", "DCR") == "CRD";
  T y = Zeros({x.dims[0], channels, x.dims[2] * block, x.dims[3] * block});
  Each(y, [&](int64_t n, int64_t c, int64_t h, int64_t w) {
    const int64_t pixel = h % block * block + w % block;
    const int64_t depth = is_crd ? c * block * block + pixel : pixel * channels + c;
    At(y, n, c, h, w) = At(x, n, depth, h / block, w / block);
  });
  return y;
}

T SpaceToDepth(const Run& run) {
  const T& x = run.in[0];
  const int64_t block = run.Int("blocksize", 0);
  T y = Zeros({x.dims[0], x.dims[1] * block * block, x.dims[2] / block, x.dims[3] / block});
  Each(y, [&](int64_t n, int64_t c, int64_t h, int64_t w) {
    const int64_t pixel = c / x.dims[1];
    At(y, n, c, h, w) =
        At(x, n, c % x.dims[1], h * block + pixel / block, w * block + pixel % block);
  });
  return y;
}

}  // namespace neap::testing::reference
