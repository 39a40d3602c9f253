"""PyTorch's networks of volumes: nnU-Net's plain U-Net and the one with a residual encoder (Isensee et al., 2021 and 2024), and
MLPerf's 3-D U-Net for KiTS19.

Parameters have the names of the sources, the package dynamic_network_architectures and MLCommons' reference, which are also neap's
(nets/segmentation/). nnU-Net's networks return a prediction for each resolution, the highest first.
"""

import torch
from torch import nn

SLOPE = 0.01  # of nnU-Net's leaky ReLUs
FEATURES = (32, 64, 128, 256, 320, 320)  # of MLPerf's network, by resolution
RESIDUAL_BLOCKS = (1, 3, 4)  # of the first stages; the others have six


def planned_features(edge):
    """The features of the stages that nnU-Net plans for cubes: the resolution is halved while at least 4 voxels are left."""
    features, size = [32], edge
    while size >= 8:
        size = (size + 1) // 2
        features.append(min(2 * features[-1], 320))
    return features


class Unit(nn.Module):
    """nnU-Net's ConvDropoutNormReLU, without dropout."""

    def __init__(self, inputs, outputs, kernel=3, stride=1, activates=True, bias=True):
        super().__init__()
        self.conv = nn.Conv3d(inputs, outputs, kernel, stride, kernel // 2, bias=bias)
        self.norm = nn.InstanceNorm3d(outputs, affine=True)
        self.nonlin = nn.LeakyReLU(SLOPE, inplace=True) if activates else nn.Identity()

    def forward(self, x):
        return self.nonlin(self.norm(self.conv(x)))


class Stack(nn.Module):
    """Units of one resolution, of one input or of several that are concatenated."""

    def __init__(self, inputs, outputs, stride, number):
        super().__init__()
        self.convs = nn.Sequential(Unit(inputs, outputs, stride=stride), *(Unit(outputs, outputs) for _ in range(number - 1)))

    def forward(self, *parts):
        return self.convs(parts[0] if len(parts) == 1 else torch.cat(parts, 1))


class ResidualBlock(nn.Module):
    """nnU-Net's BasicBlockD."""

    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = Unit(inputs, outputs, stride=stride)
        self.conv2 = Unit(outputs, outputs, activates=False)
        skip = [nn.AvgPool3d(stride, stride)] if stride != 1 else []
        if inputs != outputs:
            skip.append(Unit(inputs, outputs, kernel=1, activates=False, bias=False))
        self.skip = nn.Sequential(*skip)
        self.nonlin2 = nn.LeakyReLU(SLOPE, inplace=True)

    def forward(self, x):
        return self.nonlin2(self.conv2(self.conv1(x)) + self.skip(x))


class ResidualStage(nn.Module):

    def __init__(self, inputs, outputs, stride, number):
        super().__init__()
        self.blocks = nn.Sequential(ResidualBlock(inputs, outputs, stride),
                                    *(ResidualBlock(outputs, outputs, 1) for _ in range(number - 1)))

    def forward(self, x):
        return self.blocks(x)


class Encoder(nn.Module):

    def __init__(self, channels, features, residual):
        super().__init__()
        inputs = [features[0] if residual else channels, *features]
        stages = []
        for i, outputs in enumerate(features):
            stride = 1 if i == 0 else 2
            if residual:
                number = RESIDUAL_BLOCKS[i] if i < len(RESIDUAL_BLOCKS) else 6
                stages.append(ResidualStage(inputs[i], outputs, stride, number))
            else:
                stages.append(nn.Sequential(Stack(inputs[i], outputs, stride, 2)))
        self.stem = Stack(channels, features[0], 1, 1) if residual else nn.Identity()
        self.stages = nn.Sequential(*stages)

    def forward(self, x):
        x = self.stem(x)
        outputs = []
        for stage in self.stages:
            x = stage(x)
            outputs.append(x)
        return outputs


class Decoder(nn.Module):
    """Its stages are numbered from the lowest resolution."""

    def __init__(self, classes, features, residual):
        super().__init__()
        pairs = list(zip(features[::-1], features[-2::-1]))
        self.transpconvs = nn.ModuleList(nn.ConvTranspose3d(low, high, 2, 2) for low, high in pairs)
        self.stages = nn.ModuleList(Stack(2 * high, high, 1, 1 if residual else 2) for _, high in pairs)
        self.seg_layers = nn.ModuleList(nn.Conv3d(high, classes, 1) for _, high in pairs)

    def forward(self, encoded):
        x, predictions = encoded[-1], []
        for enlarge, stage, head, skip in zip(self.transpconvs, self.stages, self.seg_layers, encoded[-2::-1]):
            x = stage(enlarge(x), skip)
            predictions.append(head(x))
        return predictions[::-1]


class NnUNet(nn.Module):

    def __init__(self, edge, channels, classes, residual):
        super().__init__()
        features = planned_features(edge)
        self.encoder = Encoder(channels, features, residual)
        self.decoder = Decoder(classes, features, residual)
        for module in self.modules():
            if isinstance(module, (nn.Conv3d, nn.ConvTranspose3d)):
                nn.init.kaiming_normal_(module.weight, a=SLOPE)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)

    def forward(self, x):
        return self.decoder(self.encoder(x))


def convolved(inputs, outputs, stride=1):
    return nn.Sequential(nn.Conv3d(inputs, outputs, 3, stride, 1, bias=False), nn.InstanceNorm3d(outputs, affine=True),
                         nn.ReLU(inplace=True))


class VolumeBlock(nn.Module):
    """A block of MLPerf's network."""

    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = convolved(inputs, outputs, stride)
        self.conv2 = convolved(outputs, outputs)

    def forward(self, x):
        return self.conv2(self.conv1(x))


class UpsampleBlock(nn.Module):

    def __init__(self, inputs, outputs):
        super().__init__()
        self.upsample_conv = nn.Sequential(nn.ConvTranspose3d(inputs, outputs, 2, 2))
        self.conv1 = convolved(2 * outputs, outputs)
        self.conv2 = convolved(outputs, outputs)

    def forward(self, x, skip):
        return self.conv2(self.conv1(torch.cat((self.upsample_conv(x), skip), 1)))


class UNet3d(nn.Module):

    def __init__(self, channels, classes):
        super().__init__()
        pairs = list(zip(FEATURES, FEATURES[1:]))
        self.input_block = VolumeBlock(channels, FEATURES[0], 1)
        self.downsample = nn.ModuleList(VolumeBlock(high, low, 2) for high, low in pairs[:-1])
        self.bottleneck = VolumeBlock(*pairs[-1], 2)
        self.upsample = nn.ModuleList(UpsampleBlock(low, high) for high, low in pairs[::-1])
        self.output = nn.ModuleDict({"conv": nn.Conv3d(FEATURES[0], classes, 1)})

    def forward(self, x):
        outputs = [self.input_block(x)]
        for block in self.downsample:
            outputs.append(block(outputs[-1]))
        x = self.bottleneck(outputs[-1])
        for block in self.upsample:
            x = block(x, outputs.pop())
        return self.output["conv"](x)


def make_volume_network(network):
    """The network that neap has under the name."""
    if network.neap == "unet3d":
        return UNet3d(network.channels, network.classes)
    return NnUNet(network.image, network.channels, network.classes, residual=network.neap != "nnunet3d")


def cancelled_biases(model):
    """The names of the biases whose changes an instance norm right behind them takes out again: their gradients are 0 but for
    rounding."""
    return {f"{name}.conv.bias" for name, module in model.named_modules()
            if isinstance(module, Unit) and module.conv.bias is not None}
