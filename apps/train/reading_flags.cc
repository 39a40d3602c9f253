#include "apps/train/reading_flags.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "apps/cli/outcome.h"
#include "neap/core/vision/dataset.h"

namespace neap::apps {
namespace {

constexpr int64_t kMaxWorkers = 1024;

}  // namespace

FlagValue DatasetFlag(std::string* spec) {
  const auto read = [spec](const std::string& text) {
    if (text.empty()) return BadUsage("an empty value");
    *spec = DatasetSpec(text);
    return absl::OkStatus();
  };
  return {.read = read, .default_text = *spec};
}

void ReadingFlags::AddTo(FlagSet& flags, const std::string& folders, const std::string& when) {
  flags.Add("workers", "N", "threads that read images (0: up to 16, if they are worth it)",
            Integer(0, kMaxWorkers, &workers));
  flags.Add("skip-bad",
            absl::StrCat("of files of ", folders,
                         " that cannot be decoded, take the next image, and list them ", when),
            &skip_bad);
  flags.Add("allow-empty", absl::StrCat("classes of ", folders, " may have no images"),
            &allow_empty);
  flags.Add("exif-orientation",
            absl::StrCat("turn the photographs of ", folders,
                         " upright, as their EXIF data says; torchvision does not"),
            &exif_orientation);
}

absl::Status ReadingFlags::Check(bool has_folder, const std::string& what) const {
  for (const auto& [flag, is_given] : {std::pair("--skip-bad", skip_bad),
                                       {"--allow-empty", allow_empty},
                                       {"--exif-orientation", exif_orientation}}) {
    if (is_given && !has_folder) return BadUsage(absl::StrCat(flag, " needs ", what));
  }
  return absl::OkStatus();
}

}  // namespace neap::apps
