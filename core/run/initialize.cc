#include "neap/core/run/initialize.h"

#include <cmath>
#include <numbers>

#include "neap/core/base/parallel.h"
#include "neap/core/base/philox.h"
#include "neap/core/base/stable_hash.h"

namespace neap {
namespace {

// Random numbers take about 40 ns each, so a thread of its own is worth it for so many of them.
constexpr size_t kValuesOfThread = 16'384;

// The Box-Muller transform: two uniform numbers give a normal one.
double Normal(uint32_t a, uint32_t b) {
  const double radius = std::sqrt(-2.0 * std::log((a + 0.5) * 0x1p-32));
  return radius * std::cos(2.0 * std::numbers::pi * (b + 0.5) * 0x1p-32);
}

// Bilinear weights along one axis: a triangle over `size` elements, 1 at its middle.
double Triangle(int64_t size, int64_t at) {
  const double reach = static_cast<double>((size + 1) / 2);
  const double middle = size % 2 == 1 ? reach - 1 : reach - 0.5;
  return 1 - std::abs(static_cast<double>(at) - middle) / reach;
}

// The values of a weight {in, out, kernel...}: linear along each axis, from each channel to itself,
// 0 between channels.
std::vector<float> BilinearValues(const Shape& shape) {
  std::vector<float> values(static_cast<size_t>(shape.elements()));
  for (int64_t i = 0; i < shape.elements(); ++i) {
    const int64_t channels = i / shape.positions();
    if (channels / shape.c() != channels % shape.c()) continue;
    double value = 1;
    int64_t rest = i;
    for (int axis = shape.rank() - 1; axis >= 2; rest /= shape[axis--])
      value *= Triangle(shape[axis], rest % shape[axis]);
    values[static_cast<size_t>(i)] = static_cast<float>(value);
  }
  return values;
}

float Value(const Init& init, const PhiloxBlock& random) {
  switch (init.kind) {
    case Init::Kind::kConstant:
      return init.scale;
    case Init::Kind::kNormal:
      return static_cast<float>(init.scale * Normal(random[0], random[1]));
    case Init::Kind::kUniform:
      return init.scale * (2.0F * ToUnitFloat(random[0]) - 1.0F);
    case Init::Kind::kFirst:
    case Init::Kind::kBilinear:
      break;  // not functions of a random number; see InitialValues()
  }
  return 0;
}

}  // namespace

std::vector<float> InitialValues(const Tensor& tensor, uint64_t seed) {
  if (tensor.init.kind == Init::Kind::kBilinear) return BilinearValues(tensor.spec.shape);
  std::vector<float> values(static_cast<size_t>(tensor.spec.elements()));
  if (tensor.init.kind == Init::Kind::kConstant) {
    values.assign(values.size(), tensor.init.scale);
    return values;
  }
  if (tensor.init.kind == Init::Kind::kFirst) {
    values[0] = tensor.init.scale;
    return values;
  }
  const uint64_t stream = StableHash(tensor.name);
  InParallel(values.size(), values.size() / kValuesOfThread, [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i)
      values[i] = Value(tensor.init, Philox({.key = seed, .stream = stream, .position = i}));
  });
  return values;
}

}  // namespace neap
