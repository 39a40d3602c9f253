#include "neap/core/run/session/budget_change.h"

#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/base/without_throwing.h"

namespace neap {
namespace {

// An exception must not leave the thread.
absl::StatusOr<SessionPlans> PlanOnThread(SessionPlanner& planner, const SessionPrograms& programs,
                                          int64_t budget_bytes) {
  return WithoutThrowing("the planner", [&] { return planner.PlanAll(programs, budget_bytes); });
}

}  // namespace

BudgetChange::~BudgetChange() {
  Drop();
  if (thread_.joinable()) thread_.join();
}

absl::Status BudgetChange::Start(int64_t budget_bytes, SessionPrograms programs) {
  const std::lock_guard lock(mutex_);
  if (!is_running_) RETURN_IF_ERROR(StartThread());
  request_ = Request{budget_bytes, std::move(programs)};
  is_wanted_ = true;
  result_.reset();
  return absl::OkStatus();
}

// The thread waits for the mutex, which the caller holds until there is a request.
absl::Status BudgetChange::StartThread() {
  if (thread_.joinable()) thread_.join();
  try {
    thread_ = std::thread([this] { Run(); });
  } catch (const std::system_error& error) {
    return absl::ResourceExhaustedError(
        absl::StrCat("cannot start the planning thread: ", error.what()));
  }
  is_running_ = true;
  return absl::OkStatus();
}

void BudgetChange::Drop() {
  const std::lock_guard lock(mutex_);
  request_.reset();
  is_wanted_ = false;
  result_.reset();
}

std::optional<BudgetChange::Planned> BudgetChange::Take() {
  const std::lock_guard lock(mutex_);
  return TakeResult();
}

std::optional<BudgetChange::Planned> BudgetChange::Await() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !is_wanted_ || result_.has_value(); });
  return TakeResult();
}

std::optional<BudgetChange::Planned> BudgetChange::TakeResult() {
  if (result_.has_value()) is_wanted_ = false;
  return std::exchange(result_, std::nullopt);
}

bool BudgetChange::is_pending() const {
  const std::lock_guard lock(mutex_);
  return is_wanted_ && !(result_.has_value() && !result_->plans.ok());
}

void BudgetChange::Run() {
  std::unique_lock lock(mutex_);
  while (request_.has_value()) {
    const Request request = *std::exchange(request_, std::nullopt);
    lock.unlock();
    absl::StatusOr<SessionPlans> plans =
        PlanOnThread(planner_, request.programs, request.budget_bytes);
    lock.lock();
    const bool is_last = is_wanted_ && !request_.has_value();
    if (is_last) result_ = Planned{request.budget_bytes, std::move(plans)};
  }
  is_running_ = false;
  lock.unlock();
  changed_.notify_all();
}

}  // namespace neap
