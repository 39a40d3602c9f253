// NumPy's .npy files of numbers: numpy.save() (numpy/lib/format.py, versions 1.0, 2.0 and 3.0).
//
//   bytes 0 to 5    "\x93NUMPY"
//   6, 7            version: 1, 2 or 3, and 0
//   8 ...           length of the header: 2 bytes in version 1, 4 in 2 and 3, little-endian
//   ...             a dictionary of Python: {'descr': '<f4', 'fortran_order': False,
//                   'shape': (3, 4), }, then spaces and a newline
//   ...             the elements, in C or Fortran order
//
// Read are booleans, integers of 1, 2, 4 and 8 bytes, and floating-point numbers of 2, 4 and 8, in
// both byte orders; records, strings, complex numbers and objects (which are pickled, and would run
// code) are not. Values come in C order, whatever that of the file.
//
//   ASSIGN_OR_RETURN(const NpyFile file, NpyFile::Open("ct.npy"));
//   file.extents();  // {64, 128, 128}
//   ASSIGN_OR_RETURN(const std::vector<float> values, file.ReadFloats());
//
// *Errors*: those of ReadableFile; DATA_LOSS naming file and byte for a header that is not as
// above, and for a file that is shorter or longer than its header says; INVALID_ARGUMENT for types
// that are not read, and for more than kMaxNpyElements elements.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "neap/core/base/file.h"

namespace neap {

inline constexpr int64_t kMaxNpyElements = int64_t{1} << 31;
inline constexpr int64_t kMaxNpyAxes = 32;  // NumPy's limit, until version 2

struct NpyHeader {
  char kind = 'f';  // 'b' boolean, 'i' signed, 'u' unsigned, 'f' floating point
  int64_t element_bytes = 4;
  bool big_endian = false;
  bool fortran_order = false;
  std::vector<int64_t> extents = {};  // none: one element
  int64_t elements = 1;
  int64_t data_begin = 0;  // byte of the first element
};

// *Threads*: safe from several at once.
class NpyFile {
 public:
  static absl::StatusOr<NpyFile> Open(const std::string& path);
  const std::string& path() const { return file_.path(); }
  const NpyHeader& header() const { return header_; }
  const std::vector<int64_t>& extents() const { return header_.extents; }

  // All elements in C order, rounded to the nearest float. Errors: also RESOURCE_EXHAUSTED.
  absl::StatusOr<std::vector<float>> ReadFloats() const;
  // The same as integers. Errors: also INVALID_ARGUMENT for floating-point numbers, and DATA_LOSS
  // for an integer that an int32 does not hold.
  absl::StatusOr<std::vector<int32_t>> ReadIntegers() const;

 private:
  NpyFile(ReadableFile file, NpyHeader header)
      : file_(std::move(file)), header_(std::move(header)) {}
  template <typename Value>
  absl::StatusOr<std::vector<Value>> ReadAs() const;
  template <typename Stored, typename Value>
  absl::Status ReadStored(std::vector<Value>& values) const;

  ReadableFile file_;
  NpyHeader header_;
};

}  // namespace neap
