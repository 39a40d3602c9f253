#include "apps/measuring_flags.h"

#include "apps/profile_flags.h"

namespace neap::apps {

void MeasuringFlags::AddTo(FlagSet& flags) {
  flags.Add("device", "DEVICE", "cpu or cuda:N (cuda:0 if there is one, else cpu)", Text(&device));
  flags.Add("database", "FILE", "where times are kept (profile.db in ~/.cache/neap)",
            Text(&database));
  flags.Add("divisions", "POLICY", "which parts of a batch convolutions are measured on",
            ReadDivisions(&options.divisions));
  flags.Add("samples", "N", "samples behind a median, at least",
            Integer(1, 1000, &options.samples));
}

}  // namespace neap::apps
