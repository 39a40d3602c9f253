#include "neap/core/initialize.h"

#include <cmath>
#include <numbers>

#include "neap/core/philox.h"
#include "neap/core/stable_hash.h"

namespace neap {
namespace {

// Box-Muller: two uniform numbers to one normal one.
double Normal(uint32_t a, uint32_t b) {
  const double radius = std::sqrt(-2.0 * std::log((a + 0.5) * 0x1p-32));
  return radius * std::cos(2.0 * std::numbers::pi * (b + 0.5) * 0x1p-32);
}

float Value(const Init& init, const PhiloxBlock& random) {
  switch (init.kind) {
    case Init::Kind::kConstant:
      return init.scale;
    case Init::Kind::kNormal:
      return static_cast<float>(init.scale * Normal(random[0], random[1]));
    case Init::Kind::kUniform:
      return init.scale * (2.0F * ToUnitFloat(random[0]) - 1.0F);
  }
  return 0;
}

}  // namespace

std::vector<float> InitialValues(const Tensor& tensor, uint64_t seed) {
  std::vector<float> values(static_cast<size_t>(tensor.spec.elements()));
  if (tensor.init.kind == Init::Kind::kConstant) {
    values.assign(values.size(), tensor.init.scale);
    return values;
  }
  const uint64_t stream = StableHash(tensor.name);
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = Value(tensor.init, Philox({.key = seed, .stream = stream, .position = i}));
  }
  return values;
}

}  // namespace neap
