// Dynamic loss scaling, with which fp16 trains: its smallest number, 6e-8, is larger than many
// gradients.
//
// The loss multiplies the gradient that it computes by `scale`, so every gradient is a multiple by
// that factor, and the update divides by it. The largest scale that does not make a gradient
// overflow is found by trying: the scale doubles after kGrowthInterval steps without an overflow,
// and is halved after a step with one. Such a step changes no parameter, no moment and no running
// statistic. All of this happens on the device, without waiting for it:
//
//   step                          reads                  accumulates           writes
//   loss backward_data            ..., loss_scale                              dx
//   check_gradients (each group)  param_grad 0..n-1      loss_scale
//   update (each group)           ..., loss_scale        ..., state, backup
//   update_scale (once)                                  loss_scale
//
// A group is one layer or several (core/program/update_groups.h). A check sets `overflow` if a
// gradient is not finite. All checks come before the first update, so the gradients of all
// parameters exist at the same time. Forward changes running statistics before it is known whether
// the step is skipped, so each has a backup: the update copies the state to its backup, or the
// backup to the state if the step is skipped.
//
// (Micikevicius et al., "Mixed Precision Training", ICLR 2018, section 3.2, and PyTorch's
// GradScaler.) The values are floats, so checkpoints store them like any other tensor; counts are
// exact up to 2^24.
#pragma once

#include <cstdint>

namespace neap {

struct LossScale {
  float scale = kInitial;
  float good_steps = 0;  // since the scale changed
  float overflow = 0;    // 1 if a gradient of this iteration is not finite
  float skipped = 0;     // steps, over the whole training

  static constexpr float kInitial = 65536, kMin = 1, kMax = 16777216;
  static constexpr float kGrowthInterval = 2000;  // steps, as in PyTorch

  // Applies the rule of update_scale. GPU code calls it too.
  constexpr void Advance() {
    if (overflow != 0) {
      scale = scale / 2 < kMin ? kMin : scale / 2;
      skipped += 1;
      good_steps = overflow = 0;
    } else if (++good_steps == kGrowthInterval) {
      scale = scale * 2 > kMax ? kMax : scale * 2;
      good_steps = 0;
    }
  }
};
inline constexpr int64_t kLossScaleValues = 4;
static_assert(sizeof(LossScale) == kLossScaleValues * sizeof(float));

}  // namespace neap
