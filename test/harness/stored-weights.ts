/** Weights of a model in the store of a server, which does not run it itself. */
import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import path from 'node:path'
import type { Weights } from '../../src/contract/weights.ts'
import { succeed } from './journey.ts'
import type { TestServer } from './server.ts'

export interface StoredWeights {
  readonly weights: Weights
  /** On the server. */
  readonly file: string
}

/** `write` writes the file of the model. */
export async function storeWeights(
  { operator, dataDir }: Pick<TestServer, 'operator' | 'dataDir'>,
  name: string,
  write: (file: string) => Promise<void>,
): Promise<StoredWeights> {
  const file = path.join(dataDir, `${name.replace('/', '-')}.gguf`)
  await write(file)
  const content = await readFile(file)
  const facts = { bytes: content.length, sha256: createHash('sha256').update(content).digest('hex') }
  const files = [{ source: `file:${file}`, file: 'model.gguf', ...facts }]
  await succeed(operator, 'POST', '/v2/operator/models', {
    name,
    kind: 'chat',
    engine: 'llama',
    files,
    enabled: false,
  })
  const source = { kind: 'server', model: name, file: 'model.gguf' } as const
  return { file, weights: { mountPath: '/models', files: [{ path: 'model.gguf', ...facts, source }] } }
}
