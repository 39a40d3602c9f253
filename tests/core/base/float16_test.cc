#include "neap/core/base/float16.h"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace neap {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

template <typename T>
T FromBits(uint16_t bits) {
  return std::bit_cast<T>(bits);
}
template <typename T>
uint16_t BitsOf(T value) {
  return std::bit_cast<uint16_t>(value);
}

// The value of a number with the given widths, computed from its definition.
double Defined(uint16_t bits, int exponent_bits, int mantissa_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = bits >> mantissa_bits & ((1 << exponent_bits) - 1);
  const int mantissa = bits & ((1 << mantissa_bits) - 1);
  const double fraction = std::ldexp(mantissa, -mantissa_bits);
  const double magnitude =
      exponent == 0 ? std::ldexp(fraction, 1 - bias) : std::ldexp(1 + fraction, exponent - bias);
  return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

// Every finite number has its defined value and survives a round trip; halfway between two
// neighbours the even one is taken, and right beside that the nearer one.
template <typename T>
void CheckEveryNumber(int exponent_bits, int mantissa_bits) {
  const uint16_t infinity = static_cast<uint16_t>(((1 << exponent_bits) - 1) << mantissa_bits);
  int64_t wrong = 0;
  for (uint16_t bits = 0; bits < infinity; ++bits) {
    const T value = FromBits<T>(bits);
    const double defined = Defined(bits, exponent_bits, mantissa_bits);
    wrong += static_cast<double>(static_cast<float>(value)) == defined ? 0 : 1;
    wrong += BitsOf(T(static_cast<float>(defined))) == bits ? 0 : 1;
    wrong += BitsOf(T(static_cast<float>(-defined))) == (bits | 0x8000) ? 0 : 1;
    if (bits + 1 == infinity) break;
    const double next = Defined(static_cast<uint16_t>(bits + 1), exponent_bits, mantissa_bits);
    const auto half = static_cast<float>((defined + next) / 2);
    const uint16_t even = static_cast<uint16_t>(bits % 2 == 0 ? bits : bits + 1);
    wrong += BitsOf(T(half)) == even ? 0 : 1;
    wrong += BitsOf(T(std::nextafter(half, 0.0F))) == bits ? 0 : 1;
    wrong += BitsOf(T(std::nextafter(half, kInfinity))) == bits + 1 ? 0 : 1;
  }
  CHECK(wrong == 0);
  CHECK(static_cast<float>(FromBits<T>(infinity)) == kInfinity);
  CHECK(BitsOf(T(kInfinity)) == infinity);
  CHECK(BitsOf(T(-kInfinity)) == (infinity | 0x8000));
  CHECK(std::isnan(static_cast<float>(T(std::numeric_limits<float>::quiet_NaN()))));
  CHECK(std::isnan(static_cast<float>(T(std::numeric_limits<float>::signaling_NaN()))));
}

TEST_CASE("every fp16 number is converted exactly, and others are rounded to nearest even") {
  CheckEveryNumber<Fp16>(5, 10);
}

TEST_CASE("every bf16 number is converted exactly, and others are rounded to nearest even") {
  CheckEveryNumber<Bf16>(8, 7);
}

TEST_CASE("numbers beyond the largest become infinite from half a unit on") {
  CHECK(static_cast<float>(Fp16(65519.9F)) == 65504.0F);
  CHECK(static_cast<float>(Fp16(65520.0F)) == kInfinity);
  CHECK(static_cast<float>(Fp16(-1e30F)) == -kInfinity);
  CHECK(static_cast<float>(Bf16(std::numeric_limits<float>::max())) == kInfinity);
}

}  // namespace
}  // namespace neap
