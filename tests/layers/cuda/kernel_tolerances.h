// How far results of the CUDA kernels may be from those they are compared with.
#pragma once

namespace neap::testing {

// |got - want| <= tolerance * max(1, largest |want|). tf32 keeps 10 bits of a factor, so the error
// of each product is at most 2^-11.
inline constexpr double kFp32Tolerance = 2e-5;
inline constexpr double kTf32Tolerance = 2e-3;

}  // namespace neap::testing
