"""Sprites on the GPU, and scenes painted with them: backgrounds, then one item after the other over it."""
import io
import math

import numpy
import torch
import torch.nn.functional as F
from PIL import Image

from scenes import MAX_ITEMS, ITEM_FIELDS
from words import COLOURS, PAINTS

MIN_DRAWN = 0.04
"""How much of a sprite must be of one colour for it to be painted, or to be named after it."""
PAINTABLE, NAMED = 0.3, 0.55
HUE_REACH = 0.11
HUE_BINS = 36


def read_sprites(folder, index, device, workers=16):
    """All sprites as [N, 4, S, S] bytes."""
    from concurrent.futures import ThreadPoolExecutor
    with open(f'{folder}/sprites.bin', 'rb') as file:
        data = file.read()

    def one(sprite):
        picture = Image.open(io.BytesIO(data[sprite['offset']:sprite['offset'] + sprite['bytes']])).convert('RGBA')
        return torch.from_numpy(numpy.array(picture)).permute(2, 0, 1)

    with ThreadPoolExecutor(workers) as pool:
        return torch.stack(list(pool.map(one, index['sprites']))).to(device)


def hue_and_saturation(rgb):
    """Of [N, 3, ...] in 0..1, hue in 0..1."""
    r, g, b = rgb.unbind(1)
    high, low = rgb.amax(1), rgb.amin(1)
    spread = (high - low).clamp_min(1e-4)
    hue = torch.where(high == r, (g - b) / spread, torch.where(high == g, 2 + (b - r) / spread, 4 + (r - g) / spread))
    return (hue / 6) % 1.0, (high - low) / high.clamp_min(1e-4)


def brightness(rgb):
    r, g, b = rgb.unbind(1)
    return 0.3 * r + 0.59 * g + 0.11 * b


def hue_distance(a, b):
    d = (a - b).abs()
    return torch.minimum(d, 1 - d)


def main_part(rgb, hue0, is_grey):
    """Where the main colour of a sprite is, as 0..1."""
    hue, saturation = hue_and_saturation(rgb)
    near = (hue_distance(hue, hue0) < HUE_REACH) & (saturation > 0.22)
    grey = (saturation < 0.25) & (rgb.amax(1) > 0.2)
    return torch.where(is_grey > 0.5, grey, near).to(rgb.dtype)


def look_at(sprites):
    """The main colour of each sprite (hue, whether it is grey, its brightness) and what may be said of it."""
    table, facts = [], []
    for chunk in sprites.split(256):
        small = F.avg_pool2d(chunk.float() / 255, 4)
        alpha, rgb = small[:, 3], small[:, :3]
        hue, saturation = hue_and_saturation(rgb)
        opaque = alpha.sum((1, 2)).clamp_min(1)
        vivid = alpha * (saturation > 0.25) * (rgb.amax(1) > 0.2)
        bins = (hue * HUE_BINS).long().clamp(0, HUE_BINS - 1)
        histogram = torch.zeros(len(chunk), HUE_BINS, device=chunk.device)
        histogram.scatter_add_(1, bins.flatten(1), vivid.flatten(1))
        near = histogram + histogram.roll(1, 1) + histogram.roll(-1, 1)
        peak = near.argmax(1)
        hue0 = (peak + 0.5) / HUE_BINS
        is_grey = (near.amax(1) / opaque < 0.25).float()
        part = main_part(rgb, hue0[:, None, None], is_grey[:, None, None]) * alpha
        share = part.sum((1, 2)) / opaque
        light = (part * brightness(rgb)).sum((1, 2)) / part.sum((1, 2)).clamp_min(1)
        mean = (part[:, None] * rgb).sum((2, 3)) / part.sum((1, 2)).clamp_min(1)[:, None]
        table.append(torch.stack([hue0, is_grey, light.clamp_min(0.08)], dim=1))
        drawn = alpha.mean((1, 2))
        for i in range(len(chunk)):
            facts.append({
                'drawn': drawn[i].item() > MIN_DRAWN,
                'paintable': share[i].item() > PAINTABLE,
                'colour': nearest_colour(mean[i].tolist()) if share[i].item() > NAMED else None,
            })
    return torch.cat(table), facts


def nearest_colour(rgb):
    names = PAINTS[:12]
    distance = [sum((a * 255 - b) ** 2 for a, b in zip(rgb, COLOURS[name])) for name in names]
    return names[min(range(len(names)), key=distance.__getitem__)]


