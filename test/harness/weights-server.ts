/** A real HTTP server that has one file of weights, and a folder to download it into. */
import { createHash } from 'node:crypto'
import fs from 'node:fs/promises'
import http from 'node:http'
import type { AddressInfo } from 'node:net'
import os from 'node:os'
import path from 'node:path'
import type { PodWeights } from '../../src/contract/pod-weights.ts'

export interface WeightsServer {
  readonly folder: string
  readonly body: Buffer
  readonly sha256: string
  /** What each request is answered with; the file, when there is nothing more. */
  answers: Array<(response: http.ServerResponse) => void>
  readonly asked: Array<{ readonly key: string | undefined; readonly range: string | undefined }>
  /** Of a pod that mounts the file at two paths. */
  order(change?: Partial<PodWeights> & { readonly sha256?: string }): PodWeights
  close(): Promise<void>
}

export async function startWeightsServer(): Promise<WeightsServer> {
  const folder = await fs.mkdtemp(path.join(os.tmpdir(), 'berth-pod-weights-'))
  const body = Buffer.alloc(5_000, 'weights')
  const sha256 = createHash('sha256').update(body).digest('hex')
  const asked: WeightsServer['asked'] = []
  const server = http.createServer((request, response) => {
    const { authorization: key, range } = request.headers
    asked.push({ key, range })
    const own = lab.answers.shift()
    if (own !== undefined) return own(response)
    const from = Number(/^bytes=(\d+)-$/.exec(range ?? '')?.[1] ?? 0)
    const part = { 'content-range': `bytes ${from}-${body.length - 1}/${body.length}` }
    response.writeHead(from > 0 ? 206 : 200, { 'content-length': body.length - from, ...(from > 0 ? part : {}) })
    response.end(body.subarray(from))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const lab: WeightsServer = {
    folder,
    body,
    sha256,
    answers: [],
    asked,
    order: ({ sha256: digest = sha256, ...change } = {}) => ({
      server: url,
      workloadId: 'tag',
      authorization: 'Berth-Pod token',
      allowPrivate: false,
      folder,
      files: ['model.gguf', 'copies/same.gguf'].map((at) => ({ path: at, bytes: body.length, sha256: digest })),
      ...change,
    }),
    close: async () => {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
      await fs.rm(folder, { recursive: true })
    },
  }
  return lab
}
