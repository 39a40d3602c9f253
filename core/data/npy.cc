#include "neap/core/data/npy.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <iterator>
#include <limits>
#include <new>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "neap/core/base/float16.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/data/npy_dictionary.h"
#include "neap/core/data/stored_number.h"

namespace neap {
namespace {

static_assert(std::endian::native == std::endian::little, "elements are swapped from big-endian");

constexpr std::array<uint8_t, 6> kNpyMagic = {0x93, 'N', 'U', 'M', 'P', 'Y'};
// A header has a few names and numbers; NumPy reads no more than 10,000 bytes.
constexpr int64_t kMaxHeaderBytes = 10'000;
constexpr int64_t kChunkBytes = int64_t{1} << 20;

template <size_t size>
absl::StatusOr<std::array<uint8_t, size>> BytesAt(const ReadableFile& file, int64_t offset) {
  std::array<uint8_t, size> bytes = {};
  RETURN_IF_ERROR(file.ReadAt(offset, {reinterpret_cast<std::byte*>(bytes.data()), size}));
  return bytes;
}

absl::StatusOr<NpyHeader> ReadNpyHeader(const ReadableFile& file) {
  ASSIGN_OR_RETURN(const auto start, BytesAt<8>(file, 0));
  if (!std::equal(kNpyMagic.begin(), kNpyMagic.end(), start.begin()))
    return file.Corrupt(0, "not a .npy file");
  const int version = start[6];
  if (version < 1 || version > 3 || start[7] != 0)
    return file.Corrupt(6, absl::StrCat("version ", version, ".", int{start[7]},
                                        " of the format; 1.0, 2.0 and 3.0 are read"));
  int64_t length = 0;
  const int64_t text_begin = version == 1 ? 10 : 12;
  if (version == 1) {
    ASSIGN_OR_RETURN(const auto bytes, BytesAt<2>(file, 8));
    length = bytes[0] | bytes[1] << 8;
  } else {
    ASSIGN_OR_RETURN(const auto bytes, BytesAt<4>(file, 8));
    for (size_t i = 0; i < 4; ++i) length |= int64_t{bytes[i]} << (8 * i);
  }
  if (length > kMaxHeaderBytes)
    return file.Corrupt(8, absl::StrCat("a header of ", length, " bytes"));
  std::string text(static_cast<size_t>(length), '\0');
  RETURN_IF_ERROR(
      file.ReadAt(text_begin, {reinterpret_cast<std::byte*>(text.data()), text.size()}));
  NpyHeader header = {.data_begin = text_begin + length};
  NpyFault fault;
  if (ParseNpyDictionary(text, header, fault)) return header;
  const absl::Status corrupt =
      file.Corrupt(text_begin + static_cast<int64_t>(fault.at), fault.what);
  return absl::Status(fault.code, corrupt.message());
}

// Calls store(i, at) for each element i of the file's order, `at` being its place in C order.
template <typename Store>
void InFileOrder(const NpyHeader& header, int64_t first, int64_t count, const Store& store) {
  const size_t axes = header.extents.size();
  if (!header.fortran_order || axes < 2) {
    for (int64_t i = 0; i < count; ++i) store(i, first + i);
    return;
  }
  // Fortran's first axis varies fastest: its elements lie a whole row of the others apart.
  std::vector<int64_t> strides(axes, 1), index(axes, 0);
  for (size_t axis = axes - 1; axis > 0; --axis)
    strides[axis - 1] = strides[axis] * header.extents[axis];
  int64_t at = 0, rest = first;
  for (size_t axis = 0; axis < axes; ++axis) {
    index[axis] = rest % header.extents[axis];
    rest /= header.extents[axis];
    at += index[axis] * strides[axis];
  }
  for (int64_t i = 0; i < count; ++i) {
    store(i, at);
    for (size_t axis = 0; axis < axes; ++axis) {
      at += strides[axis];
      if (++index[axis] < header.extents[axis]) break;
      at -= index[axis] * strides[axis];
      index[axis] = 0;
    }
  }
}

}  // namespace

absl::StatusOr<NpyFile> NpyFile::Open(const std::string& path) {
  ASSIGN_OR_RETURN(ReadableFile file, ReadableFile::Open(path));
  ASSIGN_OR_RETURN(NpyHeader header, ReadNpyHeader(file));
  const int64_t expected = header.elements * header.element_bytes;
  const int64_t actual = file.size_bytes() - header.data_begin;
  if (actual != expected) {
    return file.Corrupt(
        header.data_begin + std::min(expected, actual),
        absl::StrCat("the file holds ", actual, " bytes of elements, not ", expected));
  }
  return NpyFile(std::move(file), std::move(header));
}

template <typename Stored, typename Value>
absl::Status NpyFile::ReadStored(std::vector<Value>& values) const {
  constexpr int64_t kBytes = sizeof(Stored);
  std::vector<std::byte> chunk(
      static_cast<size_t>(std::min(kChunkBytes, header_.elements * kBytes)));
  for (int64_t first = 0; first < header_.elements;) {
    const int64_t count = std::min(kChunkBytes / kBytes, header_.elements - first);
    const int64_t begin = header_.data_begin + first * kBytes;
    RETURN_IF_ERROR(
        file_.ReadAt(begin, absl::MakeSpan(chunk.data(), static_cast<size_t>(count * kBytes))));
    int64_t outside = -1;  // the first element that the values' type does not hold
    InFileOrder(header_, first, count, [&](int64_t i, int64_t at) {
      const auto stored = LoadStored<Stored>(chunk.data() + i * kBytes, header_.big_endian);
      if constexpr (std::is_same_v<Value, float>) {
        values[static_cast<size_t>(at)] = static_cast<float>(stored);
      } else {
        if (!std::in_range<Value>(stored) && outside < 0) outside = i;
        values[static_cast<size_t>(at)] = static_cast<Value>(stored);
      }
    });
    if (outside >= 0)
      return file_.Corrupt(begin + outside * kBytes, "an integer that 32 bits do not hold");
    first += count;
  }
  return absl::OkStatus();
}

template <typename Value>
absl::StatusOr<std::vector<Value>> NpyFile::ReadAs() const {
  std::vector<Value> values;
  try {
    values.resize(static_cast<size_t>(header_.elements));
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError(
        absl::StrCat(path(), ": no memory for ", header_.elements, " elements"));
  }
  const auto read = [&]() -> absl::Status {
    const bool is_signed = header_.kind == 'i';
    if constexpr (std::is_same_v<Value, float>) {
      if (header_.kind == 'f' && header_.element_bytes == 2) return ReadStored<Fp16>(values);
      if (header_.kind == 'f' && header_.element_bytes == 4) return ReadStored<float>(values);
      if (header_.kind == 'f') return ReadStored<double>(values);
    }
    switch (header_.element_bytes) {
      case 1:
        return is_signed ? ReadStored<int8_t>(values) : ReadStored<uint8_t>(values);
      case 2:
        return is_signed ? ReadStored<int16_t>(values) : ReadStored<uint16_t>(values);
      case 4:
        return is_signed ? ReadStored<int32_t>(values) : ReadStored<uint32_t>(values);
      default:
        return is_signed ? ReadStored<int64_t>(values) : ReadStored<uint64_t>(values);
    }
  };
  RETURN_IF_ERROR(read());
  return values;
}

absl::StatusOr<std::vector<float>> NpyFile::ReadFloats() const { return ReadAs<float>(); }

absl::StatusOr<std::vector<int32_t>> NpyFile::ReadIntegers() const {
  if (header_.kind != 'f') return ReadAs<int32_t>();
  return absl::InvalidArgumentError(
      absl::StrCat(path(), ": the elements are floating-point numbers, where integers are needed"));
}

}  // namespace neap
