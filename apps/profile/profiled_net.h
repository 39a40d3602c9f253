// The kernels of a network that a profile measures, and how long that will probably take.
//
//   const ProfiledNet profiled = {.graph = net, .optimizer = optimizer};
//   ASSIGN_OR_RETURN(const std::vector<Program> programs, ProgramsOf(profiled, description));
//   MeasuringTime seconds(programs, options, device, database);
//   seconds.Of(kernel);
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "neap/core/device/device.h"
#include "neap/core/graph/graph.h"
#include "neap/core/program/program.h"
#include "neap/core/step/optimizer.h"
#include "neap/layers/profile/profile_database.h"
#include "neap/layers/profile/profiler.h"

namespace neap::apps {

struct ProfiledNet {
  Graph graph;
  Optimizer optimizer = {};
  int64_t sub_batches = 1;
  bool batch_norm_in_parts = false;
};

// The programs of a session: training, also with the parameters on the host, as `auto` may choose
// (its updates are not grouped), and evaluation. Errors: those of Lower().
absl::StatusOr<std::vector<Program>> ProgramsOf(const ProfiledNet& net,
                                                const DeviceDescription& device);

// The kernels of several programs, in their order; equal ones may come twice.
std::vector<StepSignature> KernelsOfAll(const std::vector<Program>& programs);

// Predicts how long a device takes to measure a kernel: only to divide the work, because engines
// differ more from each other than kernels do. *Ownership*: borrows device and database.
class MeasuringTime {
 public:
  MeasuringTime(const std::vector<Program>& programs, const ProfileOptions& options, Device& device,
                ProfileDatabase& database);

  // Seconds for the engines of a kernel of the programs, or of a part of one, that the database
  // does not have.
  double Of(const StepSignature& kernel);

 private:
  double Flops(const StepSignature& kernel) const;
  // Engines that the catalog lists for the operation; a part of a batch has as many as the whole.
  int64_t Engines(const StepSignature& kernel);
  int64_t Known(const StepSignature& kernel);

  const ProfileOptions options_;
  Device& device_;
  ProfileDatabase& database_;
  absl::flat_hash_map<std::string, double> flops_per_image_;  // by operation
  absl::flat_hash_map<std::string, int64_t> engines_;         // by operation
};

}  // namespace neap::apps
