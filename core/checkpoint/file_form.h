// How a tensor lies in a file of weights: its type, its shape, the order of its values and its
// name, some of which are those of another program's files (Graph::StoreAs(),
// GraphOptions::other_files).
//
//   file   {in, out}      0 1 2     network  {out, in}     0 3
//                         3 4 5                            1 4
//                                                          2 5
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "neap/core/checkpoint/safetensors.h"
#include "neap/core/program/program.h"

namespace neap {

// The tensor's shape in a file, which is that in PyTorch.
const Shape& ShapeInFile(const Tensor& tensor);
std::vector<int64_t> ExtentsInFile(const Tensor& tensor);

// "F32", "F16" or "BF16"; nullopt for other types.
std::optional<std::string_view> NameInFile(DType dtype);
std::optional<DType> TypeInFile(std::string_view text);
// The type in which the tensor is written if that of weights is `weights`, one of these.
DType FileType(const Tensor& tensor, DType weights);

// Values in the order of a parameter of shape `own`, N, C, H, W, from those of its transpose in
// files (FileForm::transposed), and the other way round.
std::vector<float> FromTransposed(const std::vector<float>& in_file, const Shape& own);
std::vector<float> ToTransposed(const std::vector<float>& values, const Shape& own);
// The same for a tensor, transposed or not.
std::vector<float> FromFileOrder(std::vector<float> in_file, const Tensor& tensor);
std::vector<float> ToFileOrder(std::vector<float> values, const Tensor& tensor);

// The tensor's bytes in a file from its values in N, C, H, W order, and the values from the bytes.
// Errors: INVALID_ARGUMENT for a value that would become infinite.
absl::StatusOr<std::vector<std::byte>> BytesInFile(const Tensor& tensor, std::vector<float> values,
                                                   DType dtype);
absl::StatusOr<std::vector<float>> ReadValues(const Tensor& tensor, const SafetensorsReader& reader,
                                              const SafetensorsEntry& entry);

// The network's name for an entry of a file: without the prefix of other programs.
std::string_view OwnName(const Program& program, std::string_view in_file);
// Whether the entry is not a weight: files of other programs also have constants.
bool IsIgnored(const Program& program, std::string_view in_file);
// The entry of the tensor of this name, with or without the prefix. Errors: NOT_FOUND.
absl::StatusOr<SafetensorsEntry> FindEntry(const Program& program, const SafetensorsReader& reader,
                                           const std::string& name);

}  // namespace neap
