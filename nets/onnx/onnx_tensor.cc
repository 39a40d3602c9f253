#include "neap/nets/onnx/onnx_tensor.h"

#include <bit>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "neap/core/base/file.h"
#include "neap/core/base/float16.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/base/tensor.h"

namespace neap::nets {
namespace {

using onnx_schema::Tensor;

static_assert(std::endian::native == std::endian::little);  // as the bytes of a file

absl::Status Faulty(const Tensor& tensor, const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat("tensor '", tensor.name(), "' ", what));
}

absl::Status WrongCount(const Tensor& tensor, int64_t has, int64_t needs) {
  return Faulty(tensor, absl::StrCat("has ", has, " values, but its extents need ", needs));
}

// The elements of a field that has one entry for each.
template <typename Value, typename Field, typename Convert>
absl::StatusOr<std::vector<Value>> FromField(const Tensor& tensor, const Field& field,
                                             int64_t count, const Convert& convert) {
  if (field.size() != count) return WrongCount(tensor, field.size(), count);
  std::vector<Value> values;
  values.reserve(static_cast<size_t>(count));
  for (const auto element : field) values.push_back(static_cast<Value>(convert(element)));
  return values;
}

template <typename Value, typename Element>
absl::StatusOr<std::vector<Value>> FromBytes(const Tensor& tensor, std::string_view bytes,
                                             int64_t count) {
  const auto has = static_cast<int64_t>(bytes.size() / sizeof(Element));
  if (has != count || bytes.size() % sizeof(Element) != 0) return WrongCount(tensor, has, count);
  std::vector<Value> values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i) {
    Element element;
    std::memcpy(&element, bytes.data() + i * sizeof(Element), sizeof(Element));
    if constexpr (std::is_same_v<Element, Fp16> || std::is_same_v<Element, Bf16>) {
      values[i] = static_cast<Value>(static_cast<float>(element));
    } else {
      values[i] = static_cast<Value>(element);
    }
  }
  return values;
}

// Bits of a 16-bit number in the low half of an int32.
template <typename Half>
float HalfFromInt(int32_t bits) {
  return static_cast<float>(std::bit_cast<Half>(static_cast<uint16_t>(bits)));
}

// The elements of a tensor without raw bytes.
template <typename Value>
absl::StatusOr<std::vector<Value>> FromFields(const Tensor& tensor, int64_t count) {
  const auto same = [](auto element) { return element; };
  switch (tensor.data_type()) {
    case Tensor::FLOAT:
      return FromField<Value>(tensor, tensor.float_data(), count, same);
    case Tensor::DOUBLE:
      return FromField<Value>(tensor, tensor.double_data(), count, same);
    case Tensor::INT64:
      return FromField<Value>(tensor, tensor.int64_data(), count, same);
    case Tensor::FLOAT16:
      return FromField<Value>(tensor, tensor.int32_data(), count, HalfFromInt<Fp16>);
    case Tensor::BFLOAT16:
      return FromField<Value>(tensor, tensor.int32_data(), count, HalfFromInt<Bf16>);
    default:
      return FromField<Value>(tensor, tensor.int32_data(), count, same);
  }
}

template <typename Value>
absl::StatusOr<std::vector<Value>> FromRaw(const Tensor& tensor, std::string_view bytes,
                                           int64_t count) {
  switch (tensor.data_type()) {
    case Tensor::FLOAT:
      return FromBytes<Value, float>(tensor, bytes, count);
    case Tensor::DOUBLE:
      return FromBytes<Value, double>(tensor, bytes, count);
    case Tensor::INT64:
      return FromBytes<Value, int64_t>(tensor, bytes, count);
    case Tensor::INT32:
      return FromBytes<Value, int32_t>(tensor, bytes, count);
    case Tensor::FLOAT16:
      return FromBytes<Value, Fp16>(tensor, bytes, count);
    case Tensor::BFLOAT16:
      return FromBytes<Value, Bf16>(tensor, bytes, count);
    case Tensor::INT8:
      return FromBytes<Value, int8_t>(tensor, bytes, count);
    default:
      return FromBytes<Value, uint8_t>(tensor, bytes, count);  // also BOOL
  }
}

