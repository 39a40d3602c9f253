// On which device kernels are measured, how, and where the times are kept: the flags of commands
// that measure.
#pragma once

#include <string>

#include "apps/cli/flags.h"
#include "neap/layers/profile/profiler.h"

namespace neap::apps {

struct MeasuringFlags {
  std::string device;    // empty: cuda:0 if there is one, else cpu
  std::string database;  // empty: the default
  ProfileOptions options = {};

  // The flags refer to this object, which must stay where it is. `other_devices` says
  // which --device may be besides, where nothing is measured.
  void AddTo(FlagSet& flags, const std::string& other_devices);
};

}  // namespace neap::apps
