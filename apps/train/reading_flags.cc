#include "apps/train/reading_flags.h"

#include "absl/strings/str_cat.h"

namespace neap::apps {
namespace {

constexpr int64_t kMostWorkers = 1024;

}  // namespace

void ReadingFlags::AddTo(FlagSet& flags, const std::string& folders, const std::string& when) {
  flags.Add("workers", "N", "threads that read images (0: up to 16, if they are worth it)",
            Integer(0, kMostWorkers, &workers));
  flags.Add("skip-bad",
            absl::StrCat("of files of ", folders,
                         " that cannot be decoded, take the next image, and list them ", when),
            &skip_bad);
}

}  // namespace neap::apps
