"""Trains the autoencoder, the judge and the painter, each for as many seconds as it is given.

    python3 train.py DATA OUT --autoencoder 200 --judge 60 --painter 1000

A stage of 0 seconds is left out, and its weights are read from OUT.
"""
import argparse
import copy
import json
import time

import torch
import torch.nn.functional as F
from torchvision.utils import save_image

from autoencoder import Decoder, Encoder
from canvas import Canvas, look_at, read_sprites
from feed import Scenes, feed
from judge import JUDGE_SIZE, Judge
from muon import Muon
from painter import LATENT_CHANNELS, LATENT_SIZE, WORD_DIMENSIONS, WORDS, Painter
from sampler import sample
from scenes import read_index
from sentence import Sentence

LATENT_NOISE = 0.25


def rate(progress, warm=0.04, hold=0.55, least=0.02):
    if progress < warm:
        return progress / warm
    if progress < hold:
        return 1.0
    return 1.0 - (1.0 - least) * (progress - hold) / (1 - hold)


def save(model, path):
    """In half precision, which is more than the 8 bits that it is shipped in."""
    torch.save({name: value.half() if value.is_floating_point() else value for name, value in model.state_dict().items()}, path)


def load(model, path):
    model.load_state_dict(torch.load(path, map_location='cpu'))
    return model.eval()


class Stage:
    """Counts steps and time, sets the rate of all optimisers, and tells how it goes."""

    def __init__(self, name, seconds, optimisers, batch):
        self.name, self.seconds, self.optimisers, self.batch = name, seconds, optimisers, batch
        self.parameters = [p for one in optimisers for group in one.param_groups for p in group['params']]
        self.base = [[group['lr'] for group in one.param_groups] for one in optimisers]
        self.begin = self.told = time.time()
        self.steps, self.told_steps, self.sum, self.counted = 0, 0, 0.0, 0

    @property
    def progress(self):
        return (time.time() - self.begin) / self.seconds

    def update(self, loss):
        for one, base in zip(self.optimisers, self.base):
            for group, lr in zip(one.param_groups, base):
                group['lr'] = lr * rate(self.progress)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.parameters, 1.0)
        for one in self.optimisers:
            one.step()
            one.zero_grad(set_to_none=True)
        self.steps += 1
        if self.steps % 50 == 0 or self.steps == 1:
            self.sum, self.counted = self.sum + loss.item(), self.counted + 1
        if self.steps == 1 or time.time() - self.told > 10:
            speed = (self.steps - self.told_steps) * self.batch / (time.time() - self.told)
            self.told, self.told_steps = time.time(), self.steps
            print(f'{self.name}: step {self.steps}, loss {self.sum / max(1, self.counted):.4f}, {speed:.0f}/s', flush=True)
            self.sum, self.counted = 0.0, 0


def train_autoencoder(data, seconds, out):
    encoder, decoder = Encoder().to(data.device), Decoder().to(data.device)
    both = torch.nn.ModuleList([encoder, decoder]).to(memory_format=torch.channels_last)
    optimiser = torch.optim.AdamW(both.parameters(), lr=5e-4, betas=(0.9, 0.99), weight_decay=1e-3, fused=data.fused)
    batch = data.args.autoencoder_batch
    canvas = Canvas(data.sprites, data.table, 512)
    stage = Stage('autoencoder', seconds, [optimiser], batch)
    for scenes in feed(data.scenes(batch, 512, seed=1), data.device, data.args.workers):
        if stage.progress >= 1:
            break
        picture = canvas.paint(scenes).contiguous(memory_format=torch.channels_last)
        with torch.autocast(data.kind, dtype=torch.bfloat16):
            latent = encoder(F.avg_pool2d(picture, 2))
            noise = torch.rand(len(latent), 1, 1, 1, device=latent.device) * LATENT_NOISE
            drawn = decoder(latent + noise * torch.randn_like(latent))
        stage.update(picture_loss(drawn.float(), picture))
    encoder.eval(), decoder.eval()
    save(encoder, f'{out}/encoder.pt')
    save(decoder, f'{out}/decoder.pt')
    with torch.no_grad():
        again = decoder(encoder(F.avg_pool2d(picture[:8], 2))).clamp(0, 1)
        print('autoencoder: mean error', (again - picture[:8]).abs().mean().item(), flush=True)
        save_image(torch.cat([picture[:8], again]), f'{out}/autoencoder.png', nrow=8)


