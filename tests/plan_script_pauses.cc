// The valid hand-written plans of tests/plan_script.h that pause.
#include "tests/plan_script.h"

namespace neap {

const char* const kPausePlan = R"(
  batch 4 budget 9 arena 9 peak 7 activations 2048 host 0
  tensor w param 1024
  tensor m state 1000
  tensor x input 2048
  tensor y activation 1024
  tensor dy gradient 1024
  tensor dw param_grad 1024
  step fc forward reads x w writes y accumulates m
  step caller pause reads y writes dy in_place dy/y
  step fc backward_params reads x dy writes dw
  step fc update reads dw accumulates w

  alloc w 0
  alloc m 1
  alloc x 2
  alloc y 4
  run fc forward
  alloc dy 5
  run caller pause
  free y
  alloc dw 6
  run fc backward_params
  free x
  free dy
  run fc update
  free dw
)";

const char* const kResidentPausePlan = R"(
  batch 4 budget 9 arena 9 peak 5 activations 2048 host 1 host_pool 1 resident 1
  tensor m state 1024 on_host 0
  tensor x input 1024
  tensor y activation 1024
  tensor dy gradient 1024
  step fc forward reads x writes y accumulates m
  step caller pause reads y writes dy
  step fc backward_data reads dy

  alloc m 1
  back: prefetch m
  alloc x 2
  alloc y 3
  wait compute back
  forward: run fc forward
  wait d2h forward
  offload m 0
  free m
  alloc dy 4
  run caller pause
  free y
  run fc backward_data
  free x
  free dy
)";

}  // namespace neap
