// What losses make of labels that are not classes, and of targets that are none: the same checks
// for every backend.
#pragma once

#include "tests/layers/harness.h"

namespace neap::testing {

// A label outside the classes makes the loss NaN, and leaves the count of the others right.
void CheckLabelsOutsideClasses(Backend& backend, const DeviceAccess& access);
// An image without a label adds nothing to the loss and is not correct.
void CheckImagesWithoutLabels(Backend& backend, const DeviceAccess& access);
// An element without a target adds nothing to the loss and has no gradient, and an image without
// any is not correct. Predictions of any size have a finite binary cross-entropy.
void CheckElementsWithoutTargets(Backend& backend, const DeviceAccess& access);
// The gradient of focal loss is finite for predictions that are as good as certain, whatever gamma.
void CheckCertainFocalLoss(Backend& backend, const DeviceAccess& access);

// Dice leaves out positions without a label, and an image without any. A label outside the classes
// makes it NaN.
void CheckDiceOfKnownLabels(Backend& backend, const DeviceAccess& access);

}  // namespace neap::testing
