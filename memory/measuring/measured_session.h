// A session that first measures the kernels on which its plan depends.
//
// CreateSession() (memory/create_session.h) plans by the times that it is given, and without any by
// those of a model (core/plan/cost_model.h). This reads the times of a profile database and those
// that come with the library (layers/profile/installed_timings.h), measures for some seconds what
// they lack (memory/measuring/measure_kernels.h), and then creates the session, whose first plan is
// that of `neap train`. Times are kept, so the next session of the network measures nothing.
//
//   // On a GPU at most 10 s, into the default database; on a CPU this is CreateSession().
//   ASSIGN_OR_RETURN(Session session,
//                    CreateMeasuredSession(net, *device, {.budget_bytes = 12 * kGiB}));
//
// It is a function of its own, because the planner (memory/) is below what measures for it.
#pragma once

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "neap/core/device/device.h"
#include "neap/core/graph/graph.h"
#include "neap/core/run/session.h"
#include "neap/memory/measuring/measure_kernels.h"
#include "neap/memory/planner_options.h"

namespace neap {

struct SessionMeasuring {
  double seconds = kDefaultMeasuringSeconds;  // at most; 0: times are read, but none is measured
  std::string database = {};  // a file, created if it is missing; empty: DefaultProfilePath()
  // Called after each kernel; measuring ends if it returns false.
  std::function<bool(const MeasuringReport&)> on_progress = nullptr;
  // Called with what the user should know: why the default database is not used, or what is wrong
  // with a database's rows. That is no error, because times are only advice.
  std::function<void(const std::string&)> on_notice = nullptr;
  MeasuringReport* report = nullptr;  // filled in at the end. *Ownership*: borrowed
};

// Session::Create() with a planner of these options that knows these times. Where a plan
// does not depend on these, on the CPU and in strict mode, and where `planning` has times of its
// own, it is CreateSession(), and no database is opened. The memory that measuring takes is freed
// before the session reserves its arena. With a communicator, all ranks call this with the same
// options; they measure different kernels and share the times, or none measures if one of them has
// no database. Errors: those of CreateSession() and MeasureKernels(); those of
// ProfileDatabase::Open() for a database that is named.
absl::StatusOr<Session> CreateMeasuredSession(const Graph& graph, Device& device,
                                              PlannerOptions planning,
                                              const TrainingOptions& training = {},
                                              const SessionMeasuring& measuring = {});

}  // namespace neap
