#include "neap/core/checkpoint/file_form.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "neap/core/base/layout.h"
#include "neap/core/base/status_macros.h"

namespace neap {
namespace {

constexpr std::array<std::pair<std::string_view, DType>, 3> kFileTypes = {
    {{"F32", DType::kFp32}, {"F16", DType::kFp16}, {"BF16", DType::kBf16}}};

// The values of the tensor as they lie in a file: in order, of the given type.
TensorSpec InFile(const Tensor& tensor, DType dtype) {
  return {.shape = {tensor.spec.elements()}, .dtype = dtype};
}

// The first extent of the matrix that the extents other than 1 make.
int64_t RowsOf(const Shape& shape) {
  const auto rows = std::find_if(shape.dims().begin(), shape.dims().end(),
                                 [](int64_t extent) { return extent != 1; });
  return rows == shape.dims().end() ? 1 : *rows;
}

std::vector<float> Transposed(const std::vector<float>& values, int64_t rows) {
  const size_t count = static_cast<size_t>(rows), columns = values.size() / count;
  std::vector<float> transposed(values.size());
  for (size_t column = 0; column < columns; ++column) {
    for (size_t row = 0; row < count; ++row)
      transposed[column * count + row] = values[row * columns + column];
  }
  return transposed;
}

}  // namespace

const Shape& ShapeInFile(const Tensor& tensor) {
  return tensor.saved_shape.rank() > 0 ? tensor.saved_shape : tensor.spec.shape;
}

std::vector<int64_t> ExtentsInFile(const Tensor& tensor) {
  const Shape& shape = ShapeInFile(tensor);
  return {shape.dims().begin(), shape.dims().end()};
}

std::optional<std::string_view> NameInFile(DType dtype) {
  for (const auto& [name, type] : kFileTypes) {
    if (type == dtype) return name;
  }
  return std::nullopt;
}

std::optional<DType> TypeInFile(std::string_view text) {
  for (const auto& [name, type] : kFileTypes) {
    if (name == text) return type;
  }
  return std::nullopt;
}

DType FileType(const Tensor& tensor, DType weights) {
  const bool is_weight = tensor.role == Role::kParam || tensor.role == Role::kMaster;
  return is_weight ? weights : DType::kFp32;
}

std::vector<float> FromTransposed(const std::vector<float>& in_file, const Shape& own) {
  return Transposed(in_file, own.elements() / RowsOf(own));
}

std::vector<float> ToTransposed(const std::vector<float>& values, const Shape& own) {
  return Transposed(values, RowsOf(own));
}

std::vector<float> FromFileOrder(std::vector<float> in_file, const Tensor& tensor) {
  return tensor.is_transposed ? FromTransposed(in_file, tensor.spec.shape) : std::move(in_file);
}

std::vector<float> ToFileOrder(std::vector<float> values, const Tensor& tensor) {
  return tensor.is_transposed ? ToTransposed(values, tensor.spec.shape) : std::move(values);
}

absl::StatusOr<std::vector<std::byte>> BytesInFile(const Tensor& tensor, std::vector<float> values,
                                                   DType dtype) {
  values = ToFileOrder(std::move(values), tensor);
  const TensorSpec stored = InFile(tensor, dtype);
  std::vector<std::byte> bytes(static_cast<size_t>(stored.size_bytes()));
  FromNchw(values, stored, bytes.data());
  if (!Is16Bit(dtype)) return bytes;
  std::vector<float> rounded(values.size());
  ToNchw(bytes.data(), stored, absl::MakeSpan(rounded));
  for (size_t i = 0; i < values.size(); ++i) {
    if (!std::isinf(rounded[i]) || std::isinf(values[i])) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "tensor '", tensor.name, "' has the value ", values[i], ", which is too large for ",
        std::string(Name(dtype)), "; write ", dtype == DType::kFp16 ? "bf16" : "fp32"));
  }
  return bytes;
}

absl::StatusOr<std::vector<float>> ReadValues(const Tensor& tensor, const SafetensorsReader& reader,
                                              const SafetensorsEntry& entry) {
  const TensorSpec stored = InFile(tensor, *TypeInFile(entry.dtype));
  std::vector<std::byte> bytes(static_cast<size_t>(stored.size_bytes()));
  RETURN_IF_ERROR(reader.Read(entry, absl::MakeSpan(bytes)));
  std::vector<float> values(static_cast<size_t>(tensor.spec.elements()));
  ToNchw(bytes.data(), stored, absl::MakeSpan(values));
  return FromFileOrder(std::move(values), tensor);
}

std::string_view OwnName(const Program& program, std::string_view in_file) {
  const std::string& prefix = program.net.other_files.prefix;
  if (prefix.empty() || in_file.substr(0, prefix.size()) != prefix) return in_file;
  return in_file.substr(prefix.size());
}

bool IsIgnored(const Program& program, std::string_view in_file) {
  const std::vector<std::string>& ends = program.net.other_files.ignored;
  return std::any_of(ends.begin(), ends.end(), [&](const std::string& end) {
    return in_file.size() >= end.size() && in_file.substr(in_file.size() - end.size()) == end;
  });
}

absl::StatusOr<SafetensorsEntry> FindEntry(const Program& program, const SafetensorsReader& reader,
                                           const std::string& name) {
  absl::StatusOr<SafetensorsEntry> entry = reader.Find(name);
  const std::string& prefix = program.net.other_files.prefix;
  if (entry.ok() || prefix.empty()) return entry;
  return reader.Find(absl::StrCat(prefix, name));
}

}  // namespace neap
