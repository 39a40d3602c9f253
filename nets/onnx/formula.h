// Formulas of one variable of which only the whole is a layer.
//
// In opsets without an operator for GELU, exporters write it step by step: powers of x, products
// and sums with numbers, erf or tanh, in many orders. neap has no layer for most of the steps. A
// value that is one of them is kept as a formula of a layer's output x, until nodes have made of it
// what a layer computes. Every step is of the form
//
//   f(x) = term(x) + factor(x) * function(argument(x))
//
// with polynomials of degree 3: for example 1 + erf(x / sqrt(2)), or x + 0.044715 * x^3.
//
//   const Formula x = Formula::Linear(1, 0);
//   const std::optional<Formula> inner = Product(x, Formula::Linear(0, std::sqrt(0.5)));
//   const std::optional<Formula> erf = Applied(Formula::Function::kErf, *inner);
//   const std::optional<Formula> twice = Product(x, *Sum(*erf, Formula::Linear(0, 1)));
//   GeluOf(*Product(*twice, Formula::Linear(0, 0.5)), /*rounding=*/0x1p-18);  // Gelu{}
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "neap/layers/activation.h"

namespace neap::nets {

struct Formula {
  enum class Function : uint8_t { kNone, kErf, kTanh };
  using Polynomial = std::array<double, 4>;  // the coefficients of 1, x, x^2 and x^3

  static Formula Linear(double scale, double shift) { return {.term = {shift, scale}}; }
  // Absent if x is in it.
  std::optional<double> AsNumber() const;

  Polynomial term = {};
  Polynomial factor = {};
  Polynomial argument = {};
  Function function = Function::kNone;
};

// Absent if the result is not of the form.
std::optional<Formula> Sum(const Formula& a, const Formula& b);
std::optional<Formula> Product(const Formula& a, const Formula& b);
std::optional<Formula> Applied(Formula::Function function, const Formula& argument);

// The layer that computes the formula. Its numbers may be off by `rounding`, a part of each, as the
// type of the file's constants rounds them.
std::optional<Gelu> GeluOf(const Formula& formula, double rounding);

}  // namespace neap::nets