class Canvas:
    def __init__(self, sprites, table, size):
        self.size = size
        self.device = sprites.device
        self.table = table
        # Each level half as large as the last, so that small items are not ragged.
        self.levels = [sprites]
        while self.levels[-1].shape[-1] > 60:
            self.levels.append(self.halve(self.levels[-1]))
        self.paints = torch.tensor([COLOURS[name] for name in PAINTS], device=self.device).float() / 255
        at = (torch.arange(size, device=self.device) + 0.5) / size
        self.y, self.x = at[:, None].expand(size, size), at[None, :].expand(size, size)

    def halve(self, sprites):
        parts = []
        for chunk in sprites.split(512):
            full = chunk.float()
            alpha = full[:, 3:] / 255
            mean = F.avg_pool2d(full[:, :3] * alpha, 2)
            weight = F.avg_pool2d(alpha, 2)
            parts.append(torch.cat([mean / weight.clamp_min(1 / 255), 255 * weight], dim=1).round().to(torch.uint8))
        return torch.cat(parts)

    @torch.no_grad()
    def paint(self, batch):
        """`batch`: tensors as `pack` makes them. Gives [N, 3, S, S] in 0..1."""
        ground = batch['background']
        picture = self.background(ground)
        items = batch['items']
        for k in range(MAX_ITEMS):
            rows = batch['rows'][k]
            if len(rows) == 0:
                continue
            rows = rows.to(self.device, non_blocking=True)
            chosen = items[rows, k]
            picture[rows] = self.over(picture[rows], chosen, batch['level'][k])
        return picture

    def background(self, b):
        """Columns: top 0..2, bottom 3..5, ground 6, its colour 7..9, stars 10, badge 11 (1 circle, 2 square), its
        colour 12..14, its size 15, a seed for the stars 16."""
        column = lambda i: b[:, i, None, None]
        top, bottom = b[:, 0:3, None, None], b[:, 3:6, None, None]
        height = self.y[None, None]
        picture = (top * (1 - height) + bottom * height) / 255
        starry = (b[:, 10] > 0).nonzero().flatten()
        if len(starry) > 0:
            picture[starry] = self.stars(picture[starry], b[starry, 16])
        edge = 1.5 / self.size
        below = ((self.y[None] - column(6)) / edge).clamp(0, 1)[:, None]
        picture = picture * (1 - below) + below * b[:, 7:10, None, None] / 255
        dx, dy, half = (self.x[None] - 0.5).abs(), (self.y[None] - 0.5).abs(), column(15) / 2
        circle = (half - (dx * dx + dy * dy).sqrt()) / edge
        corner = 0.06
        ox, oy = (dx - half + corner).clamp_min(0), (dy - half + corner).clamp_min(0)
        square = (corner - (ox * ox + oy * oy).sqrt()) / edge
        badge = torch.where(column(11) > 1.5, square, circle).clamp(0, 1) * (column(11) > 0.5)
        return picture * (1 - badge[:, None]) + badge[:, None] * b[:, 12:15, None, None] / 255

    def stars(self, picture, seeds):
        n, count = len(picture), 36
        at = torch.frac(torch.sin(seeds[:, None] * 91.7 + torch.arange(3 * count, device=self.device) * 12.9898) * 43758.5).abs()
        x, y, r = at[:, :count], at[:, count:2 * count], 0.0025 + 0.005 * at[:, 2 * count:]
        for i in range(count):
            far = ((self.x[None] - x[:, i, None, None]) ** 2 + (self.y[None] - y[:, i, None, None]) ** 2).sqrt()
            dot = ((r[:, i, None, None] - far) * self.size + 0.5).clamp(0, 1)[:, None]
            picture = picture * (1 - dot) + dot
        return picture

    def over(self, picture, items, level):
        sprite, paint = items[:, 0].long(), items[:, 1].long()
        x, y, size, turn = (items[:, i, None, None] for i in (2, 3, 4, 5))
        dx, dy = (self.x - x) / size * 2, (self.y - y) / size * 2
        cos, sin = turn.cos(), turn.sin()
        grid = torch.stack([dx * cos + dy * sin, dy * cos - dx * sin], dim=-1)
        source = self.levels[level][sprite].float() / 255
        source = torch.cat([source[:, :3] * source[:, 3:], source[:, 3:]], dim=1)
        drawn = F.grid_sample(source, grid, mode='bilinear', padding_mode='zeros', align_corners=False)
        alpha = drawn[:, 3:]
        rgb = drawn[:, :3] / alpha.clamp_min(1e-3)
        rgb = torch.where((paint >= 0)[:, None, None, None], self.painted(rgb, sprite, paint), rgb)
        return picture * (1 - alpha) + alpha * rgb.clamp(0, 1)

    def painted(self, rgb, sprite, paint):
        hue0, is_grey, light0 = (self.table[sprite, i, None, None] for i in range(3))
        part = main_part(rgb, hue0, is_grey)[:, None]
        colour = self.paints[paint.clamp_min(0)][:, :, None, None]
        ratio = (brightness(rgb) / light0)[:, None].clamp(0.35, 1.9)
        dark = colour * ratio.clamp(max=1)
        light = (ratio - 1).clamp(0, 1) * 0.7
        return rgb * (1 - part) + part * (dark * (1 - light) + light)


def pack(scenes, generator, canvas_size, sprite_size, levels=4):
    """Scenes as tensors. Items that stand at one place in their scenes go together, by the level that fits the largest."""
    n = len(scenes)
    items = numpy.zeros((n, MAX_ITEMS, ITEM_FIELDS), dtype=numpy.float32)
    background = numpy.zeros((n, 17), dtype=numpy.float32)
    rows = [[] for _ in range(MAX_ITEMS)]
    largest = [0.0] * MAX_ITEMS
    for i, scene in enumerate(scenes):
        for k, item in enumerate(scene['items']):
            items[i, k] = item
            rows[k].append(i)
            largest[k] = max(largest[k], item[4])
        b = scene['background']
        background[i, 0:3], background[i, 3:6], background[i, 6] = b['top'], b['bottom'], b['ground'] if b['ground'] < 1 else 2
        background[i, 7:10], background[i, 10] = b['ground_colour'], b['stars']
        if b['badge'] is not None:
            shape, colour, size = b['badge']
            background[i, 11], background[i, 12:15], background[i, 15] = 1 if shape == 'circle' else 2, colour, size
        background[i, 16] = generator.random()
    level = [
        max(0, min(levels - 1, int(math.floor(math.log2(sprite_size / max(1.0, size * canvas_size))))))
        for size in largest
    ]
    return {
        'items': torch.from_numpy(items), 'background': torch.from_numpy(background),
        'rows': [torch.tensor(one, dtype=torch.long) for one in rows], 'level': level,
    }
