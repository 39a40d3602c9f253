#include "apps/cli/measuring_flags.h"

#include "absl/strings/str_cat.h"
#include "apps/cli/kernel_flags.h"

namespace neap::apps {

void MeasuringFlags::AddTo(FlagSet& flags, const std::string& other_devices) {
  flags.Add("device", "DEVICE",
            absl::StrCat("cpu or cuda:N (cuda:0 if there is one, else cpu); ", other_devices),
            Text(&device));
  flags.Add("database", "FILE", "the database of measured times (profile.db in ~/.cache/neap)",
            Text(&database));
  flags.Add("divisions", "POLICY", "parts of a batch on which convolutions are measured",
            ReadDivisions(&options.divisions));
  flags.Add("samples", "N", "minimum number of samples for a median",
            Integer(1, 1000, &options.samples));
  AddEnginesTo(flags, &engines);
}

}  // namespace neap::apps
