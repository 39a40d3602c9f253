#include "neap/memory/measuring/measured_session.h"

#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/run/ranks.h"
#include "neap/core/run/session/lower_session.h"
#include "neap/layers/profile/installed_timings.h"
#include "neap/layers/profile/profile_database.h"
#include "neap/layers/profile/profiled_timings.h"
#include "neap/memory/create_session.h"
#include "neap/memory/known_plan.h"
#include "neap/memory/planner.h"

namespace neap {
namespace {

class Preparation {
 public:
  Preparation(const Graph& graph, Device& device, const TrainingOptions& training,
              const SessionMeasuring& measuring)
      : graph_(graph), device_(device), training_(training), measuring_(measuring) {}

  // A planner by the times, the measured ones included. To be called by all ranks.
  absl::StatusOr<std::shared_ptr<const Planner>> MakePlanner(PlannerOptions planning) {
    absl::Status own = measuring_.seconds > 0 ? Measure(planning) : absl::OkStatus();
    if (own.ok()) own = ReadTimes(planning);
    RETURN_IF_ERROR(Agree(own, {}, training_.communicator));
    const PlanRequest request = {.budget_bytes = planning.budget_bytes};
    std::shared_ptr<const Planner> planner = PlannerFor(std::move(planning));
    if (!chosen_.has_value()) return planner;
    return WithKnownPlan(std::move(planner), request, *std::move(chosen_));
  }

 private:
  absl::StatusOr<std::string> Path() const {
    if (!measuring_.database.empty()) return measuring_.database;
    return DefaultProfilePath();
  }
  ProfiledDevice Profiled() const {
    return {.name = device_.description().name, .versions = device_.backend().Versions()};
  }
  absl::StatusOr<ProfileDatabase> Open() const {
    ASSIGN_OR_RETURN(const std::string path, Path());
    return ProfileDatabase::Open(path, Profiled());
  }
  void Note(const std::string& text) const {
    if (measuring_.on_notice != nullptr) measuring_.on_notice(text);
  }
  // The error of a database that the caller named; a notice for the default one.
  absl::Status Unusable(const char* consequence, const absl::Status& error) const {
    if (!measuring_.database.empty()) return error;
    Note(absl::StrCat(consequence, ": ", error.message()));
    return absl::OkStatus();
  }

  absl::Status Measure(const PlannerOptions& planning) {
    absl::StatusOr<ProfileDatabase> database = Open();
    ASSIGN_OR_RETURN(const std::string reason,
                     ReasonNotToMeasure(database.status(), training_.communicator));
    if (!reason.empty()) {
      return Unusable("kernels are not measured",
                      database.ok() ? absl::FailedPreconditionError(reason) : database.status());
    }
    ASSIGN_OR_RETURN(const RankShare share,
                     ShareOf(graph_.options().batch, training_.communicator));
    const auto lower = [&](const ProgramChoice& choice) {
      return LowerChosen(graph_, training_, share, device_.description(), choice);
    };
    const MeasuringOptions options = {.seconds = measuring_.seconds,
                                      .with_installed_times = true,
                                      .on_progress = measuring_.on_progress,
                                      .ranks = training_.communicator};
    ASSIGN_OR_RETURN(MeasuringReport report,
                     MeasureKernels(lower, planning, {.budget_bytes = planning.budget_bytes},
                                    device_, *database, options));
    chosen_ = std::exchange(report.chosen, std::nullopt);
    if (measuring_.report != nullptr) *measuring_.report = report;
    for (const std::string& notice : database->notices()) Note(notice);
    return absl::OkStatus();
  }

  // The database's times, and those that come with the library.
  absl::Status ReadTimes(PlannerOptions& planning) const {
    RETURN_IF_ERROR(ReadDatabase(planning));
    planning.kernels.timings =
        WithInstalledTimings(std::move(planning.kernels.timings), Profiled());
    return absl::OkStatus();
  }

  absl::Status ReadDatabase(PlannerOptions& planning) const {
    const absl::StatusOr<std::string> path = Path();
    if (!path.ok()) return absl::OkStatus();  // noted already, or there is nothing to read
    absl::StatusOr<ProfileDatabase> database = ProfileDatabase::OpenToRead(*path, Profiled());
    if (absl::IsNotFound(database.status()) && measuring_.database.empty()) return absl::OkStatus();
    if (!database.ok()) return Unusable("planning without measured times", database.status());
    // The session's planner outlives `measuring_`.
    const auto note = [on_notice = measuring_.on_notice](const absl::Status& error) {
      if (on_notice != nullptr) on_notice(std::string(error.message()));
    };
    planning.kernels.timings = std::make_shared<ProfiledTimings>(*std::move(database), note);
    return absl::OkStatus();
  }

  const Graph& graph_;
  Device& device_;
  const TrainingOptions& training_;
  const SessionMeasuring& measuring_;
  std::optional<ChosenProgram> chosen_;  // by measuring, if its last plan is the session's
};

}  // namespace

absl::StatusOr<Session> CreateMeasuredSession(const Graph& graph, Device& device,
                                              PlannerOptions planning,
                                              const TrainingOptions& training,
                                              const SessionMeasuring& measuring) {
  const bool depends_on_times = device.description().kind != "cpu" && !planning.strict;
  if (!depends_on_times || planning.kernels.timings != nullptr)
    return CreateSession(graph, device, std::move(planning), training);
  ASSIGN_OR_RETURN(std::shared_ptr<const Planner> planner,
                   Preparation(graph, device, training, measuring).MakePlanner(planning));
  return Session::Create(graph, device, std::move(planner), training);
}

}  // namespace neap
