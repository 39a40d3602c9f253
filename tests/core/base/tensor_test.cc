#include "neap/core/base/tensor.h"

#include <doctest/doctest.h>

#include <limits>
#include <string>

namespace neap {
namespace {

TEST_CASE("a shape knows its number of elements and its image axes") {
  const Shape image = {2, 3, 4, 5};
  CHECK(image.elements() == 120);
  CHECK(image.ToString() == "2x3x4x5");
  CHECK((image.n() == 2 && image.c() == 3 && image.h() == 4 && image.w() == 5));
  const Shape vector = {7};
  CHECK((vector.n() == 7 && vector.c() == 1 && vector.w() == 1));
  CHECK(Shape{}.elements() == 1);
}

TEST_CASE("the size in bytes follows the dtype") {
  CHECK(TensorSpec{{2, 3}, DType::kFp32, Layout::kChannelsFirst}.size_bytes() == 24);
  CHECK(TensorSpec{{2, 3}, DType::kTf32, Layout::kChannelsFirst}.size_bytes() == 24);
  CHECK(TensorSpec{{2, 3}, DType::kFp16, Layout::kChannelsFirst}.size_bytes() == 12);
  CHECK(TensorSpec{{2, 3}, DType::kBf16, Layout::kChannelsFirst}.size_bytes() == 12);
  CHECK(TensorSpec{{2, 3}, DType::kUInt8, Layout::kChannelsFirst}.size_bytes() == 6);
  CHECK(TensorSpec{{2, 3}, DType::kInt32, Layout::kChannelsFirst}.size_bytes() == 24);
  CHECK(TensorSpec{{2, 3}, DType::kBf16, Layout::kChannelsLast}.ToString() == "2x3 bf16 nhwc");
}

TEST_CASE("sizes that overflow saturate") {
  const Shape absurd = {int64_t{1} << 40, int64_t{1} << 40};
  CHECK(absurd.elements() == std::numeric_limits<int64_t>::max());
  CHECK(TensorSpec{absurd}.size_bytes() == std::numeric_limits<int64_t>::max());
}

TEST_CASE("names parse back, and unknown names are refused with a list of the known ones") {
  for (DType dtype :
       {DType::kFp32, DType::kTf32, DType::kFp16, DType::kBf16, DType::kUInt8, DType::kInt32}) {
    CHECK(*ParseDType(Name(dtype)) == dtype);
  }
  for (Layout layout : {Layout::kChannelsFirst, Layout::kChannelsLast})
    CHECK(*ParseLayout(Name(layout)) == layout);
  for (Role role : {Role::kInput, Role::kLabel, Role::kActivation, Role::kSaved, Role::kGradient,
                    Role::kParam, Role::kParamGrad, Role::kOptimizer, Role::kState}) {
    CHECK(*ParseRole(Name(role)) == role);
  }
  CHECK(ParseDType("fp64").status().message() ==
        "unknown dtype 'fp64'; known: fp32 tf32 fp16 bf16 uint8 int32");
  CHECK(!ParseLayout("").ok());
  CHECK(!ParseRole("Param").ok());
}

}  // namespace
}  // namespace neap