bool IsRead(int32_t type) {
  switch (type) {
    case Tensor::FLOAT:
    case Tensor::DOUBLE:
    case Tensor::INT64:
    case Tensor::INT32:
    case Tensor::FLOAT16:
    case Tensor::BFLOAT16:
    case Tensor::INT8:
    case Tensor::UINT8:
    case Tensor::BOOL:
      return true;
    default:
      return false;
  }
}

// The place of a tensor's bytes in another file.
struct ExternalPlace {
  std::string location;
  int64_t offset = 0;
  std::optional<int64_t> length = {};
};

absl::StatusOr<ExternalPlace> PlaceOf(const Tensor& tensor) {
  ExternalPlace place;
  for (const onnx_schema::StringEntry& entry : tensor.external_data()) {
    int64_t number = 0;
    const bool is_number = absl::SimpleAtoi(entry.value(), &number) && number >= 0;
    if (entry.key() == "location") place.location = entry.value();
    if (entry.key() != "offset" && entry.key() != "length") continue;
    if (!is_number) return Faulty(tensor, absl::StrCat("has no number as its ", entry.key()));
    if (entry.key() == "offset") place.offset = number;
    if (entry.key() == "length") place.length = number;
  }
  const std::filesystem::path path(place.location);
  if (path.empty() || path.has_parent_path() || path == ".." || path == ".") {
    return Faulty(tensor, absl::StrCat("is in the file '", place.location,
                                       "', which is not in the folder of the network's file"));
  }
  return place;
}

}  // namespace

bool IsInteger(int64_t data_type) {
  return data_type != Tensor::FLOAT && data_type != Tensor::DOUBLE &&
         data_type != Tensor::FLOAT16 && data_type != Tensor::BFLOAT16;
}

absl::StatusOr<int64_t> ElementsOf(const Tensor& tensor) {
  int64_t count = 1;
  for (const int64_t extent : tensor.dims()) {
    if (extent < 0) return Faulty(tensor, absl::StrCat("has the extent ", extent));
    count = SaturatingProduct(count, extent);
  }
  return count;
}

absl::StatusOr<std::string> TensorReader::External(const Tensor& tensor) const {
  ASSIGN_OR_RETURN(const ExternalPlace place, PlaceOf(tensor));
  ASSIGN_OR_RETURN(const ReadableFile file,
                   ReadableFile::Open((std::filesystem::path(folder_) / place.location).string()));
  const int64_t rest = file.size_bytes() - place.offset;
  const int64_t length = place.length.value_or(rest);
  if (rest < 0 || length > rest) {
    return Faulty(tensor, absl::StrCat("ends beyond the end of ", file.path(), ", which has ",
                                       file.size_bytes(), " bytes"));
  }
  constexpr int64_t kMaxElement = 8;
  ASSIGN_OR_RETURN(const int64_t count, ElementsOf(tensor));
  if (length > SaturatingProduct(count, kMaxElement)) return WrongCount(tensor, length, count);
  std::string bytes(static_cast<size_t>(length), '\0');
  RETURN_IF_ERROR(file.ReadAt(
      place.offset, absl::MakeSpan(reinterpret_cast<std::byte*>(bytes.data()), bytes.size())));
  return bytes;
}

template <typename Value>
absl::StatusOr<std::vector<Value>> TensorReader::Values(const Tensor& tensor) const {
  if (!IsRead(tensor.data_type())) {
    return absl::UnimplementedError(absl::StrCat("tensor '", tensor.name(),
                                                 "' has elements of type ", tensor.data_type(),
                                                 " of ONNX's TensorProto.DataType"));
  }
  ASSIGN_OR_RETURN(const int64_t count, ElementsOf(tensor));
  if (tensor.data_location() == Tensor::EXTERNAL) {
    ASSIGN_OR_RETURN(const std::string bytes, External(tensor));
    return FromRaw<Value>(tensor, bytes, count);
  }
  if (tensor.has_raw_data()) return FromRaw<Value>(tensor, tensor.raw_data(), count);
  return FromFields<Value>(tensor, count);
}

absl::StatusOr<std::vector<float>> TensorReader::Floats(const Tensor& tensor) const {
  return Values<float>(tensor);
}

absl::StatusOr<Constant> TensorReader::ReadConstant(const Tensor& tensor) const {
  ASSIGN_OR_RETURN(std::vector<double> values, Values<double>(tensor));
  return Constant{.dims = {tensor.dims().begin(), tensor.dims().end()},
                  .values = std::move(values),
                  .type = tensor.data_type()};
}

}  // namespace neap::nets
