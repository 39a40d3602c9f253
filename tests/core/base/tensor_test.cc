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
  CHECK((image.spatial_axes() == 2 && image.positions() == 20));
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

TEST_CASE("a shape has up to three spatial axes behind N and C") {
  const Shape sequence = {2, 3, 11}, volume = {2, 3, 4, 5, 6};
  CHECK((sequence.spatial_axes() == 1 && sequence.positions() == 11));
  CHECK((sequence.d() == 1 && sequence.h() == 1 && sequence.w() == 11));
  CHECK((Shape{2, 3, 5, 6}.d() == 1 && Shape{7}.d() == 1));
  CHECK((volume.spatial_axes() == 3 && volume.positions() == 120 && volume.elements() == 720));
  CHECK((volume.spatial()[0] == 4 && volume.d() == 4 && volume.h() == 5 && volume.w() == 6));
  for (const Shape& shape : {Shape{}, Shape{7}, Shape{7, 8}}) {
    CHECK(shape.spatial_axes() == 0);
    CHECK(shape.spatial().empty());
    CHECK(shape.positions() == 1);
  }
  CHECK(SpatialShape(2, 3, {4, 5, 6}) == volume);
  CHECK(SpatialShape(2, 3, {}) == Shape{2, 3});
}

TEST_CASE("another first extent leaves all else as it is") {
  const TensorSpec spec = {{2, 3, 4, 5, 6}, DType::kBf16, Layout::kChannelsLast};
  CHECK(WithFirstExtent(spec, 9).ToString() == "9x3x4x5x6 bf16 ndhwc");
  CHECK(WithFirstExtent(Shape{7}, 9) == Shape{9});
  CHECK(WithFirstExtent(Shape{}, 9) == Shape{});
}

TEST_CASE("a layout is named by the axes of the tensor") {
  const auto text = [](Shape shape, Layout layout, DType dtype = DType::kFp32) {
    return TensorSpec{std::move(shape), dtype, layout}.ToString();
  };
  CHECK(text({2, 3, 5}, Layout::kChannelsFirst) == "2x3x5 fp32 ncw");
  CHECK(text({2, 3, 5}, Layout::kChannelsLast) == "2x3x5 fp32 nwc");
  CHECK(text({2, 3, 5, 6}, Layout::kChannelsFirst) == "2x3x5x6 fp32 nchw");
  CHECK(text({2, 3, 5, 6}, Layout::kChannelsLast) == "2x3x5x6 fp32 nhwc");
  CHECK(text({2, 3, 4, 5, 6}, Layout::kChannelsFirst) == "2x3x4x5x6 fp32 ncdhw");
  CHECK(text({2, 3, 4, 5, 6}, Layout::kChannelsLast) == "2x3x4x5x6 fp32 ndhwc");
  // Texts of plans and profiles from before there were other axes than those of images.
  CHECK(text({2, 5, 6}, Layout::kChannelsFirst, DType::kInt32) == "2x5x6 int32 nchw");
  CHECK(text({64}, Layout::kChannelsFirst) == "64 fp32 nchw");
  for (const char* name : {"ncw", "nchw", "ncdhw", "channels_first"})
    CHECK(*ParseLayout(name) == Layout::kChannelsFirst);
  for (const char* name : {"nwc", "nhwc", "ndhwc", "channels_last"})
    CHECK(*ParseLayout(name) == Layout::kChannelsLast);
  CHECK(Name(Layout::kChannelsLast) == "nhwc");
  CHECK(Name(static_cast<Layout>(7)) == "unknown");
  CHECK(ParseLayout("chwn").status().message() == "unknown layout 'chwn'; known: nchw nhwc");
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
