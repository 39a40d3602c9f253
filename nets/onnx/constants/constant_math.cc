#include "neap/nets/onnx/constants/constant_math.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "neap/core/base/float16.h"
#include "neap/core/base/status_macros.h"
#include "neap/nets/onnx/constants/constant_arrays.h"

namespace neap::nets {
namespace {

using onnx_schema::Tensor;

// Modulo 2^bits, as two's complement or without sign.
double Wrapped(double whole, int bits, bool is_signed) {
  const double modulus = std::ldexp(1.0, bits);
  const double low = is_signed ? -modulus / 2 : 0;
  if (whole >= low && whole < low + modulus) return whole;  // exactly
  double rest = std::fmod(whole, modulus);
  if (rest < 0) rest += modulus;
  return is_signed && rest >= modulus / 2 ? rest - modulus : rest;
}

// The bits of an integer type; 0 for another type.
int BitsOf(int64_t type) {
  switch (type) {
    case Tensor::INT8:
    case Tensor::UINT8:
      return 8;
    case Tensor::INT32:
      return 32;
    case Tensor::INT64:
      return 64;
    default:
      return 0;
  }
}

// A result of the type: rounded or wrapped.
absl::StatusOr<double> InType(double value, int64_t type) {
  switch (type) {
    case Tensor::DOUBLE:
      return value;
    case Tensor::FLOAT:
      return static_cast<float>(value);
    case Tensor::FLOAT16:
      return static_cast<float>(Fp16(static_cast<float>(value)));
    case Tensor::BFLOAT16:
      return static_cast<float>(Bf16(static_cast<float>(value)));
    case Tensor::BOOL:
      return value != 0 ? 1 : 0;
    default:
      break;
  }
  const int bits = BitsOf(type);
  if (bits == 0) {
    return NotComputed(
        absl::StrCat("of elements of type ", type, " of ONNX's TensorProto.DataType"));
  }
  return Wrapped(std::trunc(value), bits, type != Tensor::UINT8);
}

absl::StatusOr<double> CastOne(double value, bool from_float, int64_t type) {
  const int bits = BitsOf(type);
  if (bits == 0 || !from_float) return InType(value, type);
  const double low = type == Tensor::UINT8 ? 0 : -std::ldexp(1.0, bits - 1);
  const double high = low + std::ldexp(1.0, bits);
  const double whole = std::trunc(value);
  if (!(whole >= low && whole < high))
    return NotComputed(absl::StrCat("by a cast of ", value, " to integers of ", bits, " bits"));
  return whole;
}

double RoundedToEven(double x) { return x - std::remainder(x, 1.0); }

struct Unary {
  std::string_view op;
  double (*compute)(double);
};
constexpr Unary kUnary[] = {
    {"Abs", [](double x) { return std::abs(x); }},
    {"Ceil", [](double x) { return std::ceil(x); }},
    {"Cos", [](double x) { return std::cos(x); }},
    {"Erf", [](double x) { return std::erf(x); }},
    {"Exp", [](double x) { return std::exp(x); }},
    {"Floor", [](double x) { return std::floor(x); }},
    {"Log", [](double x) { return std::log(x); }},
    {"Neg", [](double x) { return -x; }},
    {"Not", [](double x) { return x == 0 ? 1.0 : 0.0; }},
    {"Reciprocal", [](double x) { return 1 / x; }},
    {"Relu", [](double x) { return x < 0 ? 0.0 : x; }},
    {"Round", RoundedToEven},
    {"Sigmoid", [](double x) { return 1 / (1 + std::exp(-x)); }},
    {"Sign", [](double x) { return x > 0   ? 1.0
                                   : x < 0 ? -1.0
                                           : x; }},
    {"Sin", [](double x) { return std::sin(x); }},
    {"Sqrt", [](double x) { return std::sqrt(x); }},
    {"Tanh", [](double x) { return std::tanh(x); }},
};

double Least(double a, double b) { return std::isnan(a) || a < b ? a : b; }
double Greatest(double a, double b) { return std::isnan(a) || a > b ? a : b; }

// With the sign of b.
double Remainder(double a, double b) {
  const double rest = std::fmod(a, b);
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

struct Binary {
  std::string_view op;
  double (*compute)(double, double);
  bool is_comparison = false;
  bool takes_any_number = false;
};
constexpr Binary kBinary[] = {
    {"Add", [](double a, double b) { return a + b; }},
    {"And", [](double a, double b) { return a != 0 && b != 0 ? 1.0 : 0.0; }, true},
    {"Div", [](double a, double b) { return a / b; }},
    {"Equal", [](double a, double b) { return a == b ? 1.0 : 0.0; }, true},
    {"Greater", [](double a, double b) { return a > b ? 1.0 : 0.0; }, true},
    {"GreaterOrEqual", [](double a, double b) { return a >= b ? 1.0 : 0.0; }, true},
    {"Less", [](double a, double b) { return a < b ? 1.0 : 0.0; }, true},
    {"LessOrEqual", [](double a, double b) { return a <= b ? 1.0 : 0.0; }, true},
    {"Max", Greatest, false, true},
    {"Min", Least, false, true},
    {"Mod", Remainder},
    {"Mul", [](double a, double b) { return a * b; }},
    {"Or", [](double a, double b) { return a != 0 || b != 0 ? 1.0 : 0.0; }, true},
    {"Pow", [](double a, double b) { return std::pow(a, b); }},
    {"Sub", [](double a, double b) { return a - b; }},
    {"Sum", [](double a, double b) { return a + b; }, false, true},
};

template <typename Table>
const auto* Found(const Table& table, std::string_view op) {
  const auto* const found = std::find_if(std::begin(table), std::end(table),
                                         [&](const auto& entry) { return entry.op == op; });
  return found == std::end(table) ? nullptr : found;
}

absl::StatusOr<Constant> ComputeUnary(const Unary& unary, Constant values) {
  for (double& value : values.values) {
    ASSIGN_OR_RETURN(value, InType(unary.compute(value), values.type));
  }
  return values;
}

absl::StatusOr<Dims> CommonDims(const Dims& a, const Dims& b) {
  std::optional<Dims> dims = BroadcastDims(a, b);
  if (dims.has_value()) return *std::move(dims);
  return absl::InvalidArgumentError("it computes a constant of extents that do not fit");
}

// The extents of the result. Those of each step to it are added to the budget.
absl::StatusOr<Dims> CountedDims(ConstantBudget& budget, const std::vector<Constant>& arguments) {
  Dims dims = arguments[0].dims;
  for (size_t i = 1; i < arguments.size(); ++i) {
    ASSIGN_OR_RETURN(dims, CommonDims(dims, arguments[i].dims));
    RETURN_IF_ERROR(budget.Add(dims));
  }
  return dims;
}

absl::StatusOr<Constant> ComputeBinary(const Binary& binary, const Constant& a, const Constant& b) {
  ASSIGN_OR_RETURN(const Dims dims, CommonDims(a.dims, b.dims));
  Constant result = BroadcastTo(a, dims);
  const Constant other = BroadcastTo(b, dims);
  const bool divides = (binary.op == "Div" || binary.op == "Mod") && IsInteger(a.type);
  if (binary.is_comparison) result.type = Tensor::BOOL;
  for (size_t i = 0; i < result.values.size(); ++i) {
    if (divides && other.values[i] == 0) return absl::InvalidArgumentError("it divides by 0");
    ASSIGN_OR_RETURN(result.values[i],
                     InType(binary.compute(result.values[i], other.values[i]), result.type));
  }
  return result;
}

absl::StatusOr<Constant> Where(ConstantBudget& budget, const std::vector<Constant>& arguments) {
  ASSIGN_OR_RETURN(const Dims dims, CountedDims(budget, arguments));
  const Constant condition = BroadcastTo(arguments[0], dims);
  Constant result = BroadcastTo(arguments[1], dims);
  const Constant other = BroadcastTo(arguments[2], dims);
  for (size_t i = 0; i < result.values.size(); ++i) {
    if (condition.values[i] == 0) result.values[i] = other.values[i];
  }
  return result;
}

}  // namespace

absl::Status NotComputed(const std::string& what) {
  return absl::UnimplementedError(absl::StrCat("a constant is computed ", what));
}

absl::StatusOr<Constant> Cast(const Constant& values, int64_t type) {
  Constant cast = values;
  const bool from_float = !IsInteger(values.type);
  for (double& value : cast.values) {
    ASSIGN_OR_RETURN(value, CastOne(value, from_float, type));
  }
  RETURN_IF_ERROR(InType(0, type).status());  // also without elements
  cast.type = static_cast<int32_t>(type);
  return cast;
}

bool IsElementwise(std::string_view op) {
  return op == "Where" || Found(kUnary, op) != nullptr || Found(kBinary, op) != nullptr;
}

absl::StatusOr<Constant> Elementwise(ConstantBudget& budget, std::string_view op,
                                     const std::vector<Constant>& arguments) {
  const auto wrong_count = absl::InvalidArgumentError("it has a wrong number of inputs");
  if (op == "Where") return arguments.size() == 3 ? Where(budget, arguments) : wrong_count;
  if (const Unary* const unary = Found(kUnary, op)) {
    if (arguments.size() != 1) return wrong_count;
    RETURN_IF_ERROR(budget.Add(arguments[0].dims));
    return ComputeUnary(*unary, arguments[0]);
  }
  const Binary* const binary = Found(kBinary, op);
  if (binary == nullptr) return NotComputed("by this operator");
  const bool any = binary->takes_any_number && !arguments.empty();
  if (!any && arguments.size() != 2) return wrong_count;
  RETURN_IF_ERROR(CountedDims(budget, arguments).status());
  Constant result = arguments[0];
  for (size_t i = 1; i < arguments.size(); ++i) {
    ASSIGN_OR_RETURN(result, ComputeBinary(*binary, result, arguments[i]));
  }
  return result;
}

}  // namespace neap::nets
