// Training on images that a session borrows, on the host or in its device's memory.
#pragma once

#include "neap/core/device/device.h"

namespace neap {

// For a device that runs every layer of SmallNet(): the same losses and bits as from batches that
// own their images, with two steps in flight, copied ahead or not, in both layouts and in parts.
void CheckBorrowedBatches(Device& device);

}  // namespace neap
