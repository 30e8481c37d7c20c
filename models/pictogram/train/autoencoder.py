"""Pictures to latents and back. The encoder reads 256 × 256, the decoder draws 512 × 512: the edges of flat pictures
can be guessed, so twice the size costs nothing but the last layer.
"""
import torch
import torch.nn.functional as F
from torch import nn

from painter import LATENT_CHANNELS


class Residual(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.norm = nn.GroupNorm(8, channels)
        self.first = nn.Conv2d(channels, channels, 3, padding=1)
        self.second = nn.Conv2d(channels, channels, 3, padding=1)
        nn.init.zeros_(self.second.weight)

    def forward(self, x):
        return x + self.second(F.silu(self.first(F.silu(self.norm(x)))))


class Encoder(nn.Module):
    """[N, 3, 256, 256] in 0..1 to a mean of [N, 8, 32, 32]."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.PixelUnshuffle(2), nn.Conv2d(12, 64, 3, padding=1), Residual(64),
            nn.Conv2d(64, 128, 4, stride=2, padding=1), Residual(128), Residual(128),
            nn.Conv2d(128, 256, 4, stride=2, padding=1), Residual(256), Residual(256),
            nn.GroupNorm(8, 256), nn.SiLU(), nn.Conv2d(256, LATENT_CHANNELS, 3, padding=1),
            # Each channel about as large as the noise that the painter starts from.
            nn.BatchNorm2d(LATENT_CHANNELS, affine=False),
        )

    def forward(self, picture):
        return self.layers(2 * picture - 1)


def larger(channels, to):
    return nn.Sequential(nn.Conv2d(channels, 4 * to, 3, padding=1), nn.PixelShuffle(2))


class Decoder(nn.Module):
    """[N, 8, 32, 32] to [N, 3, 512, 512], about 0..1."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(LATENT_CHANNELS, 256, 3, padding=1), Residual(256), Residual(256), Residual(256),
            larger(256, 96), Residual(96), Residual(96),
            larger(96, 48), Residual(48), Residual(48),
            larger(48, 24), Residual(24),
            nn.SiLU(), nn.Conv2d(24, 12, 3, padding=1), nn.PixelShuffle(2),
        )

    def forward(self, latent):
        return 0.5 + 0.5 * self.layers(latent)
