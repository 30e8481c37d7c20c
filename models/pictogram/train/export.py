"""Writes the trained weights as ONNX files with weights of 8 bits.

    python3 export.py OUT MODEL

Only the weights are rounded, each output channel by its own scale, and they are brought back to floats when the file
is loaded: nothing else of the arithmetic changes.
"""
import json
import sys

import numpy
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper

from autoencoder import Decoder
from judge import JUDGE_SIZE, Judge
from painter import LATENT_CHANNELS, LATENT_SIZE, WORD_DIMENSIONS, WORDS, Painter
from sampler import SHIFT
from train import load

OPSET = 16
"""Smaller ones stay as they are: they are few, and biases and scales among them."""
LEAST_NUMBERS = 4_096


def write(model, inputs, names, path):
    """`names`: of the inputs, then of the output. The first dimension of each is free."""
    options = {} if torch.__version__.startswith('1.') else {'dynamo': False}
    torch.onnx.export(
        model, inputs, path, input_names=names[:-1], output_names=names[-1:], opset_version=OPSET,
        dynamic_axes={name: {0: 'batch'} for name in names}, **options)
    shrink(path)


def shrink(path):
    model = onnx.load(path)
    graph = model.graph
    axis_of = {}
    for node in graph.node:
        if node.op_type in ('Conv', 'MatMul', 'Gemm'):
            axis_of[node.input[1]] = -1 if node.op_type == 'MatMul' else 0
    kept, nodes = [], []
    for one in graph.initializer:
        value = numpy_helper.to_array(one)
        if value.dtype != numpy.float32 or value.size < LEAST_NUMBERS or one.name not in axis_of:
            kept.append(one)
            continue
        others = tuple(i for i in range(value.ndim) if i != axis_of[one.name] % value.ndim)
        scale = numpy.maximum(numpy.abs(value).max(axis=others, keepdims=True) / 127, 1e-12).astype(numpy.float32)
        kept.append(numpy_helper.from_array(numpy.round(value / scale).astype(numpy.int8), f'{one.name}.int8'))
        kept.append(numpy_helper.from_array(scale, f'{one.name}.scale'))
        nodes.append(helper.make_node('Cast', [f'{one.name}.int8'], [f'{one.name}.whole'], to=TensorProto.FLOAT))
        nodes.append(helper.make_node('Mul', [f'{one.name}.whole', f'{one.name}.scale'], [one.name]))
    all_nodes = nodes + list(graph.node)
    del graph.initializer[:], graph.node[:]
    graph.initializer.extend(kept)
    graph.node.extend(all_nodes)
    onnx.save(model, path)


def main(out, target):
    with open(f'{out}/shape.json') as file:
        painter = load(Painter(**json.load(file)), f'{out}/painter.pt').float()
    latent = torch.randn(2, LATENT_CHANNELS, LATENT_SIZE, LATENT_SIZE)
    inputs = (latent, torch.rand(2), torch.randn(2, WORDS, WORD_DIMENSIONS), torch.ones(2, WORDS))
    write(painter, inputs, ['latent', 'time', 'words', 'word_mask', 'velocity'], f'{target}/painter.onnx')
    write(load(Decoder(), f'{out}/decoder.pt').float(), latent, ['latent', 'picture'], f'{target}/decoder.onnx')
    picture = torch.rand(2, 3, JUDGE_SIZE, JUDGE_SIZE)
    write(load(Judge(), f'{out}/judge.pt').float(), picture, ['picture', 'label'], f'{target}/judge.onnx')
    facts = {
        'version': '1', 'latent': [LATENT_CHANNELS, LATENT_SIZE, LATENT_SIZE], 'native': 16 * LATENT_SIZE,
        'words': WORDS, 'dimensions': WORD_DIMENSIONS, 'shift': SHIFT,
    }
    with open(f'{target}/pictogram.json', 'w') as file:
        json.dump(facts, file, indent=2)
        file.write('\n')


if __name__ == '__main__':
    main(sys.argv[1], sys.argv[2])
