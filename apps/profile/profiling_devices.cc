#include "apps/profile/profiling_devices.h"

#include <mutex>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "apps/cli/kernel_flags.h"
#include "apps/profile/profiled_net.h"
#include "neap/core/base/status_macros.h"
#include "neap/layers/profile/profile_shares.h"
#include "neap/layers/profile/profile_steps.h"

namespace neap::apps {
namespace {

void Add(const ProfileWork& more, ProfileWork& sum) {
  sum.steps += more.steps;
  sum.steps_done += more.steps_done;
  sum.measured += more.measured;
  sum.known += more.known;
  sum.failed += more.failed;
  sum.left_out += more.left_out;
  if (more.wide_spreads.has_value())
    sum.wide_spreads = sum.wide_spreads.value_or(0) + *more.wide_spreads;
}

ProfileWork WorkOf(const Profiler& profiler, const ProfileOptions& options) {
  ProfileWork work = {.steps = profiler.total(),
                      .steps_done = profiler.done(),
                      .measured = profiler.measured(),
                      .known = profiler.known(),
                      .failed = profiler.failed(),
                      .left_out = profiler.left_out()};
  if (options.samples > 1) work.wide_spreads = profiler.wide_spreads();
  return work;
}

// The work that the threads have done so far, and whether they go on. *Threads*: any.
class SharedWork {
 public:
  SharedWork(const ProfilingDevices::OnProgress& on_progress,
             const std::vector<std::vector<StepSignature>>& shares)
      : on_progress_(on_progress) {
    for (const auto& share : shares) works_.push_back({.steps = std::ssize(share)});
  }

  // Returns whether the device goes on.
  bool Report(size_t device, const ProfileWork& work) {
    const std::lock_guard lock(mutex_);
    works_[device] = work;
    if (on_progress_ != nullptr && !on_progress_(SumLocked())) stops_ = true;
    return !stops_;
  }
  void Stop() {
    const std::lock_guard lock(mutex_);
    stops_ = true;
  }
  ProfileWork Sum() {
    const std::lock_guard lock(mutex_);
    return SumLocked();
  }

 private:
  ProfileWork SumLocked() const {
    ProfileWork sum;
    for (const ProfileWork& work : works_) Add(work, sum);
    return sum;
  }

  const ProfilingDevices::OnProgress& on_progress_;
  std::mutex mutex_;
  std::vector<ProfileWork> works_;  // by device; guarded by mutex_, as is what follows
  bool stops_ = false;
};

// One device's part of the work.
absl::Status MeasureShare(Profiler& profiler, const ProfileOptions& options, size_t device,
                          SharedWork& shared) {
  const auto report = [&] { return shared.Report(device, WorkOf(profiler, options)); };
  absl::Status status;
  while (status.ok() && profiler.done() < profiler.total()) status = profiler.MeasureNext(report);
  report();
  return absl::IsCancelled(status) ? absl::OkStatus() : status;
}

}  // namespace

absl::StatusOr<ProfilingDevices> ProfilingDevices::Open(const std::vector<std::string>& names,
                                                        const DeviceChoices& choices,
                                                        const std::string& database) {
  std::vector<Member> members;
  for (const std::string& name : names) {
    ASSIGN_OR_RETURN(std::unique_ptr<Device> device, OpenDevice(name, choices));
    ASSIGN_OR_RETURN(ProfileDatabase times,
                     OpenProfile(database, device->description(), device->backend()));
    members.push_back({name, std::move(device), std::move(times)});
  }
  return Of(std::move(members));
}

absl::StatusOr<ProfilingDevices> ProfilingDevices::Of(std::vector<Member> members) {
  const ProfiledDevice& first = members.front().database.device();
  for (const Member& member : members) {
    const ProfiledDevice& own = member.database.device();
    if (own.name == first.name && own.versions == first.versions) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "devices can share the times of kernels only if they are equal, but ", members.front().name,
        " is ", first.name, " (", first.versions, ") and ", member.name, " is ", own.name, " (",
        own.versions, "); profile them one after the other"));
  }
  return ProfilingDevices(std::move(members));
}

absl::StatusOr<std::vector<std::vector<StepSignature>>> ProfilingDevices::Divide(
    const std::vector<Program>& programs, const ProfileOptions& options) {
  Member& first = members_.front();
  ASSIGN_OR_RETURN(std::vector<StepSignature> kernels,
                   WithParts(KernelsOfAll(programs), options.divisions, first.device->backend()));
  std::vector<std::vector<StepSignature>> shares;
  if (members_.size() == 1) {
    shares.push_back(std::move(kernels));
    return shares;
  }
  MeasuringTime seconds(programs, options, *first.device, first.database);
  return DivideKernels(
      kernels, [&](const StepSignature& kernel) { return seconds.Of(kernel); },
      std::ssize(members_));
}

absl::StatusOr<ProfileWork> ProfilingDevices::Measure(const std::vector<Program>& programs,
                                                      const ProfileOptions& options,
                                                      const OnProgress& on_progress) {
  ASSIGN_OR_RETURN(const std::vector<std::vector<StepSignature>> shares, Divide(programs, options));
  const std::vector<StepSignature> steps = KernelsOfAll(programs);
  SharedWork shared(on_progress, shares);
  std::vector<absl::Status> statuses(members_.size());
  const auto measure = [&](size_t i) {
    if (shares[i].empty()) return;
    absl::StatusOr<Profiler> profiler = Profiler::CreateForShare(
        steps, shares[i], options, *members_[i].device, members_[i].database);
    statuses[i] = profiler.ok() ? MeasureShare(*profiler, options, i, shared) : profiler.status();
    if (!statuses[i].ok()) shared.Stop();
  };
  std::vector<std::jthread> threads;
  for (size_t i = 1; i < members_.size(); ++i) threads.emplace_back(measure, i);
  measure(0);
  threads.clear();  // waits for them
  for (size_t i = 0; i < members_.size(); ++i) {
    if (statuses[i].ok()) continue;
    if (members_.size() == 1) return statuses[i];
    return absl::Status(statuses[i].code(),
                        absl::StrCat(members_[i].name, ": ", statuses[i].message()));
  }
  return shared.Sum();
}

}  // namespace neap::apps
