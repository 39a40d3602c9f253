// Steps, evaluation and prediction of neap.Session, and what they return.
#pragma once

#include <nanobind/nanobind.h>

#include "apps/python/held_session.h"

namespace neap::python {

// StepResult, LossResult and MemoryUse.
void BindStepResults(nanobind::module_& module);
void BindSteps(nanobind::class_<HeldSession>& session);

}  // namespace neap::python
