// `neap profile NET --list`: the engines of every step of a network, with their measurements.
//
//   EngineList list = {.net = "lenet", .device = database.device(), .database = database.path()};
//   ASSIGN_OR_RETURN(list.kernels, ListKernels(programs, device->description(),
//                                              {&device->backend(), &database}));
//   Print(ToText(list));
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "apps/cli/output.h"
#include "neap/core/plan/cost_features.h"
#include "neap/core/program/program.h"
#include "neap/core/step/kernel.h"
#include "neap/layers/catalog/engine_options.h"
#include "neap/layers/profile/profile_database.h"

namespace neap::apps {

struct ListedEngine {
  Engine engine;
  bool is_listed = true;                     // false: measured before, but no longer in the library
  int64_t place = 0;                         // in the library's order, from 0
  std::optional<Measurement> measured = {};  // times, or a failure
};

// A kernel that one or more steps of the network run.
struct ListedKernel {
  std::string name;   // "conv1 forward", of the first such step
  int64_t count = 1;  // number of such steps in the first program that has any
  int64_t batch = 1;
  std::string operation;              // docs/profile-database.md
  std::vector<ListedEngine> engines;  // measured engines first, from fastest to slowest
  CostFeatures cost;                  // from which the cost model predicts its time
  double predicted_seconds = 0;       // by the cost model
};

struct EngineList {
  std::string net;
  ProfiledDevice device;
  std::string database;             // empty: no database
  std::string placeholder_engines;  // PlaceholderEnginesText(), where engines are not known
  std::vector<ListedKernel> kernels;

  // False if the engines are placeholders, because no library lists them here.
  bool engines_are_known() const { return !device.versions.empty(); }
};

// The sources of engines and times.
struct EngineSource {
  EngineCatalog* catalog = nullptr;     // null: only the database's engines
  ProfileDatabase* database = nullptr;  // null: no times
  EngineOptions options = {};           // those of the catalog
};

// Lists the kernels of programs of one network in the programs' order, equal kernels once. Errors:
// those of the catalog and the database.
absl::StatusOr<std::vector<ListedKernel>> ListKernels(absl::Span<const Program> programs,
                                                      const DeviceDescription& device,
                                                      const EngineSource& source);

std::string ToText(const EngineList& list);
Json ToJson(const EngineList& list);
// One line per engine.
std::string ToCsv(const EngineList& list);

}  // namespace neap::apps
