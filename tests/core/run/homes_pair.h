// A session with homes for its persistent tensors, and one without that must have the same bits.
//
//   Pair pair(BlockNet(), *device, {.external = IsWeight, .on_host = IsLast}, {.policy = "auto"});
//   pair.TrainBoth(3);
#pragma once

#include <doctest/doctest.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "neap/core/base/units.h"
#include "neap/core/run/session.h"
#include "tests/core/run/external_memory.h"
#include "tests/small_training.h"

namespace neap::homes_test {

using IsChosen = std::function<bool(const PlanTensor& tensor)>;

inline bool IsWeight(const PlanTensor& tensor) {
  return tensor.role == Role::kMaster ||
         (tensor.role == Role::kParam && tensor.dtype == DType::kFp32);
}
// Whether it is fp32 and may be external: neither the backup of a state, which is a copy, nor the
// loss scale.
inline bool IsFp32(const PlanTensor& tensor) {
  return IsPersistent(tensor.role) && tensor.dtype == DType::kFp32 &&
         !tensor.name.ends_with(".backup") && tensor.name != "loss_scale";
}
inline bool IsNone(const PlanTensor& /*tensor*/) { return false; }
inline bool IsLast(const PlanTensor& tensor) { return tensor.name == "fc.weight"; }

// Which tensors are the caller's, and which are on the host.
struct Chosen {
  IsChosen external = IsNone, on_host = IsNone;
};

// A session without homes, and one with, of the same initial values.
struct Pair {
  Pair(const Graph& net, Device& device, const Chosen& chosen, const PlannerOptions& planning,
       TrainingOptions training = {})
      : plain(Opened(net, device, planning, training)), memory(device) {
    for (const PlanTensor& tensor : plain.plan().tensors) {
      if (chosen.on_host(tensor)) {
        training.homes.push_back({tensor.name, Home::kHost});
      } else if (chosen.external(tensor)) {
        memory.Add(tensor.name, plain.Values(tensor.name).value(), tensor.shape,
                   net.options().layout);
        external_bytes += RoundUp(tensor.bytes, kBlockBytes);
      }
    }
    training.external = memory.tensors();
    options = training;
    homes.emplace(Opened(net, device, planning, training));
  }
  void CheckSame() {
    Trained a(1), b(1);
    AppendState(a, plain);
    AppendState(b, *homes);
    CHECK(AreSame(a, b));
    for (const ExternalTensor& one : options.external)
      CHECK(SameBits(memory.Read(one.tensor), plain.Values(one.tensor).value()));
  }
  void TrainBoth(int steps) {
    CHECK(Train(plain, steps) == Train(*homes, steps));
    CheckSame();
  }

  Session plain;
  testing::CallersMemory memory;
  int64_t external_bytes = 0;
  TrainingOptions options;
  std::optional<Session> homes;
};

}  // namespace neap::homes_test
