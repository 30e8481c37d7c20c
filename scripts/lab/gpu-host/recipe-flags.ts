/**
 * Prints how the recipe `llama.cpp` starts its engine: a line of JSON per kind of model, with arguments and environment.
 * Usage: npx tsx scripts/lab/gpu-host/recipe-flags.ts MODEL_FILE >recipe-flags.jsonl
 */
import path from 'node:path'
import { replicaOf } from '../../../src/domain/recipe.ts'

const [file = '/model.gguf'] = process.argv.slice(2)
const source = { kind: 'https', url: 'https://weights.example.com/model.gguf' } as const
const files = [{ path: path.basename(file), bytes: 1, sha256: 'a'.repeat(64), source }]
const order = { name: 'llama.cpp', contextTokens: 4_096, weights: { mountPath: path.dirname(file), files } } as const
for (const kind of ['chat', 'embedding'] as const) {
  const replica = replicaOf(order, { name: 'lab', kind, gpuCount: 1, apiKey: 'lab-key' })
  if (!replica.ok) throw new Error(replica.message)
  const { args, env } = replica.value
  process.stdout.write(`${JSON.stringify({ kind, args, env })}\n`)
}
