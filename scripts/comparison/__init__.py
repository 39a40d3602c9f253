"""The parts of scripts/compare_pytorch.py, scripts/compare_loading.py and scripts/convergence.py.

  cases           which networks, batches and types are compared, and by which programs
  processes       programs in processes of their own, under a time limit
  speed           runs the programs of the cases one after the other and keeps what they measured
  table           the measurements as one table
  scaling         the speed on one GPU and on several
  models          PyTorch's networks, in the setting that both sides share
  volumes         those of volumes: nnU-Net and MLPerf's 3-D U-Net
  gpt2            GPT-2
  training        PyTorch's batches and losses
  peaks           PyTorch's largest batches, and checkpoints for every block
  pytorch_speed   the speed and memory of PyTorch (in a process of its own)
  floor           the time of a network's convolutions alone (in a process of its own)
  step_check      one training step of both sides against PyTorch in float64
  step_rule       which errors pass the step check
  text            training of a small GPT-2 by both sides
  seeds           trainings by neap with several seeds in several types, as a table
  segmentation    the Dice of nnU-Net on volumes that are made for it
  loading         the speed of reading photographs, and of training on them
  pytorch_loading PyTorch's reading of photographs (in a process of its own)

Only models, volumes, gpt2, training, pytorch_speed, floor, step_check, text and pytorch_loading import PyTorch, and peaks where
it trains.
"""
