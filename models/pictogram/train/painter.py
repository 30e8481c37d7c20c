"""The painter: a transformer that is given a noisy latent, the time and the words, and tells where the noise goes.

Picture patches and words stand in one row, so that each patch can look at each word. Words that are only padding are
masked. Time and the mean of the words steer the scale of each block, by one small table for all blocks.
"""
import math

import torch
import torch.nn.functional as F
from torch import nn

LATENT_CHANNELS = 8
LATENT_SIZE = 32
WORDS = 32
WORD_DIMENSIONS = 384
PATCH = 2
GRID = LATENT_SIZE // PATCH


class RmsNorm(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight


def rotation(dimensions):
    """Cosine and sine by which queries and keys of a patch are turned: half for its row, half for its column."""
    quarter = dimensions // 4
    speed = 1.0 / (100.0 ** (torch.arange(quarter) / quarter))
    at = torch.arange(GRID, dtype=torch.float32)
    rows = (at[:, None] * speed).repeat_interleave(GRID, dim=0)
    columns = (at[:, None] * speed).repeat(GRID, 1)
    angle = torch.cat([rows, columns], dim=1)
    # Words come first and are not turned: they have no place in the picture.
    angle = torch.cat([torch.zeros(WORDS, 2 * quarter), angle])
    return angle.cos(), angle.sin()


def turn(x, cos, sin):
    a, b = x.chunk(2, dim=-1)
    return torch.cat([a * cos - b * sin, a * sin + b * cos], dim=-1)


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.size = width // heads
        self.attention_norm = RmsNorm(width)
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.query_norm = RmsNorm(self.size)
        self.key_norm = RmsNorm(self.size)
        self.join = nn.Linear(width, width, bias=False)
        self.mlp_norm = RmsNorm(width)
        self.gate_up = nn.Linear(width, 2 * hidden(width), bias=False)
        self.down = nn.Linear(hidden(width), width, bias=False)
        # What this block adds to the steering that all blocks share.
        self.steer = nn.Parameter(torch.zeros(6, width))

    def forward(self, x, steering, bias, cos, sin):
        shift_a, scale_a, gate_a, shift_m, scale_m, gate_m = (steering + self.steer).unbind(1)
        batch, length, width = x.shape
        y = self.attention_norm(x) * (1 + scale_a[:, None]) + shift_a[:, None]
        q, k, v = self.qkv(y).reshape(batch, length, 3, self.heads, self.size).permute(2, 0, 3, 1, 4).unbind(0)
        q = turn(self.query_norm(q), cos, sin)
        k = turn(self.key_norm(k), cos, sin)
        y = F.scaled_dot_product_attention(q, k, v.to(q.dtype), attn_mask=bias.to(q.dtype))
        y = self.join(y.transpose(1, 2).reshape(batch, length, width))
        x = x + (1 + gate_a[:, None]) * y
        y = self.mlp_norm(x) * (1 + scale_m[:, None]) + shift_m[:, None]
        gate, up = self.gate_up(y).chunk(2, dim=-1)
        return x + (1 + gate_m[:, None]) * self.down(F.silu(gate) * up)


def hidden(width):
    """Two thirds of four times the width, since the gate takes a third; a multiple of 64."""
    return int(math.ceil(width * 8 / 3 / 64)) * 64


class Painter(nn.Module):
    def __init__(self, width=384, depth=12, heads=6):
        super().__init__()
        self.width = width
        self.patch_in = nn.Linear(LATENT_CHANNELS * PATCH * PATCH, width)
        self.word_in = nn.Linear(WORD_DIMENSIONS, width)
        self.word_norm = RmsNorm(WORD_DIMENSIONS)
        self.word_place = nn.Parameter(0.02 * torch.randn(WORDS, width))
        self.time_in = nn.Sequential(nn.Linear(256, width), nn.SiLU(), nn.Linear(width, width))
        self.mean_in = nn.Linear(WORD_DIMENSIONS, width)
        self.steering = nn.Linear(width, 6 * width)
        self.blocks = nn.ModuleList([Block(width, heads) for _ in range(depth)])
        self.last_norm = RmsNorm(width)
        self.last_steering = nn.Linear(width, 2 * width)
        self.patch_out = nn.Linear(width, LATENT_CHANNELS * PATCH * PATCH)
        cos, sin = rotation(width // heads)
        self.register_buffer('cos', cos, persistent=False)
        self.register_buffer('sin', sin, persistent=False)
        self.register_buffer('waves', torch.exp(-math.log(10_000) * torch.arange(128) / 128), persistent=False)
        self.begin()

    def begin(self):
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
        for block in self.blocks:
            nn.init.zeros_(block.join.weight)
            nn.init.zeros_(block.down.weight)
        for layer in (self.steering, self.last_steering, self.patch_out):
            nn.init.zeros_(layer.weight)

    def forward(self, latent, time, words, word_mask):
        batch = latent.shape[0]
        x = latent.reshape(batch, LATENT_CHANNELS, GRID, PATCH, GRID, PATCH)
        x = x.permute(0, 2, 4, 1, 3, 5).reshape(batch, GRID * GRID, LATENT_CHANNELS * PATCH * PATCH)
        x = self.patch_in(x)
        mean = (words * word_mask[:, :, None]).sum(1) / word_mask.sum(1, keepdim=True)
        mean = mean * torch.rsqrt(mean.pow(2).sum(-1, keepdim=True) + 1e-6) * math.sqrt(WORD_DIMENSIONS)
        angle = 1_000 * time[:, None] * self.waves
        guide = self.time_in(torch.cat([angle.cos(), angle.sin()], dim=1)) + self.mean_in(mean)
        guide = F.silu(guide)
        steering = self.steering(guide).reshape(batch, 6, self.width)
        w = self.word_in(self.word_norm(words)) + self.word_place
        x = torch.cat([w, x], dim=1)
        far = (1 - word_mask) * -10_000.0
        bias = torch.cat([far, far.new_zeros(batch, GRID * GRID)], dim=1)[:, None, None, :]
        for block in self.blocks:
            x = block(x, steering, bias, self.cos, self.sin)
        x = x[:, WORDS:]
        shift, scale = self.last_steering(guide).reshape(batch, 2, self.width).unbind(1)
        x = self.patch_out(self.last_norm(x) * (1 + scale[:, None]) + shift[:, None])
        x = x.reshape(batch, GRID, GRID, LATENT_CHANNELS, PATCH, PATCH).permute(0, 3, 1, 4, 2, 5)
        return x.reshape(batch, LATENT_CHANNELS, LATENT_SIZE, LATENT_SIZE)
