// The valid hand-written plans of tests/plan_script.h.
#include "tests/plan_script.h"

namespace neap {

const char* const kPlainPlan = R"(
  batch 4 budget 9 arena 9 peak 8 activations 3000 host 0
  tensor w param 1024
  tensor m state 1000
  tensor x input 2048
  tensor y activation 1500
  tensor g gradient 1500
  tensor dw param_grad 1024
  step conv forward reads x w writes y accumulates m
  step loss forward reads y writes g
  step conv backward_params reads x g writes dw
  step conv update reads dw accumulates w

  alloc w 0
  alloc m 1
  alloc x 2
  alloc y 4
  run conv forward workspace 6 2 engines a:3 b:1
  alloc g 6
  run loss forward
  free y
  alloc dw 4
  run conv backward_params workspace 5 1
  free x
  free g
  run conv update
  free dw
)";

const char* const kIncomingPlan = R"(
  batch 4 budget 12 arena 12 peak 11 activations 1500 host 0 incoming 8 3
  tensor w param 1024
  tensor x input 2048
  tensor l label 16
  tensor y activation 1500
  step conv forward reads x w writes y
  step loss forward reads y l
  step conv update reads x accumulates w

  alloc w 0
  alloc x 1
  alloc l 3
  alloc y 4
  run conv forward workspace 6 2
  run loss forward
  free l
  free y
  run conv update
  free x
)";

const char* const kInPlacePlan = R"(
  batch 1 budget 6 arena 6 peak 6 activations 4000 host 0
  tensor m state 4
  tensor x input 1024
  tensor a activation 4000
  tensor b activation 4000
  tensor c activation 4000
  step conv forward reads x writes a
  step bn forward reads a writes b in_place b/a
  step relu forward reads b writes c in_place c/b
  step loss forward reads c accumulates m

  alloc m 0
  alloc x 1
  alloc a 2
  run conv forward
  free x
  alloc b 2
  run bn forward
  free a
  alloc c 2
  run relu forward
  free b
  run loss forward
  free c
)";

const char* const kTransferPlan = R"(
  batch 1 budget 6 arena 6 peak 6 activations 4096 host 2 host_pool 2
  tensor m state 4
  tensor x input 1024
  tensor a activation 2048
  tensor b activation 2048
  tensor c activation 2048
  tensor g gradient 2048
  step f1 forward reads x writes a
  step f2 forward reads a writes b
  step f3 forward reads b writes c
  step f3 backward_data reads c writes g
  step f2 backward_params reads a g accumulates m

  alloc m 0
  alloc x 1
  alloc a 2
  made: run f1 forward
  wait d2h made
  out: offload a 0
  alloc b 4
  run f2 forward
  free a
  wait compute out         # c reuses the bytes that the offload reads
  alloc c 2
  run f3 forward
  free b
  alloc g 4
  read: run f3 backward_data
  free c
  alloc a 2
  wait h2d read            # a reuses c's bytes; this implies that the offload has ended
  in: prefetch a
  wait compute in
  run f2 backward_params
  free a
  free g
  free x
)";

const char* const kRecomputePlan = R"(
  batch 1 budget 8 arena 8 peak 8 activations 4104 host 0
  tensor r state 8
  tensor x input 2048
  tensor y activation 2048
  tensor s saved 8
  tensor z activation 2048
  tensor g gradient 2048
  step bn forward reads x writes y s accumulates r rerun x s
  step f forward reads y writes z
  step f backward_data reads z writes g
  step f backward_params reads g y accumulates r

  alloc r 0
  alloc x 1
  alloc s 3
  alloc y 4
  run bn forward
  alloc z 6
  run f forward
  free y
  alloc g 4
  run f backward_data
  free z
  alloc y 6
  rerun bn
  run f backward_params
  free y
  free g
  free s
  free x
)";

const char* const kPersistentTransferPlan = R"(
  batch 1 budget 5 arena 5 peak 5 activations 4096 host 1 host_pool 1
  tensor w param 1024
  tensor x input 1024
  tensor y activation 1024
  tensor z activation 3072
  tensor dw param_grad 1024
  step fc forward reads x w writes y
  step big forward reads y writes z
  step fc backward_params reads x z writes dw
  step fc update reads dw accumulates w

  alloc w 2
  alloc x 0
  out: offload w 0
  alloc y 1
  run fc forward
  free w
  wait compute out
  alloc z 2                # where w was
  run big forward
  free y
  alloc dw 1
  last: run fc backward_params
  free z
  alloc w 2
  wait h2d last
  in: prefetch w
  wait compute in
  run fc update
  free x
  free dw
)";

