// Arrays in device memory whose element type is known at run time. Launchers take them for
// activations and their gradients; what is always fp32 (biases, statistics, gradients of
// parameters) stays a float*.
//
// An array of fp32 is made from a float* without a cast.
#pragma once

#include <cstddef>
#include <cstdint>

namespace neap::kernels {

enum class Element : uint8_t { kFp32, kFp16, kBf16 };

constexpr int64_t SizeOf(Element type) { return type == Element::kFp32 ? 4 : 2; }

// Null if `data` is, whatever its type.
struct Array {
  Array() = default;
  Array(void* address, Element of) : data(address), type(of) {}
  Array(float* address) : data(address) {}
  void* data = nullptr;
  Element type = Element::kFp32;
};

struct ConstArray {
  ConstArray() = default;
  ConstArray(const void* address, Element of) : data(address), type(of) {}
  ConstArray(const float* address) : data(address) {}
  ConstArray(const Array& array) : data(array.data), type(array.type) {}
  const void* data = nullptr;
  Element type = Element::kFp32;
};

// The array that begins after the first `elements`.
inline Array After(const Array& array, int64_t elements) {
  return {static_cast<std::byte*>(array.data) + elements * SizeOf(array.type), array.type};
}

}  // namespace neap::kernels