def picture_loss(drawn, picture):
    loss = (drawn - picture).abs().mean()
    for axis in (2, 3):
        loss = loss + 0.5 * (drawn.diff(dim=axis) - picture.diff(dim=axis)).abs().mean()
    return loss + 0.5 * (F.avg_pool2d(drawn, 8) - F.avg_pool2d(picture, 8)).abs().mean()


def train_judge(data, seconds, out):
    judge = Judge().to(data.device)
    labels = data.sentence.directions([concept['name'] for concept in data.index['concepts']])
    optimiser = torch.optim.AdamW(judge.parameters(), lr=2e-3, weight_decay=0.02, fused=data.fused)
    batch = data.args.judge_batch
    canvas = Canvas(data.sprites, data.table, 2 * JUDGE_SIZE)
    scenes = data.scenes(batch, 2 * JUDGE_SIZE, seed=2, with_held_out=True, only_single=True)
    stage = Stage('judge', seconds, [optimiser], batch)
    for scenes in feed(scenes, data.device, data.args.workers):
        if stage.progress >= 1:
            break
        picture = F.avg_pool2d(canvas.paint(scenes), 2)
        picture = picture + 0.03 * torch.randn_like(picture)
        logits = 24 * judge(picture) @ labels.T
        stage.update(F.cross_entropy(logits, scenes['concept'], label_smoothing=0.05))
    judge.eval()
    with torch.no_grad():
        picture = F.avg_pool2d(canvas.paint(scenes), 2)
        right = (judge(picture) @ labels.T).argmax(1) == scenes['concept']
    print('judge: right among all names', right.float().mean().item(), flush=True)
    save(judge, f'{out}/judge.pt')


