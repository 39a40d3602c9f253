#include "tests/layers/reference_update.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace neap::testing {
namespace {

using namespace operands;
using Vector = std::vector<double>;

// g * min(1, clip_norm / (norm + 1e-6))
double ClipFactor(const StepSignature& signature, const Values& given) {
  if (!signature.optimizer.clips()) return 1;
  const double norm = std::sqrt(given.at(GradientNorm())[0]);
  return std::min(1.0, static_cast<double>(signature.optimizer.clip_norm) / (norm + 1e-6));
}

// The formulas of core/step/optimizer.h, of one element.
struct Element {
  double w = 0, m = 0, v = 0, average = 0;

  void Sgd(const Optimizer& optimizer, double rate, double gradient) {
    const auto momentum = static_cast<double>(optimizer.momentum);
    const double g = gradient + static_cast<double>(optimizer.weight_decay) * w;
    m = momentum * m + g;
    w -= rate * (optimizer.nesterov ? g + momentum * m : m);
  }
  void AdamW(const Optimizer& optimizer, double rate, double updates, double g) {
    const auto beta1 = static_cast<double>(optimizer.beta1);
    const auto beta2 = static_cast<double>(optimizer.beta2);
    w -= rate * static_cast<double>(optimizer.weight_decay) * w;
    m = beta1 * m + (1 - beta1) * g;
    v = beta2 * v + (1 - beta2) * g * g;
    const double root = std::sqrt(v / (1 - std::pow(beta2, updates)));
    w -=
        rate * m / (1 - std::pow(beta1, updates)) / (root + static_cast<double>(optimizer.epsilon));
  }
};

}  // namespace

Values ReferenceUpdate(const StepSignature& signature, const Values& given) {
  const Optimizer& optimizer = signature.optimizer;
  const double factor = ClipFactor(signature, given);
  const Vector& scalars = given.at(Iteration());
  const auto decay = static_cast<double>(optimizer.average_decay);
  Values result;
  for (int k = 0; signature.Has(Param(k)); ++k) {
    const bool has_master = signature.Has(Master(k));
    Vector w = given.at(has_master ? Master(k) : Param(k));
    const Vector none(w.size());
    Vector m = optimizer.keeps_moment() ? given.at(Moment(k)) : none;
    Vector v = optimizer.keeps_second_moment() ? given.at(SecondMoment(k)) : none;
    Vector average = optimizer.keeps_average() ? given.at(Average(k)) : none;
    for (size_t i = 0; i < w.size(); ++i) {
      Element element = {w[i], m[i], v[i], average[i]};
      const double gradient = factor * given.at(ParamGrad(k))[i];
      if (optimizer.rule == Optimizer::Rule::kAdamW) {
        element.AdamW(optimizer, scalars[0], scalars[1] + 1, gradient);
      } else {
        element.Sgd(optimizer, scalars[0], gradient);
      }
      average[i] = decay * average[i] + (1 - decay) * element.w;
      w[i] = element.w, m[i] = element.m, v[i] = element.v;
    }
    result[Param(k)] = w;
    if (has_master) result[Master(k)] = w;
    if (optimizer.keeps_moment()) result[Moment(k)] = m;
    if (optimizer.keeps_second_moment()) result[SecondMoment(k)] = v;
    if (optimizer.keeps_average()) result[Average(k)] = average;
  }
  return result;
}

}  // namespace neap::testing
