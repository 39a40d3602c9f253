// `neap profile NET --list`: the engines of every step of a network, with what was measured of
// them.
//
//   EngineList list = {.net = "lenet", .device = database.device(), .database = database.path()};
//   ASSIGN_OR_RETURN(list.kernels, ListKernels(programs, {&device->backend(), &database}));
//   Print(ToText(list));
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "apps/cli/output.h"
#include "neap/core/program/program.h"
#include "neap/core/step/kernel.h"
#include "neap/layers/profile/profile_database.h"

namespace neap::apps {

struct ListedEngine {
  Engine engine;
  bool is_listed = true;                     // else measured once, and the library has it no more
  std::optional<Measurement> measured = {};  // or found to fail
};

// A kernel that steps of the network run.
struct ListedKernel {
  std::string name;   // "conv1 forward", of the first such step
  int64_t count = 1;  // such steps, of the first program that has one
  int64_t batch = 1;
  std::string operation;              // docs/profile-database.md
  std::vector<ListedEngine> engines;  // measured ones first, the fastest at the top
};

struct EngineList {
  std::string net;
  ProfiledDevice device;
  std::string database;  // empty: none
  std::vector<ListedKernel> kernels;

  // False where engines were made up, as there is no library to list them.
  bool engines_are_known() const { return !device.versions.empty(); }
};

// Where engines and times are looked up.
struct EngineSource {
  EngineCatalog* catalog = nullptr;     // null: the engines that the database has are all
  ProfileDatabase* database = nullptr;  // null: no times
};

// Of programs of one network: equal kernels once, in the programs' order. Errors: the catalog's and
// the database's.
absl::StatusOr<std::vector<ListedKernel>> ListKernels(absl::Span<const Program> programs,
                                                      const EngineSource& source);

std::string ToText(const EngineList& list);
Json ToJson(const EngineList& list);
// A line for every engine.
std::string ToCsv(const EngineList& list);

}  // namespace neap::apps
