// The flags of commands that measure kernels: the device, its engines, the number of samples, the
// database.
#pragma once

#include <string>

#include "apps/cli/flags.h"
#include "neap/layers/catalog/engine_options.h"
#include "neap/layers/profile/profiler.h"

namespace neap::apps {

struct MeasuringFlags {
  std::string device;    // empty: cuda:0 if there is one, else cpu
  std::string database;  // empty: the default
  ProfileOptions options = {};
  EngineOptions engines = {};

  // The flags refer to this object, which must not move. `other_devices` is help text for the
  // devices that --device also accepts when nothing is measured.
  void AddTo(FlagSet& flags, const std::string& other_devices);
};

}  // namespace neap::apps
