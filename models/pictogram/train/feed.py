"""Scenes without end, made by processes of their own and handed over as tensors."""
import random

import torch
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from canvas import pack
from scenes import SceneMaker
from sentence import read_tokenizer


class Scenes(IterableDataset):
    def __init__(self, folder, index, facts, batch, canvas_size, seed, with_held_out=False, only_single=False):
        self.__dict__.update(locals())

    def __iter__(self):
        worker = get_worker_info()
        seed = self.seed * 1_000 + (worker.id if worker else 0)
        maker = SceneMaker(self.index, self.facts, seed, self.with_held_out)
        tokenizer = read_tokenizer(self.folder)
        generator = random.Random(seed)
        while True:
            scenes = []
            while len(scenes) < self.batch:
                scene = maker.make()
                if not self.only_single or len(scene['items']) == 1:
                    scenes.append(scene)
            # Some scenes come without words, so that the painter also learns what pictures look like at all.
            texts = ['' if generator.random() < 0.1 else scene['text'] for scene in scenes]
            encoded = tokenizer.encode_batch(texts)
            batch = pack(scenes, generator, self.canvas_size, self.index['size'])
            batch['ids'] = torch.tensor([one.ids for one in encoded])
            batch['mask'] = torch.tensor([one.attention_mask for one in encoded]).float()
            batch['concept'] = torch.tensor([scene['concepts'][0] for scene in scenes])
            yield batch


def feed(scenes, device, workers):
    options = {'num_workers': workers, 'prefetch_factor': 4} if workers > 0 else {}
    for batch in DataLoader(scenes, batch_size=None, **options):
        yield {key: value.to(device, non_blocking=True) if torch.is_tensor(value) else value for key, value in batch.items()}
