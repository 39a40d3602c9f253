#include "apps/peak/find_peak.h"

#include "apps/peak/sized_programs.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/plan/planner.h"

namespace neap::apps {
namespace {

// Two sub-batches may allow less than the whole batch does, because gradients are then in memory
// between the parts, and eight may allow more: the search ends after so many numbers of sub-batches
// in a row without a gain.
constexpr int kMaxMisses = 3;

// Replaces `best` and `chosen` if parameters on the host allow a larger size. Adds the search to
// `searches`.
absl::Status GrowOffloaded(const PeakCase& peak, ProgramChoice& chosen, PeakResult& best,
                           PeakSearch& searches) {
  ASSIGN_OR_RETURN(const bool may_offload, PeakFinder(peak, chosen).MayOffload());
  if (!may_offload) return absl::OkStatus();
  ProgramChoice offloaded = chosen;
  offloaded.offload_params = true;
  const PeakFinder finder(peak, offloaded);
  const int64_t next = best.search.largest + 1;
  if (next > peak.growth.most) return absl::OkStatus();
  ASSIGN_OR_RETURN(const bool reaches_more, finder.Reaches(next));
  if (!reaches_more) return absl::OkStatus();
  ASSIGN_OR_RETURN(best, finder.Find(next));
  searches = After(searches, best.search);
  chosen = offloaded;
  return absl::OkStatus();
}

// The flags with the network of a file, which is then read once and not for every size.
absl::StatusOr<PeakFlags> WithFileRead(PeakFlags flags, const std::string& net) {
  NetFlags file = flags.net;
  file.name = net;
  if (file.graph.has_value() || file.File().path.empty()) return flags;
  file.options.batch = 1;
  ASSIGN_OR_RETURN(flags.net.graph, file.Build());
  return flags;
}

// The search with more and more sub-batches. Replaces `best` and `chosen` if a number of them
// allows a larger size, and adds the searches to `searches`.
absl::Status GrowInParts(const PeakCase& peak, ProgramChoice& chosen, PeakResult& best,
                         PeakSearch& searches) {
  int misses = 0;
  for (int64_t count = 2; misses < kMaxMisses; count *= 2) {
    ProgramChoice choice = chosen;
    choice.sub_batches = count;
    const PeakFinder finder(peak, choice);
    ASSIGN_OR_RETURN(const bool may_split, finder.MaySplit());
    if (!may_split) break;
    const int64_t before = searches.largest;
    ASSIGN_OR_RETURN(const PeakSearch search, finder.Grow(before));
    searches = After(searches, search);
    if (searches.largest == before) {
      ++misses;
    } else {
      chosen.sub_batches = count;
      misses = 0;
    }
  }
  if (searches.largest == best.search.largest) return absl::OkStatus();
  ASSIGN_OR_RETURN(best, PeakFinder(peak, chosen).Find(searches.largest));
  searches = After(searches, best.search);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<PeakResult> FindPeak(const PeakFlags& given, const PlanTarget& target,
                                    const Growth& asked, const std::string& net) {
  ASSIGN_OR_RETURN(const PeakFlags flags, WithFileRead(given, net));
  ProgramChoice chosen = flags.planning.AskedProgram();
  Growth growth = asked;
  PeakEffort effort;
  const PeakCase peak = {flags, target, growth, net, effort};
  growth.least = PeakFinder(peak, chosen).Least();
  ASSIGN_OR_RETURN(PeakResult best, PeakFinder(peak, chosen).Find(0));
  PeakSearch searches = best.search;
  RETURN_IF_ERROR(GrowInParts(peak, chosen, best, searches));
  RETURN_IF_ERROR(GrowOffloaded(peak, chosen, best, searches));
  best.search.elapsed_ms = searches.elapsed_ms;
  const PeakFinder finder(peak, chosen);
  RETURN_IF_ERROR(finder.Complete(best));
  if (flags.run) RETURN_IF_ERROR(finder.Confirm(best));
  best.effort = effort;
  return best;
}

}  // namespace neap::apps
