"""A small network that looks at a picture and tells where in the space of sentence embeddings its subject lies.
It is for tests and figures only, and was trained on all names, those that the painter has never met included.
"""
import torch.nn.functional as F
from torch import nn

JUDGE_SIZE = 64


class Judge(nn.Module):
    def __init__(self, width=48):
        super().__init__()

        def stage(a, b):
            return nn.Sequential(
                nn.Conv2d(a, b, 3, stride=2, padding=1), nn.BatchNorm2d(b), nn.ReLU(),
                nn.Conv2d(b, b, 3, padding=1), nn.BatchNorm2d(b), nn.ReLU(),
            )

        self.layers = nn.Sequential(
            stage(3, width), stage(width, 2 * width), stage(2 * width, 4 * width), stage(4 * width, 4 * width),
            nn.Flatten(), nn.Linear(4 * width * 16, 384),
        )

    def forward(self, picture):
        return F.normalize(self.layers(picture), dim=1)
