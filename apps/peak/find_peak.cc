#include "apps/peak/find_peak.h"

#include "neap/core/base/status_macros.h"
#include "neap/memory/program_choice.h"

namespace neap::apps {
namespace {

// Two sub-batches may allow less than the whole batch does, because gradients are then in memory
// between the parts, and eight may allow more: the search ends after so many numbers of sub-batches
// in a row without a gain.
constexpr int kMaxMisses = 3;

// Replaces `best` and `chosen` if parameters on the host allow a larger size. Adds the search to
// `searches`.
absl::Status GrowOffloaded(const PeakFlags& flags, const PlanTarget& target, const Growth& growth,
                           const std::string& net, ProgramChoice& chosen, PeakResult& best,
                           PeakSearch& searches) {
  ASSIGN_OR_RETURN(const bool may_offload,
                   PeakFinder(flags, target, growth, chosen).MayOffload(net));
  if (!may_offload) return absl::OkStatus();
  ProgramChoice offloaded = chosen;
  offloaded.offload_params = true;
  const PeakFinder finder(flags, target, growth, offloaded);
  const int64_t next = best.search.largest + 1;
  if (next > growth.most) return absl::OkStatus();
  ASSIGN_OR_RETURN(const bool reaches_more, finder.Reaches(net, next));
  if (!reaches_more) return absl::OkStatus();
  ASSIGN_OR_RETURN(best, finder.Find(net, next));
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

}  // namespace

absl::StatusOr<PeakResult> FindPeak(const PeakFlags& given, const PlanTarget& target,
                                    const Growth& asked, const std::string& net) {
  ASSIGN_OR_RETURN(const PeakFlags flags, WithFileRead(given, net));
  ProgramChoice chosen = flags.planning.AskedProgram();
  Growth growth = asked;
  growth.least = PeakFinder(flags, target, asked, chosen).Least(net);
  ASSIGN_OR_RETURN(PeakResult best, PeakFinder(flags, target, growth, chosen).Find(net, 0));
  PeakSearch grown = best.search;
  int misses = 0;
  for (int64_t count = 2; misses < kMaxMisses; count *= 2) {
    ProgramChoice choice = chosen;
    choice.sub_batches = count;
    const PeakFinder finder(flags, target, growth, choice);
    ASSIGN_OR_RETURN(const bool may_split, finder.MaySplit(net));
    if (!may_split) break;
    const int64_t before = grown.largest;
    ASSIGN_OR_RETURN(const PeakSearch search, finder.Grow(net, before));
    grown = After(grown, search);
    if (grown.largest == before) {
      ++misses;
    } else {
      chosen.sub_batches = count;
      misses = 0;
    }
  }
  if (grown.largest > best.search.largest) {
    ASSIGN_OR_RETURN(best, PeakFinder(flags, target, growth, chosen).Find(net, grown.largest));
    grown = After(grown, best.search);
  }
  RETURN_IF_ERROR(GrowOffloaded(flags, target, growth, net, chosen, best, grown));
  best.search.probes = grown.probes;
  best.search.elapsed_ms = grown.elapsed_ms;
  if (flags.run) RETURN_IF_ERROR(PeakFinder(flags, target, growth, chosen).Confirm(net, best));
  return best;
}

}  // namespace neap::apps
