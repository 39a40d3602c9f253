// Memory of a caller's for persistent tensors of a session, on its device.
//
//   CallersMemory memory(*device);
//   memory.Add("fc.weight", plain.Values("fc.weight").value());
//   Session session = Opened(net, *device, {}, {.external = memory.tensors()});
//   memory.Read("fc.weight");  // what steps have left there
#pragma once

#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "neap/core/device/device.h"
#include "neap/core/run/external.h"

namespace neap::testing {

// Of fp32 tensors, channels first. The device's memory is the host's.
class CallersMemory {
 public:
  explicit CallersMemory(Device& device) : device_(device) {}

  void Add(const std::string& tensor, const std::vector<float>& values) {
    const auto bytes = static_cast<int64_t>(values.size() * sizeof(float));
    buffers_[tensor] = device_.Allocate(MemoryKind::kDevice, bytes).value();
    Write(tensor, values);
  }
  void Write(const std::string& tensor, const std::vector<float>& values) {
    std::memcpy(buffers_.at(tensor).data(), values.data(), values.size() * sizeof(float));
  }
  std::vector<float> Read(const std::string& tensor) const {
    const Buffer& buffer = buffers_.at(tensor);
    std::vector<float> values(static_cast<size_t>(buffer.size_bytes()) / sizeof(float));
    std::memcpy(values.data(), buffer.data(), values.size() * sizeof(float));
    return values;
  }
  std::vector<ExternalTensor> tensors() const {
    std::vector<ExternalTensor> tensors;
    for (const auto& [name, buffer] : buffers_)
      tensors.push_back({name, buffer.data(), buffer.size_bytes()});
    return tensors;
  }

 private:
  Device& device_;
  std::map<std::string, Buffer> buffers_;
};

}  // namespace neap::testing
