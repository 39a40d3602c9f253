// The two 16-bit floating-point types, as stored in memory. Arithmetic is done on floats.
//
//   type  sign, exponent, mantissa bits  largest   smallest normal, subnormal
//   Fp16  1, 5, 10 (IEEE 754 binary16)   65504     6.1e-5, 6.0e-8
//   Bf16  1, 8, 7 (a float's upper half) 3.39e38   1.2e-38, 9.2e-41
//
// Converting a float rounds to nearest, ties to even; NaN stays NaN, and what is too large becomes
// infinite. Converting to float is exact.
//
//   const Bf16 stored(0.1F);
//   const float value(stored);  // 0.100097656
#pragma once

#include <bit>
#include <cstdint>

namespace neap {

class Fp16 {
 public:
  Fp16() = default;
  constexpr explicit Fp16(float value) : bits_(BitsOf(value)) {}
  constexpr explicit operator float() const {
    const uint32_t magnitude = bits_ & 0x7FFFU;
    const uint32_t sign = (bits_ & 0x8000U) << 16;
    if (magnitude >= kInfinity)  // infinity or NaN
      return std::bit_cast<float>(sign | 0x7F800000U | (magnitude & 0x3FFU) << 13);
    if (magnitude < kMinNormal) {
      const float value = static_cast<float>(magnitude) * 0x1p-24F;
      return sign != 0 ? -value : value;
    }
    return std::bit_cast<float>(sign | ((magnitude << 13) + kExponentOffset));
  }

 private:
  static constexpr uint32_t kInfinity = 0x7C00, kMinNormal = 0x0400;
  static constexpr uint32_t kExponentOffset = (127U - 15U) << 23;  // of the exponents' biases

  static constexpr uint16_t BitsOf(float value) {
    const uint32_t bits = std::bit_cast<uint32_t>(value);
    const uint32_t sign = bits >> 16 & 0x8000U;
    const uint32_t magnitude = bits & 0x7FFFFFFFU;
    uint32_t result = 0;
    if (magnitude > 0x7F800000U) {
      result = kInfinity | 0x200U | (magnitude >> 13 & 0x3FFU);  // a quiet NaN
    } else if (magnitude >= std::bit_cast<uint32_t>(65520.0F)) {
      result = kInfinity;
    } else if (magnitude < std::bit_cast<uint32_t>(0x1p-14F)) {
      // The sum with 0.5 rounds to a multiple of 2^-24, the spacing of subnormal numbers.
      const float rounded = std::bit_cast<float>(magnitude) + 0.5F;
      result = std::bit_cast<uint32_t>(rounded) - std::bit_cast<uint32_t>(0.5F);
    } else {
      const uint32_t half_unit = 0xFFFU + (magnitude >> 13 & 1U);
      result = (magnitude + half_unit - kExponentOffset) >> 13;
    }
    return static_cast<uint16_t>(sign | result);
  }

  uint16_t bits_ = 0;
};

class Bf16 {
 public:
  Bf16() = default;
  constexpr explicit Bf16(float value) : bits_(BitsOf(value)) {}
  constexpr explicit operator float() const {
    return std::bit_cast<float>(static_cast<uint32_t>(bits_) << 16);
  }

 private:
  static constexpr uint16_t BitsOf(float value) {
    const uint32_t bits = std::bit_cast<uint32_t>(value);
    const bool is_nan = (bits & 0x7FFFFFFFU) > 0x7F800000U;
    if (is_nan) return static_cast<uint16_t>(bits >> 16 | 0x40U);  // a quiet NaN
    return static_cast<uint16_t>((bits + 0x7FFFU + (bits >> 16 & 1U)) >> 16);
  }

  uint16_t bits_ = 0;
};

static_assert(sizeof(Fp16) == 2 && sizeof(Bf16) == 2);

}  // namespace neap
