/** A running Berth, as the programs of this folder use it: at BERTH_URL, with the key in BERTH_KEY. */
export interface Asked {
  readonly prompt: string
  readonly seed: number
  readonly steps: number
}

const SIDE = 512
const EMBEDDED_AT_ONCE = 100

export async function paint({ prompt, seed, steps }: Asked): Promise<Buffer> {
  const answer = (await post('/v1/image/generation', {
    model_name: 'pictogram',
    prompt,
    seed,
    steps,
    width: SIDE,
    height: SIDE,
  })) as { images: Array<{ image: string }> }
  return Buffer.from(answer.images[0]?.image ?? '', 'base64')
}

export async function embed(texts: readonly string[]): Promise<Map<string, Float32Array>> {
  const vectors = new Map<string, Float32Array>()
  for (let i = 0; i < texts.length; i += EMBEDDED_AT_ONCE) {
    const input = texts.slice(i, i + EMBEDDED_AT_ONCE)
    const answer = (await post('/v1/embeddings', { model: 'all-minilm-l6-v2', input })) as {
      data: Array<{ embedding: number[] }>
    }
    for (const [k, { embedding }] of answer.data.entries()) vectors.set(input[k] ?? '', Float32Array.from(embedding))
  }
  return vectors
}

async function post(path: string, body: object): Promise<unknown> {
  const response = await fetch(new URL(path, process.env['BERTH_URL'] ?? 'http://127.0.0.1:8420'), {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${process.env['BERTH_KEY'] ?? ''}` },
    body: JSON.stringify(body),
  })
  if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`)
  return response.json()
}
