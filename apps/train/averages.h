// Work that is done with the averages of a session's parameters instead of the parameters.
#pragma once

#include "absl/status/status.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/run/session.h"

namespace neap::apps {

// Calls `action`, which returns a Status or a StatusOr, while the averages are in the parameters'
// place, if the session keeps any. Errors: those of Session::ExchangeAverages() and of `action`.
template <typename Action>
auto WithAverages(Session& session, const Action& action) -> decltype(action()) {
  if (!session.keeps_averages()) return action();
  RETURN_IF_ERROR(session.ExchangeAverages());
  auto result = action();
  const absl::Status back = session.ExchangeAverages();
  if (result.ok()) RETURN_IF_ERROR(back);
  return result;
}

}  // namespace neap::apps
