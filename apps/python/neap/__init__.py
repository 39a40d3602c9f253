"""neap trains deep networks that are larger than the memory of the GPU, within a byte budget: docs/python.md."""
import os

# OpenMP reads this when it is loaded: threads that wait for work sleep instead of taking cores from other programs.
_passive = not {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT"} & os.environ.keys()
if _passive:
    os.environ["OMP_WAIT_POLICY"] = "passive"
from neap._neap import (Add, AveragePool, BatchNorm, Concat, Convolution, Crop, Dataset, Dropout, FullyConnected,
                        GlobalAveragePool, Graph, Layer, LearningRate, LocalResponseNorm, MaxPool, MemoryUse, Plan, Relu,
                        Sigmoid, SoftmaxCrossEntropy, StepResult, Tanh, TransposedConvolution, curve, open_dataset,
                        peak_batch, plan)

if _passive:
    del os.environ["OMP_WAIT_POLICY"]  # child processes decide for themselves
from neap import nets
from neap.data import Loader
from neap.errors import BudgetError, Error
from neap.session import Accuracy, Session

__all__ = ["Accuracy", "Add", "AveragePool", "BatchNorm", "BudgetError", "Concat", "Convolution", "Crop", "Dataset",
           "Dropout", "Error", "FullyConnected", "GlobalAveragePool", "Graph", "Layer", "LearningRate", "Loader",
           "LocalResponseNorm", "MaxPool", "MemoryUse", "Plan", "Relu", "Session", "Sigmoid", "SoftmaxCrossEntropy",
           "StepResult", "Tanh", "TransposedConvolution", "curve", "nets", "open_dataset", "peak_batch", "plan"]
