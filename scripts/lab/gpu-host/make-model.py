#!/usr/bin/env python3
"""Writes a GGUF model of the shape of a Llama of 8 billion weights, with random weights in 16 bits: as fast as a trained
one, but what it says means nothing. With LAYERS=4 it has fewer. Usage: make-model.py GGUF_PY_FOLDER OUTPUT"""

import os
import sys

sys.path.insert(0, sys.argv[1])
import gguf  # noqa: E402
import numpy as np  # noqa: E402

LAYERS = int(os.environ.get("LAYERS", "32"))
WIDTH, HIDDEN, HEADS, KV_HEADS, VOCABULARY = 4096, 14336, 32, 8, 32768
KV_WIDTH = WIDTH // HEADS * KV_HEADS
TEMPLATE = "{% for message in messages %}{{ message.role }}: {{ message.content }}\n{% endfor %}assistant:"

random = np.random.default_rng(7)
# Every matrix is a window of one random block: writing sixteen gigabytes is then as fast as the disk.
block = (random.standard_normal(HIDDEN * WIDTH + 2**20, dtype=np.float32) * 0.02).astype(np.float16)


def matrix(rows: int, columns: int) -> np.ndarray:
    start = int(random.integers(0, block.size - rows * columns + 1))
    return block[start : start + rows * columns].reshape(rows, columns)


def pieces() -> list[str]:
    letters = [chr(ord("a") + i) for i in range(26)]
    words = [*letters, *(f"▁{one}" for one in letters), "▁"]
    words += [f"▁{a}{b}{c}{d}" for a in letters for b in letters for c in letters for d in letters[:3]]
    return words[: VOCABULARY - 259]


writer = gguf.GGUFWriter(sys.argv[2], "llama")
writer.add_name("random-8b")
writer.add_context_length(32768)
writer.add_embedding_length(WIDTH)
writer.add_block_count(LAYERS)
writer.add_feed_forward_length(HIDDEN)
writer.add_head_count(HEADS)
writer.add_head_count_kv(KV_HEADS)
writer.add_rope_dimension_count(WIDTH // HEADS)
writer.add_layer_norm_rms_eps(1e-5)
writer.add_vocab_size(VOCABULARY)
writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16)

tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *pieces()]
tokens += [f"▁filler{i}" for i in range(VOCABULARY - len(tokens))]
writer.add_tokenizer_model("llama")
writer.add_token_list(tokens)
writer.add_token_scores([-float(i) for i in range(VOCABULARY)])
kinds = gguf.TokenType
writer.add_token_types([kinds.UNKNOWN, kinds.CONTROL, kinds.CONTROL] + [kinds.BYTE] * 256 + [kinds.NORMAL] * (VOCABULARY - 259))
writer.add_bos_token_id(1)
writer.add_eos_token_id(2)
writer.add_chat_template(TEMPLATE)

ones = np.ones(WIDTH, dtype=np.float32)
writer.add_tensor("token_embd.weight", matrix(VOCABULARY // 8, WIDTH).repeat(8, axis=0))
for layer in range(LAYERS):
    shapes = {
        "attn_q": (WIDTH, WIDTH),
        "attn_k": (KV_WIDTH, WIDTH),
        "attn_v": (KV_WIDTH, WIDTH),
        "attn_output": (WIDTH, WIDTH),
        "ffn_gate": (HIDDEN, WIDTH),
        "ffn_up": (HIDDEN, WIDTH),
        "ffn_down": (WIDTH, HIDDEN),
    }
    for name, (rows, columns) in shapes.items():
        writer.add_tensor(f"blk.{layer}.{name}.weight", matrix(rows, columns))
    for name in ("attn_norm", "ffn_norm"):
        writer.add_tensor(f"blk.{layer}.{name}.weight", ones)
writer.add_tensor("output_norm.weight", ones)
# Large, so that the most likely token is far ahead, and zero for bytes and control tokens, so that all output is text.
output = random.permuted(matrix(VOCABULARY // 8, WIDTH).repeat(8, axis=0), axis=0) * np.float16(10)
output[:259] = 0
writer.add_tensor("output.weight", output)
writer.write_header_to_file()
writer.write_kv_data_to_file()
writer.write_tensors_to_file()
writer.close()