const char* const kPoolsPlan = R"(
  batch 1 budget 5 arena 5 peak 5 activations 1024 host 3 host_pool 3 peer 1 peer_pool 2
  tensor m state 4
  tensor x input 2048
  tensor y input 1024
  tensor l label 4
  tensor z activation 1024
  step f forward reads x writes z
  step g forward accumulates m
  step h forward reads x y z accumulates m

  alloc m 0
  alloc x 1
  alloc y 3
  alloc l 4                # no step reads it
  sent: offload l peer 1
  free l
  left: offload y 0
  free y
  wait compute sent
  alloc z 4
  made: run f forward
  wait d2h made
  offload z 2
  free z
  alloc y 3
  wait h2d left
  back: prefetch y
  wait d2h back
  away: offload x 0        # to the bytes of the pool where the copy of y was
  free x
  wait compute away
  used: run g forward workspace 1 1
  alloc x 1
  alloc z 4
  wait h2d used
  prefetch x
  in: prefetch z
  wait compute in
  run h forward
  free x
  free y
  free z
)";

const char* const kResidentPlan = R"(
  batch 1 budget 3 arena 3 peak 3 activations 1024 host 3 host_pool 3 resident 2
  tensor w param 1024 on_host 1
  tensor v param 1024 on_host 0
  tensor x input 1024
  tensor y activation 1024
  tensor dw param_grad 1024
  step fc forward reads x w writes y
  step fc backward_params reads x y writes dw
  step fc update reads dw accumulates w

  alloc x 0
  alloc w 1
  in: prefetch w
  alloc y 2
  wait compute in
  made: run fc forward
  free w
  wait d2h made
  out: offload y 2
  free y
  alloc y 2
  wait h2d out
  back: prefetch y
  alloc dw 1
  wait compute back
  used: run fc backward_params
  free x
  free y
  alloc w 0
  wait h2d used
  again: prefetch w
  wait compute again
  done: run fc update
  free dw
  wait d2h done
  offload w 1
  free w
)";

const char* const kSumPlan = R"(
  batch 1 budget 7 arena 7 peak 7 activations 1024 host 0
  tensor v param 1024
  tensor w param 1024
  tensor s state 4
  tensor x input 1024
  tensor y activation 1024
  tensor h param_grad 1024
  tensor g param_grad 1024
  step f forward reads x v writes y accumulates s
  step e backward_params reads y writes h
  step e all_reduce accumulates h s
  step f backward_params reads x writes g
  step f all_reduce accumulates g
  step f update reads g h accumulates v w

  alloc v 0
  alloc w 1
  alloc s 2
  alloc x 3
  alloc y 4
  run f forward
  alloc h 5
  first: run e backward_params
  free y
  wait collective first
  one: sum e
  alloc g 6
  second: run f backward_params
  free x
  wait collective second
  two: sum f
  wait compute two          # this implies that the first sum has ended
  run f update
  free h
  free g
)";

const char* const kShardPlan = R"(
  batch 1 budget 5 arena 5 peak 5 activations 1024 host 0
  tensor v param 1024 own 0 128
  tensor m optimizer 512
  tensor x input 1024
  tensor y activation 1024
  tensor g param_grad 1024 own 0 128
  step f all_gather accumulates v
  step f forward reads x v writes y
  step f backward_params reads x y writes g
  step f reduce_scatter accumulates g
  step f update reads g accumulates v m slices g:0:128 v:0:128

  alloc v 0
  alloc m 1
  alloc x 2
  whole: gather f
  alloc y 3
  wait compute whole
  run f forward
  alloc g 4
  done: run f backward_params
  free x
  free y
  wait collective done
  summed: scatter f
  wait compute summed
  run f update
  free g
)";

const char* const kForwardSumPlan = R"(
  batch 1 budget 5 arena 5 peak 5 activations 4096 host 1 host_pool 1
  tensor x input 1024
  tensor s activation 1024
  tensor y activation 1024
  tensor z activation 1024
  tensor m saved 1024
  step a forward reads x writes s
  step a all_reduce accumulates s
  step f forward reads x s writes y m rerun x m
  step h forward reads y writes z
  step h backward_data reads y z
  step f backward_data reads s m x

  alloc x 0
  alloc s 1
  own: run a forward
  wait collective own
  sum: sum a
  alloc y 2
  alloc m 3
  wait compute sum
  run f forward
  wait d2h sum
  out: offload s 0
  alloc z 4
  made: run h forward
  free y
  wait compute out
  free s
  alloc y 1
  rerun f
  run h backward_data
  free z
  free y
  alloc s 2
  wait h2d made
  wait h2d out
  in: prefetch s
  wait compute in
  run f backward_data
  free s
  free m
  free x
)";

}  // namespace neap
