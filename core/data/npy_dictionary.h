// The header of a .npy file, read from its text: the part of Python's syntax that numpy.save()
// writes. Of any other text, NpyFault says what is wrong, and at which byte. Private to npy.h.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "neap/core/data/npy.h"

namespace neap {

struct NpyFault {
  size_t at = 0;
  std::string what;
  absl::StatusCode code = absl::StatusCode::kDataLoss;
};

// Sets all of the header but `data_begin`. Returns whether that succeeded; `fault` is only set if
// it did not.
bool ParseNpyDictionary(std::string_view text, NpyHeader& header, NpyFault& fault);

}  // namespace neap
