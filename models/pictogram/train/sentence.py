"""all-MiniLM-L6-v2 in PyTorch, read from the very ONNX file that the server runs, so that what the painter learns to
read is what it will be given. That file rounds its numbers to 8 bits on the way; the same is done here, per text.
"""
import onnx
import torch
import torch.nn.functional as F
from onnx import numpy_helper
from tokenizers import Tokenizer

from painter import WORDS

LAYERS, HEADS, WIDTH = 6, 12, 384
LINEARS = {
    'q': 'attention.self.query', 'k': 'attention.self.key', 'v': 'attention.self.value',
    'o': 'attention.output.dense', 'up': 'intermediate.dense', 'down': 'output.dense',
}


def read_tokenizer(folder):
    tokenizer = Tokenizer.from_file(f'{folder}/tokenizer.json')
    tokenizer.enable_truncation(WORDS)
    tokenizer.enable_padding(length=WORDS)
    return tokenizer


def read_weights(folder):
    graph = onnx.load(f'{folder}/sentence.onnx').graph
    values = {one.name: numpy_helper.to_array(one) for one in graph.initializer}
    maker = {name: node for node in graph.node for name in node.output}
    weights = {name: torch.from_numpy(value.copy()) for name, value in values.items() if value.dtype == 'float32'}

    def matrix(name):
        base = name.removesuffix('_quantized')
        zero = values[f'{base}_zero_point'].astype('float32')
        return torch.from_numpy((values[name].astype('float32') - zero) * values[f'{base}_scale'])

    for name in values:
        if name.startswith('embeddings.') and name.endswith('_quantized'):
            weights[name.removesuffix('_quantized')] = matrix(name)
    for node in graph.node:
        biases = [name for name in node.input if name.endswith('.bias') and 'LayerNorm' not in name]
        if node.op_type != 'Add' or not biases:
            continue
        found = [name for name in node.input if name not in values][0]
        while maker[found].op_type != 'MatMulInteger':
            found = maker[found].input[0]
        weights[biases[0].replace('.bias', '.weight')] = matrix(maker[found].input[1])
    return weights


def rounded(x, mask):
    """Each text by itself to 256 steps between its lowest and its highest number, zero among them."""
    seen = x * mask
    low = seen.amin((1, 2), keepdim=True).clamp(max=0)
    step = ((seen.amax((1, 2), keepdim=True).clamp(min=0) - low) / 255).clamp_min(1e-9)
    zero = (-low / step).round()
    return ((x / step).round().clamp(-zero, 255 - zero)) * step


class Sentence:
    def __init__(self, folder, device):
        self.w = {name: value.to(device) for name, value in read_weights(folder).items()}
        self.device = device
        self.tokenizer = read_tokenizer(folder)

    def linear(self, x, name):
        return x @ self.w[f'{name}.weight'] + self.w[f'{name}.bias']

    def norm(self, x, name):
        return F.layer_norm(x, (WIDTH,), self.w[f'{name}.weight'], self.w[f'{name}.bias'], 1e-12)

    @torch.no_grad()
    def states(self, ids, mask):
        """[N, T, 384] for [N, T]; zero where there is no word."""
        n, length = ids.shape
        ids, mask = ids.to(self.device), mask.to(self.device).float()[:, :, None]
        x = self.w['embeddings.word_embeddings.weight'][ids] + self.w['embeddings.position_embeddings.weight'][:length]
        x = self.norm(x + self.w['embeddings.token_type_embeddings.weight'][0], 'embeddings.LayerNorm')
        far = (1 - mask[:, None, None, :, 0]) * -1e4
        heads = lambda y: y.reshape(n, length, HEADS, WIDTH // HEADS).transpose(1, 2)
        for layer in range(LAYERS):
            at = {short: f'encoder.layer.{layer}.{name}' for short, name in LINEARS.items()}
            y = rounded(x, mask)
            q, k, v = (heads(self.linear(y, at[one])) for one in ('q', 'k', 'v'))
            attention = (q @ k.transpose(-1, -2) / (WIDTH // HEADS) ** 0.5 + far).softmax(-1)
            y = (attention @ v).transpose(1, 2).reshape(n, length, WIDTH)
            x = self.norm(x + self.linear(rounded(y, mask), at['o']), f'encoder.layer.{layer}.attention.output.LayerNorm')
            y = F.gelu(self.linear(rounded(x, mask), at['up']))
            x = self.norm(x + self.linear(rounded(y, mask), at['down']), f'encoder.layer.{layer}.output.LayerNorm')
        return x * mask

    def read(self, texts):
        encoded = self.tokenizer.encode_batch(texts)
        ids = torch.tensor([one.ids for one in encoded])
        mask = torch.tensor([one.attention_mask for one in encoded]).float()
        return self.states(ids, mask), mask.to(self.device)

    def directions(self, texts):
        """The sentence embeddings: means of the words, of length 1."""
        words, mask = self.read(texts)
        return F.normalize(words.sum(1) / mask.sum(1, keepdim=True), dim=1)
