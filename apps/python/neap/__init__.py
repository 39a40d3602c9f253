"""neap trains deep networks that are larger than the memory of the GPU, within a byte budget: docs/python.md."""
import os

# OpenMP reads this when it is loaded: threads that wait for work sleep instead of taking cores from other programs.
_passive = not {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT"} & os.environ.keys()
if _passive:
    os.environ["OMP_WAIT_POLICY"] = "passive"
from neap._neap import (AdaptiveAveragePool, Add, Attention, AveragePool, BatchNorm, BinaryCrossEntropy, ChannelShuffle,
                        ChannelSlice, ChannelSplit, Clip, Concat, Convolution, Crop, Dataset, DiceLoss, Dropout, Elu, Embedding,
                        FocalLoss, FullyConnected, Gelu, GlobalAveragePool, Graph, GroupNorm, HardSigmoid, HardSwish,
                        InstanceNorm, Layer, LayerNorm, LeakyRelu, LearningRate, LinearCrossEntropy, LocalResponseNorm, MaxPool,
                        MeanSquaredError, MemoryUse, Mish, Multiply, OnnxGraph, Permute, PixelShuffle, PixelUnshuffle, Plan,
                        PositionEmbedding, Prelu, PrependToken, Profile, Relu, Reshape, Resize, Roll, ScaleShift, Sigmoid, Silu,
                        Softmax, SoftmaxCrossEntropy, Softplus, StepResult, StochasticDepth, Tanh, Tile, TransposedConvolution,
                        WindowMerge, WindowPartition, ZeroPad, curve, from_onnx, open_dataset, peak_batch, plan, profile)

if _passive:
    del os.environ["OMP_WAIT_POLICY"]  # child processes decide for themselves
from neap import nets
from neap._neap import __version__
from neap.custom_layer import CustomLayer, Parameter
from neap.data import Loader
from neap.errors import BudgetError, Error, NonFiniteLossError
from neap.session import Accuracy, History, LoadedKeys, Session
from neap.torch_export import from_torch

__all__ = ["Accuracy", "AdaptiveAveragePool", "Add", "Attention", "AveragePool", "BatchNorm", "BinaryCrossEntropy",
           "BudgetError", "ChannelShuffle", "ChannelSlice", "ChannelSplit", "Clip", "Concat", "Convolution", "Crop",
           "CustomLayer", "Dataset", "DiceLoss", "Dropout", "Elu", "Embedding", "Error", "FocalLoss", "FullyConnected", "Gelu",
           "GlobalAveragePool", "Graph", "GroupNorm", "HardSigmoid", "HardSwish", "History", "InstanceNorm", "Layer",
           "LayerNorm", "LeakyRelu", "LearningRate", "LinearCrossEntropy", "LoadedKeys", "Loader", "LocalResponseNorm",
           "MaxPool", "MeanSquaredError", "MemoryUse", "Mish", "Multiply", "NonFiniteLossError", "OnnxGraph", "Parameter",
           "Permute", "PixelShuffle", "PixelUnshuffle", "Plan", "PositionEmbedding", "Prelu", "PrependToken", "Profile", "Relu",
           "Reshape", "Resize", "Roll", "ScaleShift", "Session", "Sigmoid", "Silu", "Softmax", "SoftmaxCrossEntropy", "Softplus",
           "StepResult", "StochasticDepth", "Tanh", "Tile", "TransposedConvolution", "WindowMerge", "WindowPartition", "ZeroPad",
           "curve", "from_onnx", "from_torch", "nets", "open_dataset", "peak_batch", "plan", "profile"]
