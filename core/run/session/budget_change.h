// Plans for another budget, made on a thread of their own while training goes on. Private to the
// session.
//
// The session asks between its steps whether the plans are ready, and never waits for the planner,
// which cannot be interrupted. A later request therefore replaces an earlier one: the result of the
// earlier one is discarded when the planner returns it, and then the later one is planned.
//
//   session's thread    Start(8 GiB)   Start(6 GiB)                      Take() -> plans for 6 GiB
//   planning thread     |- plans 8 GiB --------|- plans 6 GiB --------|
//                                               8 GiB is discarded
//
//   BudgetChange change(planner);
//   RETURN_IF_ERROR(change.Start(6 * kGiB, {{training}, inference}));
//   if (std::optional<BudgetChange::Planned> planned = change.Take()) planned->plans.status();
//
// *Threads*: the public functions one at a time. *Ownership*: borrows the planner.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "neap/core/run/session/session_planner.h"

namespace neap {

class BudgetChange {
 public:
  explicit BudgetChange(SessionPlanner& planner) : planner_(planner) {}
  // Waits for the planner to return.
  ~BudgetChange();
  BudgetChange(const BudgetChange&) = delete;
  BudgetChange& operator=(const BudgetChange&) = delete;

  // Replaces the request before. Errors: RESOURCE_EXHAUSTED if the system refuses the thread; the
  // request before is kept then.
  absl::Status Start(int64_t budget_bytes, SessionPrograms programs);
  void Drop();

  struct Planned {
    int64_t budget_bytes = 0;
    absl::StatusOr<SessionPlans> plans;
  };
  // The result of the last request, once; nullopt if there is none, or not yet.
  std::optional<Planned> Take();
  // Like Take(), but waits for the result; nullopt only if nothing was requested, or its result was
  // taken.
  std::optional<Planned> Await();
  // True from Start() until the result is taken, unless it is an error.
  bool is_pending() const;

 private:
  struct Request {
    int64_t budget_bytes = 0;
    SessionPrograms programs;
  };
  void Run();
  absl::Status StartThread();
  std::optional<Planned> TakeResult();

  SessionPlanner& planner_;
  mutable std::mutex mutex_;  // guards the members below, except the thread
  std::condition_variable changed_;
  std::optional<Request> request_;  // the planner has not begun with it
  bool is_wanted_ = false;          // the result of the last request has yet to be taken
  bool is_running_ = false;         // the thread has not ended
  std::optional<Planned> result_;
  std::thread thread_;
};

}  // namespace neap
