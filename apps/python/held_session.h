// A session with all that it points to, for Python's threads: neap.Session.
//
// *Ownership*: owns the device, which the session borrows. *Threads*: any; one call after another.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "apps/python/arrays.h"
#include "apps/python/planning_arguments.h"
#include "apps/python/released.h"
#include "neap/core/device/device.h"
#include "neap/core/graph/graph.h"
#include "neap/core/run/session.h"
#include "neap/core/vision/batch.h"
#include "neap/memory/measuring/measure_kernels.h"

namespace neap::python {

struct SessionArguments {
  PlanningArguments planning = {};
  TrainingOptions training = {};
  float label_smoothing = 0;                          // 0: as the network's loss has it
  double measure_seconds = kDefaultMeasuringSeconds;  // on a GPU; 0: nothing is measured
};

// The extents that a session expects of a batch.
struct BatchShape {
  // The extents of one example of each feed, by name.
  std::map<std::string, std::vector<int64_t>, std::less<>> feeds;
  // For a network whose feeds are images and what the loss compares its predictions with:
  bool takes_images = false;
  bool reads_tokens = false;         // integers {T} instead of images
  bool has_sizes = false;            // Graph::Sizes() has more than those below
  std::vector<int64_t> image;        // {C, H, W}
  std::vector<int64_t> labels;       // of an image: {}, or {H, W} if pixels are labelled
  std::vector<int64_t> targets;      // of an image: {C}, or {C, H, W}; {} if the loss reads labels
  std::vector<int64_t> predictions;  // of an image: {C}, or {C, H, W} if pixels are labelled
};

class HeldSession {
 public:
  // Throws apps/python/errors.h.
  HeldSession(const Graph& net, const SessionArguments& arguments);
  ~HeldSession() { Close(); }
  HeldSession(const HeldSession&) = delete;
  HeldSession& operator=(const HeldSession&) = delete;

  // Calls `use(Session&)`, which returns a status or a StatusOr, without the GIL.
  template <typename Function>
  std::invoke_result_t<Function, Session&> Use(Function&& use) {
    return Released([&]() -> std::invoke_result_t<Function, Session&> {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (!open_.has_value()) return absl::FailedPreconditionError("the session is closed");
      return std::forward<Function>(use)(open_->session);
    });
  }
  // The network with the label smoothing that was asked for.
  absl::StatusOr<Graph> WithItsLoss(const Graph& net) const;
  void Close();
  bool is_closed();

  // The following are only for functions that Use() calls.
  //
  // Whether the session reads arrays in the memory of GPU `index`. Errors: INVALID_ARGUMENT for
  // another than its device.
  absl::Status CheckReads(int index) const;
  // INVALID_ARGUMENT for a graph whose batch or feeds have other sizes than the session's network.
  absl::Status CheckFeedsOf(const Graph& net) const;
  // The network that the session was made for, the last batch, and for each step in flight the
  // images that it reads in a GPU's memory.
  const Graph& net() const { return open_->net; }
  Batch& given() { return open_->given; }
  std::deque<std::optional<GpuArray<float>>>& in_flight() { return open_->in_flight; }

  const BatchShape& shape() const { return shape_; }
  int64_t batch() const { return batch_; }
  bool has_budget() const { return has_budget_; }

 private:
  struct Open {
    std::deque<std::optional<GpuArray<float>>> in_flight = {};  // outlives the session's steps
    std::unique_ptr<Device> device;
    Session session;
    Graph net;
    std::optional<int> gpu;  // its index, unless the device is the CPU
    Batch given = {};
  };
  absl::StatusOr<Open> MakeOpen(const Graph& net, const SessionArguments& arguments) const;

  BatchShape shape_;
  float label_smoothing_ = 0;
  int64_t batch_ = 0;
  bool has_budget_ = false;
  std::mutex mutex_;
  std::optional<Open> open_;  // guarded by mutex_
};

}  // namespace neap::python
