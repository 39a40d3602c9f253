#include "neap/layers/initial_weights.h"

#include <cmath>

namespace neap {
namespace {

double FanIn(const Shape& weight) {
  return static_cast<double>(weight.elements()) / static_cast<double>(weight[0]);
}
double FanOut(const Shape& weight) {
  return static_cast<double>(weight.elements()) / static_cast<double>(weight[1]);
}

Init Uniform(double half_width) { return {Init::Kind::kUniform, static_cast<float>(half_width)}; }
Init Normal(double deviation) { return {Init::Kind::kNormal, static_cast<float>(deviation)}; }

Init UniformFanIn(const Shape& weight) { return Uniform(1 / std::sqrt(FanIn(weight))); }

}  // namespace

Init WeightInit(const InitialWeights& rule, const Shape& weight) {
  switch (rule.weight) {
    case InitialWeights::Rule::kUniformFanIn:
      return UniformFanIn(weight);
    case InitialWeights::Rule::kHeFanIn:
      return Normal(std::sqrt(2 / FanIn(weight)));
    case InitialWeights::Rule::kHeFanOut:
      return Normal(std::sqrt(2 / FanOut(weight)));
    case InitialWeights::Rule::kNormal:
      return Normal(static_cast<double>(rule.scale));
    case InitialWeights::Rule::kUniform:
      return Uniform(static_cast<double>(rule.scale));
  }
  return {};
}

Init BiasInit(const InitialWeights& rule, const Shape& weight) {
  return rule.zero_bias ? Init{} : UniformFanIn(weight);
}

}  // namespace neap
