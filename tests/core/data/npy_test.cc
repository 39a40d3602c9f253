// Arrays of NumPy: all types, orders and versions, and headers that are not NumPy's.
#include "neap/core/data/npy.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "tests/core/data/data_files.h"

namespace neap {
namespace {

using testing::LittleEndian;
using testing::NpyBytes;

absl::StatusOr<NpyFile> OpenBytes(const std::string& bytes) {
  static const ScratchDirectory directory;
  WriteText(directory.File("a.npy"), bytes);
  return NpyFile::Open(directory.File("a.npy"));
}

NpyFile MustOpenBytes(const std::string& bytes) {
  absl::StatusOr<NpyFile> file = OpenBytes(bytes);
  REQUIRE_MESSAGE(file.ok(), file.status().ToString());
  return *std::move(file);
}

template <typename Stored>
void CheckType(const std::string& type, const std::vector<Stored>& values) {
  CAPTURE(type);
  const std::string shape = "(" + std::to_string(values.size()) + ",)";
  std::vector<float> expected;
  for (const Stored value : values) expected.push_back(static_cast<float>(value));
  CHECK(MustOpenBytes(NpyBytes("<" + type, shape, LittleEndian(values))).ReadFloats().value() ==
        expected);
  std::string swapped;
  for (const Stored value : values) {
    const std::string bytes = LittleEndian(value);
    swapped.append(bytes.rbegin(), bytes.rend());
  }
  CHECK(MustOpenBytes(NpyBytes(">" + type, shape, swapped)).ReadFloats().value() == expected);
}

TEST_CASE("numbers of all types become floats, in both byte orders") {
  CheckType<int8_t>("i1", {-128, 0, 127});
  CheckType<uint8_t>("u1", {0, 200, 255});
  CheckType<int16_t>("i2", {-32768, 258, 32767});
  CheckType<uint16_t>("u2", {0, 258, 65535});
  CheckType<int32_t>("i4", {-(1 << 30), 66051, 1 << 30});
  CheckType<uint32_t>("u4", {0, 66051, 1U << 31});
  CheckType<int64_t>("i8", {-(int64_t{1} << 40), 3, int64_t{1} << 40});
  CheckType<uint64_t>("u8", {0, 3, uint64_t{1} << 63});
  CheckType<float>("f4", {-1.5F, 0.1F, std::numeric_limits<float>::infinity()});
  CheckType<double>("f8", {-1.5, 0.1, 1e300});
  // 1, -2 and 65504 as halves.
  CHECK(MustOpenBytes(NpyBytes("<f2", "(3,)", std::string("\x00\x3c\x00\xc0\xff\x7b", 6)))
            .ReadFloats()
            .value() == std::vector<float>{1, -2, 65504});
  CHECK(MustOpenBytes(NpyBytes("|b1", "(2,)", std::string("\1\0", 2))).ReadIntegers().value() ==
        std::vector<int32_t>{1, 0});
}

TEST_CASE("all versions of the format are read, and a scalar has one element") {
  for (const int version : {1, 2, 3}) {
    const NpyFile file =
        MustOpenBytes(NpyBytes("<i4", "(2, 1)", LittleEndian<int32_t>({7, -7}), {version}));
    CHECK(file.extents() == std::vector<int64_t>{2, 1});
    CHECK(file.ReadIntegers().value() == std::vector<int32_t>{7, -7});
  }
  const NpyFile scalar = MustOpenBytes(NpyBytes("<f4", "()", LittleEndian(2.5F)));
  CHECK(scalar.extents().empty());
  CHECK(scalar.ReadFloats().value() == std::vector<float>{2.5F});
}

TEST_CASE("elements in Fortran's order come in C order, also beyond the first piece that is read") {
  for (const std::vector<int64_t>& extents :
       {std::vector<int64_t>{2, 3, 4}, {5, 1, 2}, {700, 3, 211}}) {
    const int64_t count = std::accumulate(extents.begin(), extents.end(), int64_t{1},
                                          [](int64_t a, int64_t b) { return a * b; });
    std::vector<int32_t> stored(static_cast<size_t>(count)), expected(stored.size());
    std::iota(stored.begin(), stored.end(), 0);
    for (int64_t i = 0; i < extents[0]; ++i) {
      for (int64_t j = 0; j < extents[1]; ++j) {
        for (int64_t k = 0; k < extents[2]; ++k) {
          expected[static_cast<size_t>((i * extents[1] + j) * extents[2] + k)] =
              static_cast<int32_t>(i + extents[0] * (j + extents[1] * k));
        }
      }
    }
    const std::string shape = "(" + std::to_string(extents[0]) + ", " + std::to_string(extents[1]) +
                              ", " + std::to_string(extents[2]) + ")";
    const NpyFile file =
        MustOpenBytes(NpyBytes("<i4", shape, LittleEndian(stored), {.fortran_order = true}));
    CHECK(file.ReadIntegers().value() == expected);
    CHECK(MustOpenBytes(NpyBytes("<i4", shape, LittleEndian(stored))).ReadIntegers().value() ==
          stored);
  }
}

// The error without the file's name.
std::string ErrorOf(const std::string& bytes, absl::StatusCode code) {
  const absl::Status status = OpenBytes(bytes).status();
  CHECK(status.code() == code);
  const std::string text(status.message());
  return text.substr(std::min(text.find("a.npy: ") + 7, text.size()));
}

TEST_CASE("what is no array of numbers is refused, naming the byte") {
  const auto corrupt = [](const std::string& bytes) {
    return ErrorOf(bytes, absl::StatusCode::kDataLoss);
  };
  const std::string good = NpyBytes("<i2", "(2,)", "abcd");
  CHECK(corrupt("no array") == "byte 0: not a .npy file");
  CHECK(corrupt(good + "e") == "byte 132: the file holds 5 bytes of elements, not 4");
  CHECK(corrupt(good.substr(0, 131)) == "byte 131: the file holds 3 bytes of elements, not 4");
  CHECK(corrupt(NpyBytes("<i2", "(2,)", "abcd", {.version = 4})) ==
        "byte 6: version 4.0 of the format; 1.0, 2.0 and 3.0 are read");
  CHECK(corrupt(NpyBytes("<i2", "2", "abcd")) == "byte 60: a tuple is expected");
  CHECK(corrupt(NpyBytes("<i2", "(-2,)", "abcd")) == "byte 61: an extent is expected");
  CHECK(corrupt(NpyBytes("<i2', 'descr': '<i2", "(2,)", "abcd")).find("an entry is there twice") !=
        std::string::npos);
  CHECK(corrupt(NpyBytes("<i2', 'more': '", "(2,)", "abcd")).find("an unknown entry 'more'") !=
        std::string::npos);
  std::string incomplete = good;
  incomplete.replace(incomplete.find("'shape'"), 15, std::string(15, ' '));
  CHECK(corrupt(incomplete).find("'descr', 'fortran_order' or 'shape' is missing") !=
        std::string::npos);
}

TEST_CASE("arrays of other things than numbers, and absurdly large ones, are refused") {
  for (const std::string type :
       {"<c8", "|S3", "|O", "<U4", "<f16", "<M8[ns]", "i4", "=i4", "<b2"}) {
    CAPTURE(type);
    CHECK(ErrorOf(NpyBytes(type, "(1,)", "abcd"), absl::StatusCode::kInvalidArgument)
              .find("of the type '" + type + "' are not read") != std::string::npos);
  }
  for (const std::string shape : {"(0,)", "(3, 0)", "(2147483649,)", "(65536, 65536)",
                                  "(99999999999999999999,)", "(4294967296, 4294967296)"}) {
    CAPTURE(shape);
    ErrorOf(NpyBytes("<i2", shape, "abcd"), absl::StatusCode::kInvalidArgument);
  }
}

TEST_CASE("integers that do not fit, and floating-point numbers, are no integers") {
  const std::string name = "a.npy: byte 136: an integer that 32 bits do not hold";
  for (const int64_t large : {int64_t{1} << 31, -(int64_t{1} << 31) - 1}) {
    const NpyFile file = MustOpenBytes(NpyBytes("<i8", "(2,)", LittleEndian<int64_t>({1, large})));
    const absl::Status status = file.ReadIntegers().status();
    CHECK(absl::IsDataLoss(status));
    CHECK(std::string(status.message()).find(name) != std::string::npos);
  }
  const NpyFile file = MustOpenBytes(NpyBytes("<f4", "(1,)", LittleEndian(1.0F)));
  CHECK(absl::IsInvalidArgument(file.ReadIntegers().status()));
}

}  // namespace
}  // namespace neap
