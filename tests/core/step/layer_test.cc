#include "neap/core/step/layer.h"

#include <doctest/doctest.h>

#include <string>
#include <string_view>

namespace neap {
namespace {

struct Window {
  static constexpr std::string_view kType = "window";
  int64_t size = 0;
  absl::StatusOr<LayerSpec> Specify(const LayerContext& /*context*/) const { return LayerSpec(); }
  std::string Parameters() const { return std::to_string(size); }
  friend bool operator==(const Window&, const Window&) = default;
};

// Another definition under the same name, with a field of another type in the same place.
struct NamedWindow {
  static constexpr std::string_view kType = Window::kType;
  std::string name;
  absl::StatusOr<LayerSpec> Specify(const LayerContext& /*context*/) const { return LayerSpec(); }
  std::string Parameters() const { return name; }
  friend bool operator==(const NamedWindow&, const NamedWindow&) = default;
};

TEST_CASE("layers are equal if definition and values are, also in copies") {
  const Layer three = Window{3};
  const Layer copy = three;
  CHECK(three == copy);
  CHECK(three == Layer(Window{3}));
  CHECK(three != Layer(Window{4}));
  REQUIRE(copy.As<Window>() != nullptr);
  CHECK(copy.As<Window>()->size == 3);
}

TEST_CASE("two definitions of the same type name are told apart") {
  const Layer window = Window{3};
  const Layer named = NamedWindow{"3"};
  REQUIRE(window.type() == named.type());
  CHECK(window != named);
  CHECK(named != window);
  CHECK(window.As<NamedWindow>() == nullptr);
  CHECK(named.As<Window>() == nullptr);
  REQUIRE(named.As<NamedWindow>() != nullptr);
  CHECK(named.As<NamedWindow>()->name == "3");
}

}  // namespace
}  // namespace neap
