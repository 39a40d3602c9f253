#include "neap/nets/onnx/formula.h"

#include <cmath>
#include <cstddef>

namespace neap::nets {
namespace {

using Polynomial = Formula::Polynomial;

bool HasFunction(const Formula& formula) { return formula.function != Formula::Function::kNone; }

Polynomial Plus(const Polynomial& a, const Polynomial& b) {
  Polynomial sum = a;
  for (size_t i = 0; i < sum.size(); ++i) sum[i] += b[i];
  return sum;
}

// Absent if the degree is too large.
std::optional<Polynomial> Times(const Polynomial& a, const Polynomial& b) {
  Polynomial product = {};
  for (size_t i = 0; i < a.size(); ++i) {
    for (size_t k = 0; k < b.size(); ++k) {
      const double coefficient = a[i] * b[k];
      if (coefficient == 0) continue;
      if (i + k >= product.size()) return std::nullopt;
      product[i + k] += coefficient;
    }
  }
  return product;
}

// Whether the coefficients may be the wanted ones, products of up to two numbers, each of which is
// off by up to `rounding` of it.
bool AreNear(const Polynomial& values, const Polynomial& wanted, double rounding) {
  const double of_product = 2 * rounding + rounding * rounding;
  for (size_t i = 0; i < values.size(); ++i) {
    if (!(std::abs(values[i] - wanted[i]) <= of_product * std::abs(wanted[i]))) return false;
  }
  return true;
}

}  // namespace

std::optional<double> Formula::AsNumber() const {
  if (HasFunction(*this) || term != Polynomial{term[0]}) return std::nullopt;
  return term[0];
}

std::optional<Formula> Sum(const Formula& a, const Formula& b) {
  if (HasFunction(a) && HasFunction(b)) return std::nullopt;
  Formula sum = HasFunction(a) ? a : b;
  sum.term = Plus(a.term, b.term);
  return sum;
}

std::optional<Formula> Product(const Formula& a, const Formula& b) {
  if (HasFunction(a) && HasFunction(b)) return std::nullopt;
  Formula product = HasFunction(a) ? a : b;
  const Formula& other = HasFunction(a) ? b : a;
  const std::optional<Polynomial> term = Times(product.term, other.term);
  const std::optional<Polynomial> factor = Times(product.factor, other.term);
  if (!term.has_value() || !factor.has_value()) return std::nullopt;
  product.term = *term;
  product.factor = *factor;
  return product;
}

std::optional<Formula> Applied(Formula::Function function, const Formula& argument) {
  if (HasFunction(argument)) return std::nullopt;
  return Formula{.factor = {1}, .argument = argument.term, .function = function};
}

std::optional<Gelu> GeluOf(const Formula& formula, double rounding) {
  const Polynomial half_of_x = {0, 0.5};
  if (formula.term != half_of_x || formula.factor != half_of_x) return std::nullopt;
  const double tanh_scale = std::sqrt(2 / std::acos(-1.0));
  const Polynomial of_tanh = {0, tanh_scale, 0, 0.044715 * tanh_scale};
  const Polynomial of_erf = {0, std::sqrt(0.5)};
  if (formula.function == Formula::Function::kErf && AreNear(formula.argument, of_erf, rounding))
    return Gelu{};
  if (formula.function == Formula::Function::kTanh && AreNear(formula.argument, of_tanh, rounding))
    return Gelu{Gelu::Approximation::kTanh};
  return std::nullopt;
}

}  // namespace neap::nets
