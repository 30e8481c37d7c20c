"""From noise to a latent: the same steps as the server's engine takes."""
import torch

SHIFT = 2.0


def times(steps):
    u = torch.linspace(1, 0, steps + 1)
    return (SHIFT * u / (1 + (SHIFT - 1) * u)).tolist()


@torch.no_grad()
def sample(painter, noise, words, mask, empty_words, empty_mask, steps=30, guidance=5.0):
    n = len(noise)
    x, before, step_before = noise, None, None
    empty_words, empty_mask = empty_words.expand(n, -1, -1), empty_mask.expand(n, -1)
    at = times(steps)
    for i in range(steps):
        t = torch.full((2 * n,), at[i], device=noise.device)
        v = painter(torch.cat([x, x]), t, torch.cat([words, empty_words]), torch.cat([mask, empty_mask])).float()
        v = v[n:] + guidance * (v[:n] - v[n:])
        step = at[i + 1] - at[i]
        slope = v if before is None else v + (v - before) * step / (2 * step_before)
        x = x + step * slope
        before, step_before = v, step
    return x
