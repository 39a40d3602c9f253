// Memory of a caller's for persistent tensors of a session, on its device.
//
//   CallersMemory memory(*device);
//   memory.Add("fc.weight", plain.Values("fc.weight").value());
//   Session session = Opened(net, *device, {}, {.external = memory.tensors()});
//   memory.Read("fc.weight");  // what steps have left there
#pragma once

#include <doctest/doctest.h>

#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "neap/core/base/layout.h"
#include "neap/core/device/device.h"
#include "neap/core/run/external.h"

namespace neap::testing {

// Of fp32 tensors, whose values are given and returned channels first. Addresses are multiples of
// kExternalAlignment, but of no larger power of two.
class CallersMemory {
 public:
  explicit CallersMemory(Device& device) : device_(device) {}

  // Without a shape, in the order of the values.
  void Add(const std::string& tensor, const std::vector<float>& values, Shape shape = {},
           Layout layout = Layout::kChannelsFirst) {
    if (shape.rank() == 0) shape = {std::ssize(values)};
    Place place = {.spec = {.shape = std::move(shape), .layout = layout}};
    REQUIRE(place.spec.elements() == std::ssize(values));
    place.offset = kExternalAlignment * (2 * (std::ssize(places_) % 8) + 1);
    const int64_t bytes = place.offset + place.spec.size_bytes();
    place.buffer = device_.Allocate(MemoryKind::kDevice, bytes).value();
    places_[tensor] = std::move(place);
    Write(tensor, values);
  }
  void Write(const std::string& tensor, const std::vector<float>& values) {
    const Place& place = places_.at(tensor);
    const Buffer host = Staging(place);
    FromNchw(values, place.spec, host.data());
    Copy(place.data(), host.data(), place);
  }
  std::vector<float> Read(const std::string& tensor) const {
    const Place& place = places_.at(tensor);
    const Buffer host = Staging(place);
    Copy(host.data(), place.data(), place);
    std::vector<float> values(static_cast<size_t>(place.spec.elements()));
    ToNchw(host.data(), place.spec, absl::MakeSpan(values));
    return values;
  }
  std::vector<ExternalTensor> tensors() const {
    std::vector<ExternalTensor> tensors;
    for (const auto& [name, place] : places_)
      tensors.push_back({name, place.data(), place.spec.size_bytes()});
    return tensors;
  }

 private:
  struct Place {
    TensorSpec spec;
    int64_t offset = 0;  // of the tensor in the buffer
    Buffer buffer = {};
    std::byte* data() const { return buffer.data() + offset; }
  };
  Buffer Staging(const Place& place) const {
    return device_.Allocate(MemoryKind::kPinnedHost, place.spec.size_bytes()).value();
  }
  void Copy(std::byte* destination, const std::byte* source, const Place& place) const {
    REQUIRE(device_.Copy(Stream::kCompute, destination, source, place.spec.size_bytes()).ok());
    REQUIRE(device_.Synchronize().ok());
  }

  Device& device_;
  std::map<std::string, Place> places_;
};

}  // namespace neap::testing
