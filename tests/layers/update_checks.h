// The optimizer's steps for the parameters of many layers at once: the same checks for every
// backend.
#pragma once

#include "tests/layers/harness.h"

namespace neap::testing {

// An update of more tensors than one launch takes, of sizes from one element to several blocks,
// some with a master: each has the bits of an update of that tensor alone.
void CheckManyUpdates(Backend& backend, const DeviceAccess& access);
// A gradient that is not finite is found in every one of many tensors.
void CheckManyGradients(Backend& backend, const DeviceAccess& access);
// With a scaled loss, an update is that of the gradients without the scale, and skipped steps are
// not counted; after an overflow it changes nothing but rounded parameters.
void CheckScaledUpdates(Backend& backend, const DeviceAccess& access);
// The norm of all gradients is right, and its bits do not depend on how they are grouped.
void CheckGradientNorm(Backend& backend, const DeviceAccess& access);
// States are kept after a good step, and restored after an overflow, which changes no parameter.
void CheckManyStates(Backend& backend, const DeviceAccess& access);

}  // namespace neap::testing