class Pool:
    """Scenes as latents and words. Each is used some times before a new one takes its place: to paint and encode a
    scene costs half as much as to learn from it, and the noise is new each time anyway."""

    def __init__(self, data, size, fresh):
        self.data, self.size, self.at = data, size, 0
        self.encoder = load(Encoder(), f'{data.args.out}/encoder.pt').to(data.device).to(memory_format=torch.channels_last)
        self.fast = torch.compile(self.encoder, dynamic=False) if data.args.compile else self.encoder
        self.canvas = Canvas(data.sprites, data.table, 256)
        self.source = feed(data.scenes(fresh, 256, seed=3), data.device, data.args.workers)
        self.latents = torch.zeros(size, LATENT_CHANNELS, LATENT_SIZE, LATENT_SIZE, dtype=torch.float16, device=data.device)
        self.words = torch.zeros(size, WORDS, WORD_DIMENSIONS, dtype=torch.float16, device=data.device)
        self.masks = torch.zeros(size, WORDS, device=data.device)
        for _ in range(size // fresh):
            self.renew()

    @torch.no_grad()
    def renew(self):
        scenes = next(self.source)
        picture = self.canvas.paint(scenes).contiguous(memory_format=torch.channels_last)
        with torch.autocast(self.data.kind, dtype=torch.bfloat16):
            latent = self.fast(picture)
        place = slice(self.at, self.at + len(latent))
        self.latents[place] = latent.half()
        self.words[place] = self.data.sentence.states(scenes['ids'], scenes['mask']).half()
        self.masks[place] = scenes['mask']
        self.at = (self.at + len(latent)) % self.size

    def draw(self, count):
        rows = torch.randint(self.size, (count,), device=self.latents.device)
        return self.latents[rows].float(), self.words[rows].float(), self.masks[rows]


def train_painter(data, seconds, out):
    painter = Painter(**data.shape).to(data.device)
    mean = copy.deepcopy(painter)
    matrices = [one for name, one in painter.blocks.named_parameters() if one.ndim == 2 and 'steer' not in name]
    in_blocks = {id(one) for one in matrices}
    others = [one for one in painter.parameters() if id(one) not in in_blocks]
    optimisers = [
        Muon(matrices, lr=data.args.rate),
        torch.optim.AdamW(others, lr=0.6 * data.args.rate, betas=(0.9, 0.95), weight_decay=0.0, fused=data.fused),
    ]
    batch = data.args.painter_batch
    fast = torch.compile(painter, dynamic=False) if data.args.compile else painter
    stage = Stage('painter', seconds, optimisers, batch)
    pool = Pool(data, data.args.pool, data.args.fresh)
    while stage.progress < 1:
        if stage.steps % data.args.reuse == 0:
            pool.renew()
        latent, words, mask = pool.draw(batch)
        noise = torch.randn_like(latent)
        t = torch.sigmoid(torch.randn(batch, device=data.device) + 0.3)
        at = t[:, None, None, None]
        with torch.autocast(data.kind, dtype=torch.bfloat16):
            velocity = fast((1 - at) * latent + at * noise, t, words, mask)
        stage.update(F.mse_loss(velocity.float(), noise - latent))
        keep = min(0.9994, (1 + stage.steps) / (20 + stage.steps))
        with torch.no_grad():
            torch._foreach_lerp_(list(mean.parameters()), list(painter.parameters()), 1 - keep)
        if stage.steps % 2_000 == 0:
            save(mean, f'{out}/painter.pt')
    print(f'painter: {stage.steps} steps, {stage.steps * batch} pictures', flush=True)
    save(mean, f'{out}/painter.pt')
    measure(data, mean.eval())


@torch.no_grad()
def measure(data, painter, steps=30, tries=3):
    """Seconds for one picture and for many, guided, decoding included."""
    decoder = Decoder().to(data.device).eval()
    for count in (1, 16):
        words, mask = data.sentence.read(['a red apple'] * count)
        empty, empty_mask = data.sentence.read([''])
        for i in range(tries):
            noise = torch.randn(count, LATENT_CHANNELS, LATENT_SIZE, LATENT_SIZE, device=data.device)
            begin = time.time()
            with torch.autocast(data.kind, dtype=torch.bfloat16):
                total = decoder(sample(painter, noise, words, mask, empty, empty_mask, steps=steps)).sum().item()
        print(f'{count} at once, {steps} steps: {(time.time() - begin) / count:.3f} s a picture (sum {total:.0f})', flush=True)


class Data:
    def __init__(self, args):
        self.args = args
        self.device = torch.device('cuda' if torch.cuda.is_available() else 'cpu')
        self.kind = self.device.type
        self.fused = self.kind == 'cuda'
        self.index = read_index(args.data)
        if args.first:
            self.index['sprites'] = self.index['sprites'][:args.first]
        begin = time.time()
        self.sprites = read_sprites(args.data, self.index, self.device)
        self.table, self.facts = look_at(self.sprites)
        self.sentence = Sentence(args.data, self.device)
        self.shape = {'width': args.width, 'depth': args.depth, 'heads': args.width // 64}
        paintable = sum(one['paintable'] for one in self.facts)
        print(f'{len(self.sprites)} sprites, {paintable} can be painted, {time.time() - begin:.0f} s', flush=True)

    def scenes(self, batch, size, **options):
        return Scenes(self.args.data, self.index, self.facts, batch, size, **options)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('data')
    parser.add_argument('out')
    for stage in ('autoencoder', 'judge', 'painter'):
        parser.add_argument(f'--{stage}', type=float, default=0, help='seconds')
    parser.add_argument('--autoencoder-batch', type=int, default=32)
    parser.add_argument('--judge-batch', type=int, default=1024)
    parser.add_argument('--painter-batch', type=int, default=384)
    parser.add_argument('--pool', type=int, default=49_152, help='scenes that the painter learns from at a time')
    parser.add_argument('--fresh', type=int, default=512, help='so many of them are replaced at once')
    parser.add_argument('--reuse', type=int, default=4, help='after so many steps')
    parser.add_argument('--width', type=int, default=384)
    parser.add_argument('--depth', type=int, default=12)
    parser.add_argument('--rate', type=float, default=1e-3)
    parser.add_argument('--workers', type=int, default=14)
    parser.add_argument('--first', type=int, default=0, help='only so many sprites, for a quick try')
    parser.add_argument('--compile', action='store_true')
    args = parser.parse_args()
    torch.backends.cudnn.benchmark = True
    torch.set_float32_matmul_precision('high')
    torch.manual_seed(1)
    data = Data(args)
    with open(f'{args.out}/shape.json', 'w') as file:
        json.dump(data.shape, file)
    if args.autoencoder:
        train_autoencoder(data, args.autoencoder, args.out)
    if args.judge:
        train_judge(data, args.judge, args.out)
    if args.painter:
        train_painter(data, args.painter, args.out)


if __name__ == '__main__':
    main()
