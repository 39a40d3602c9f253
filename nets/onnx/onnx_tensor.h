// Tensors that an ONNX file contains or refers to, and constants, which are computed from them.
//
// A file's tensor has one of many element types, and its values lie in one of several fields, or in
// another file. Here they become floats, or doubles, which represent every shape exactly.
//
//   const TensorReader reader("models");
//   ASSIGN_OR_RETURN(const std::vector<float> weight, reader.Floats(tensor));
//   ASSIGN_OR_RETURN(const Constant shape, reader.ReadConstant(tensor));
//
// *Errors*: INVALID_ARGUMENT naming the tensor, for one with fewer or more values than its extents
// say, and for a file outside the folder; UNIMPLEMENTED for a type of elements that is not read;
// those of core/base/file.h.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "onnx_schema.pb.h"

namespace neap::nets {

// The values of a computation on constants. Integers are exact up to 2^53.
struct Constant {
  std::vector<int64_t> dims;  // {} is a scalar
  std::vector<double> values;
  int32_t type = onnx_schema::Tensor::INT64;  // the Tensor::DataType of its elements
};

// Whether a tensor's elements of this type (Tensor::DataType) are integers.
bool IsInteger(int64_t data_type);

// The product of the extents. Errors: INVALID_ARGUMENT for a negative extent.
absl::StatusOr<int64_t> ElementsOf(const onnx_schema::Tensor& tensor);

class TensorReader {
 public:
  // Files that tensors refer to are in `folder`.
  explicit TensorReader(std::string folder) : folder_(std::move(folder)) {}

  absl::StatusOr<std::vector<float>> Floats(const onnx_schema::Tensor& tensor) const;
  absl::StatusOr<Constant> ReadConstant(const onnx_schema::Tensor& tensor) const;

 private:
  template <typename Value>
  absl::StatusOr<std::vector<Value>> Values(const onnx_schema::Tensor& tensor) const;
  // The tensor's bytes in another file.
  absl::StatusOr<std::string> External(const onnx_schema::Tensor& tensor) const;

  std::string folder_;
};

}  // namespace neap::nets
