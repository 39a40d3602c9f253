// Strong integer ids: an index into one table that cannot be mistaken for an index into another.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

namespace neap {

template <typename Tag>
struct Id {
  int32_t value = 0;

  constexpr Id() = default;
  constexpr explicit Id(int32_t v) : value(v) {}
  constexpr explicit Id(size_t v) : value(static_cast<int32_t>(v)) {}

  constexpr size_t index() const { return static_cast<size_t>(value); }
  friend constexpr bool operator==(Id, Id) = default;
  friend constexpr auto operator<=>(Id, Id) = default;
  template <typename H>
  friend H AbslHashValue(H h, Id id) {
    return H::combine(std::move(h), id.value);
  }
};

using LayerId = Id<struct LayerTag>;
using TensorId = Id<struct TensorTag>;
using StepId = Id<struct StepTag>;

}  // namespace neap
