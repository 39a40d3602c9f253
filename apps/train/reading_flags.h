// The flags of `neap train`, `neap eval` and `neap predict` that say how the images of a dataset
// are read, and which dataset that is.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "apps/cli/flags.h"

namespace neap::apps {

// A dataset's spec, or a folder (DatasetSpec(), core/vision/dataset.h).
FlagValue DatasetFlag(std::string* spec);
inline constexpr char kDatasetHelp[] =
    "synthetic, imagefolder:DIR, idx:DIR, cifar10:DIR, cifar100:DIR, or a folder whose format its "
    "files tell; for networks that label pixels masks:DIR, voxels volumes:DIR, tokens tokens:DIR "
    "or tokens32:DIR";

struct ReadingFlags {
  int64_t workers = 0;    // 0: as many as are worth it
  bool skip_bad = false;  // BadFiles (apps/train/bad_files.h) has the files
  bool allow_empty = false;
  bool exif_orientation = false;

  // The flags refer to this object, which must not move. `folders` and `when` complete the help:
  // "an imagefolder or --val", "after every epoch".
  void AddTo(FlagSet& flags, const std::string& folders, const std::string& when);
  // BadUsage() for a flag that only folders of images have, "--skip-bad needs WHAT", unless
  // `has_folder`.
  absl::Status Check(bool has_folder, const std::string& what) const;
};

}  // namespace neap::apps
