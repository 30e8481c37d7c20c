"""Muon: momentum whose every matrix is brought near to the nearest orthogonal one. Matrices of one shape go together."""
import torch


@torch.no_grad()
def orthogonal(g):
    """A few steps of Newton and Schulz on [K, rows, columns]."""
    a, b, c = 3.4445, -4.7750, 2.0315
    x = g.bfloat16()
    tall = x.shape[1] > x.shape[2]
    if tall:
        x = x.transpose(1, 2)
    x = x / (x.norm(dim=(1, 2), keepdim=True) + 1e-7)
    for _ in range(5):
        s = x @ x.transpose(1, 2)
        x = a * x + (b * s + c * (s @ s)) @ x
    return x.transpose(1, 2) if tall else x


class Muon(torch.optim.Optimizer):
    def __init__(self, parameters, lr=1e-3, momentum=0.95, weight_decay=0.01):
        by_shape = {}
        for one in parameters:
            by_shape.setdefault(tuple(one.shape), []).append(one)
        groups = [{'params': group} for group in by_shape.values()]
        super().__init__(groups, {'lr': lr, 'momentum': momentum, 'weight_decay': weight_decay})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            parameters = group['params']
            state = self.state[parameters[0]]
            gradient = torch.stack([one.grad for one in parameters])
            if 'momentum' not in state:
                state['momentum'] = torch.zeros_like(gradient)
            buffer = state['momentum']
            buffer.lerp_(gradient, 1 - group['momentum'])
            update = orthogonal(gradient.lerp(buffer, group['momentum'])).to(gradient.dtype)
            # As large as AdamW's would be, so that both take one rate.
            scale = 0.2 * max(update.shape[1:]) ** 0.5
            for one, change in zip(parameters, update.unbind(0)):
                one.mul_(1 - group['lr'] * group['weight_decay'])
                one.add_(change, alpha=-group['lr'] * scale)
